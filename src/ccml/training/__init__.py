"""The one optimisation loop: batches, schedule, early stopping, progress, callbacks."""

from ccml.training._batches import hold_out, pools
from ccml.training._callbacks import Callback, progress_bar
from ccml.training._loop import Rows, TrainingOptions, TrainingResult, train
from ccml.training._schedule import Plateau

__all__ = [
    "Callback",
    "Plateau",
    "Rows",
    "TrainingOptions",
    "TrainingResult",
    "hold_out",
    "pools",
    "progress_bar",
    "train",
]
