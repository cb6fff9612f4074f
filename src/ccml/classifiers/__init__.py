"""Classifiers: scikit-learn estimators that decide by neighbours within each class."""

from ccml.classifiers._ccknn import CCKNNClassifier
from ccml.classifiers._nbnn import NBNNClassifier
from ccml.classifiers._nearest_mean import NearestMeanClassifier

__all__ = ["CCKNNClassifier", "NBNNClassifier", "NearestMeanClassifier"]
