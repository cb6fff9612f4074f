"""Data sets as arrays: fetched, checked against a known content, and split.

``load`` returns a :class:`Dataset`; ``make_sandwich`` and ``make_toy_norb`` draw one. Wine and
digits come with scikit-learn. The others are looked for in the folder ``$CCML_DATA``, then in the
user's cache folder, and are else downloaded into that cache.
"""

from ccml.datasets._dataset import Dataset
from ccml.datasets._files import folders
from ccml.datasets._load import is_here, load, names
from ccml.datasets._norb import load_small_norb
from ccml.datasets._sandwich import make_sandwich
from ccml.datasets._toy_norb import make_toy_norb, write_small_norb

__all__ = [
    "Dataset",
    "folders",
    "is_here",
    "load",
    "load_small_norb",
    "make_sandwich",
    "make_toy_norb",
    "names",
    "write_small_norb",
]
