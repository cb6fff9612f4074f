"""How to train."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ccml.training._callbacks import Callback
from ccml.training._checkpoint import Checkpoint


@dataclass(frozen=True)
class TrainingOptions:
    """How to train; the names are those of the learners' parameters."""

    batch_size: int
    pool_size: int
    max_epochs: int
    learning_rate: float
    weight_decay: float
    n_epochs_no_change: int
    decayed_layers: Literal["last", "all"] = "last"
    dropout: float = 0.0
    device: str = "cpu"
    verbose: bool = False
    title: str = "training"
    callbacks: Sequence[Callback] = ()
    checkpoint: Checkpoint | None = None
