"""Exact nearest neighbours, per class and overall."""

from ccml.neighbors._backend import backend
from ccml.neighbors._batch import search_batch
from ccml.neighbors._class_index import ClassIndex, Neighbors
from ccml.neighbors._partitions import PartitionedIndex
from ccml.neighbors._selection import mean_distances

__all__ = [
    "ClassIndex",
    "Neighbors",
    "PartitionedIndex",
    "backend",
    "mean_distances",
    "search_batch",
]
