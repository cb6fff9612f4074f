"""Learners: scikit-learn transformers into a space where nearest neighbours are of one's class."""

from ccml.learners._ccml import CCML

__all__ = ["CCML"]
