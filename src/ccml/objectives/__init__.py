"""Objectives: pure functions from embeddings and labels to a loss that can be differentiated."""

from ccml.objectives._local import local
from ccml.objectives._losses import LOSSES
from ccml.objectives._per_class import per_class
from ccml.objectives._search import Pool

__all__ = ["LOSSES", "Pool", "local", "per_class"]
