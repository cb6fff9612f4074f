"""The one optimisation loop: batches, schedule, early stopping, checkpoints, callbacks; streams."""

from ccml.training._batches import hold_out, pools
from ccml.training._callbacks import Callback, progress_bar
from ccml.training._checkpoint import Checkpoint, CheckpointError
from ccml.training._loop import TrainingResult, train
from ccml.training._online import OnlineTraining
from ccml.training._options import TrainingOptions
from ccml.training._ranks import Ranks, Share, joined, refuse_several, share_queries
from ccml.training._rows import Rows
from ccml.training._schedule import Plateau
from ccml.training._scores import ScoreRule, ccknn_score, softmax_score
from ccml.training._steps import embed, seeded_torch

__all__ = [
    "Callback",
    "Checkpoint",
    "CheckpointError",
    "OnlineTraining",
    "Plateau",
    "Ranks",
    "Rows",
    "ScoreRule",
    "Share",
    "TrainingOptions",
    "TrainingResult",
    "ccknn_score",
    "embed",
    "hold_out",
    "joined",
    "pools",
    "progress_bar",
    "refuse_several",
    "seeded_torch",
    "share_queries",
    "softmax_score",
    "train",
]
