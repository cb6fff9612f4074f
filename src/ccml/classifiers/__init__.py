"""Classifiers: scikit-learn estimators that decide by neighbours within each class."""

from ccml.classifiers._ccknn import CCKNNClassifier, Explanation
from ccml.classifiers._nbnn import NBNNClassifier
from ccml.classifiers._nearest_mean import NearestMeanClassifier

__all__ = ["CCKNNClassifier", "Explanation", "NBNNClassifier", "NearestMeanClassifier"]
