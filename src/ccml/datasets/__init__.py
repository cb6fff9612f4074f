"""Data sets as arrays: fetched, checked against a known content, and split.

``load`` returns a :class:`Dataset`; ``make_sandwich`` draws a small one. Wine and digits come with
scikit-learn. ISOLET and MNIST are looked for in the folder ``$CCML_DATA``, then in the user's cache
folder, and are else downloaded into that cache.
"""

from ccml.datasets._dataset import Dataset
from ccml.datasets._load import load
from ccml.datasets._sandwich import make_sandwich

__all__ = ["Dataset", "load", "make_sandwich"]
