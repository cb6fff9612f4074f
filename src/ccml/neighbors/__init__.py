"""Exact nearest neighbours, per class and overall."""

from ccml.neighbors._class_index import ClassIndex, Neighbors, mean_distances

__all__ = ["ClassIndex", "Neighbors", "mean_distances"]
