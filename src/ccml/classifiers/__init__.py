"""Classifiers: scikit-learn estimators that decide by neighbours within each class."""

from ccml.classifiers._ccknn import CCKNNClassifier

__all__ = ["CCKNNClassifier"]
