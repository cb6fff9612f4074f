"""Objectives: pure functions from embeddings and labels to a loss that can be differentiated."""

from ccml.objectives._contrastive import contrastive
from ccml.objectives._knca import SELECTIONS, knca
from ccml.objectives._large_margin import large_margin
from ccml.objectives._local import local
from ccml.objectives._losses import LOSSES
from ccml.objectives._nca import nca
from ccml.objectives._nearest_mean import nearest_mean
from ccml.objectives._per_class import per_class
from ccml.objectives._search import Pool

__all__ = [
    "LOSSES",
    "SELECTIONS",
    "Pool",
    "contrastive",
    "knca",
    "large_margin",
    "local",
    "nca",
    "nearest_mean",
    "per_class",
]
