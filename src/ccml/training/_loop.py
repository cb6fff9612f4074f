"""One loop for every objective and every embedding."""

import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from ccml.training._batches import pools
from ccml.training._callbacks import Callback, progress_bar
from ccml.training._checkpoint import CheckpointError
from ccml.training._options import TrainingOptions
from ccml.training._rows import Rows
from ccml.training._schedule import Plateau
from ccml.training._scores import ScoreRule
from ccml.training._steps import Steps, TorchRows, seeded_torch

_LOSS_TOLERANCE = 1e-3

Ending = Literal["converged", "max_epochs", "interrupted", "diverged"]


@dataclass(frozen=True)
class TrainingResult:
    """What happened; the best weights are in the embedding itself."""

    loss: NDArray[np.float64]
    validation_error: NDArray[np.float64]  # empty where nothing was held out
    ended: Ending


def train(
    embedding: nn.Module,
    objective: Callable[..., Tensor],
    training: Rows,
    validation: Rows | None,
    score: ScoreRule,
    options: TrainingOptions,
    rng: np.random.Generator,
) -> TrainingResult:
    """Minimise ``objective`` over the weights of ``embedding``, which ends with the best of them.

    Best is the lowest score on the validation rows, or (to a thousandth) the lowest loss where
    there are none. Ctrl-C ends the loop early, also with the best weights so far.

    Parameters
    ----------
    embedding : nn.Module
        Trained in place.
    objective : callable
        ``objective(embeddings, labels, sample_weight=..., pool=...)`` gives a loss. If it is a
        module, its weights are trained too.
    training, validation : Rows
    score : ScoreRule
        How good an embedding is on the validation rows.
    options : TrainingOptions
    rng : numpy.random.Generator
        Shuffles the rows.
    """
    with seeded_torch(rng, options.device):
        return _Run(embedding, objective, training, validation, score, options, rng).to_its_end()


class _Run:
    """A run: where it is, and how it goes on from there."""

    def __init__(
        self,
        embedding: nn.Module,
        objective: Callable[..., Tensor],
        training: Rows,
        validation: Rows | None,
        score: ScoreRule,
        options: TrainingOptions,
        rng: np.random.Generator,
    ) -> None:
        self.steps = Steps(embedding, objective, options, rng)
        self.training, self.validation = training, validation
        self.ranks = training.ranks
        self.checkpoint = options.checkpoint if self.ranks.is_first else None
        self.rule = score
        self.options = options
        self.rng = rng
        self.plateau = Plateau(
            options.n_epochs_no_change,
            self.steps.weights(),
            # Of few validation rows the error stands still while the metric still changes, for
            # better or worse. So at an equal error only a fall of the expected error counts, by a
            # whole row.
            tolerance=_LOSS_TOLERANCE if validation is None else 1 / len(validation.y),
        )
        self.losses: list[float] = []
        self.errors: list[float] = []
        self.has_started = False
        self.epoch_began: Mapping[str, Any] = {}  # state of rng
        self.steps_done = 0  # of the present epoch
        self.total = 0.0
        self.saved_at = time.monotonic()

    def to_its_end(self) -> TrainingResult:
        """Go on until it has converged, or something else ends it."""
        options = self.options
        self._resume()
        ended: Ending = "max_epochs"
        with ExitStack() as stack:
            callbacks = list(options.callbacks) if self.ranks.is_first else []
            if options.verbose and self.ranks.is_first:
                bar = progress_bar(options.max_epochs, options.title)
                callbacks.append(stack.enter_context(bar))
            try:
                if self.validation is not None and not self.has_started:
                    # The start may be as good as it gets.
                    self.plateau.update(self._score(self.validation), self.steps.weights())
                self.has_started = True
                while len(self.losses) < options.max_epochs and not self.plateau.stopped:
                    if not self._epoch(callbacks):
                        ended = "diverged"
                        break
                else:
                    self._save_or_warn()
                if self.plateau.stopped:
                    ended = "converged"
            except KeyboardInterrupt:
                ended = "interrupted"
        self.steps.restore(self.plateau.best_weights)
        return TrainingResult(np.array(self.losses), np.array(self.errors), ended)

    def _epoch(self, callbacks: Sequence[Callback]) -> bool:
        """Go through all rows once, or what is left of them; say whether all is finite."""
        for rows, batch in self._batches_to_do():
            loss = self.steps.step(rows, batch, self.plateau.rate)
            if not np.isfinite(loss):
                return False
            self.total += loss
            self.steps_done += 1
            self._save_in_time()
        loss = self.total / len(self.training.y)
        self.steps_done, self.total = 0, 0.0
        if not (np.isfinite(loss) and self.steps.is_finite()):
            return False
        self.ranks.average_buffers(self.steps.model)
        score = (0.0, loss) if self.validation is None else self._score(self.validation)
        rate_was_cut = self.plateau.update(score, self.steps.weights())
        self.losses.append(loss)
        if self.validation is not None:
            self.errors.append(score[0])
        with self.ranks.together():
            for callback in callbacks:
                callback(len(self.losses), loss, None if self.validation is None else score[0])
        if rate_was_cut:
            self.steps.restore(self.plateau.best_weights)
        return True

    def _batches_to_do(self) -> Iterator[tuple[TorchRows, NDArray[np.intp]]]:
        """Pools of rows and batches of places in them, without those done before a resumption."""
        if self.steps_done:
            self.rng.bit_generator.state = self.epoch_began
        self.epoch_began = self.rng.bit_generator.state
        to_skip = self.steps_done
        options = self.options
        for rows, batches in pools(
            self.training.y, options.pool_size, options.batch_size, self.rng
        ):
            pool = self.steps.on_device(self.training.take(rows))
            for batch in batches:
                if to_skip:
                    to_skip -= 1
                    self.steps.draw_columns(pool)  # so that all draws after it are the same
                else:
                    yield pool, batch

    def _score(self, validation: Rows) -> tuple[float, float]:
        score = self.rule(self.steps.embed, self.training, validation)
        return self.ranks.first(score)  # so that all stop together, whatever they rounded

    def _save_in_time(self) -> None:
        checkpoint = self.checkpoint
        if checkpoint and time.monotonic() - self.saved_at >= checkpoint.seconds:
            self._save_or_warn()

    def _save_or_warn(self) -> None:
        """Save; a disk that is full by now is no reason to lose what has been learned."""
        try:
            self._save()
        except CheckpointError as error:
            warnings.warn(f"{error} Training goes on.", RuntimeWarning, stacklevel=2)

    def _save(self) -> None:
        # Weights may have become infinite in the last step; keep what was saved before it.
        if self.checkpoint is None or not self.steps.is_finite():
            return
        self.checkpoint.save(
            {
                "steps": self.steps.state(),
                "plateau": vars(self.plateau),
                "has_started": self.has_started,
                "losses": self.losses,
                "errors": self.errors,
                "epoch_began": json.dumps(self.epoch_began),
                "steps_done": self.steps_done,
                "total": self.total,
                "rng": json.dumps(self.rng.bit_generator.state),  # between epochs
            }
        )
        self.saved_at = time.monotonic()

    def _resume(self) -> None:
        saved = None
        with self.ranks.together():
            if self.checkpoint is not None:
                saved = self.checkpoint.load()
                if saved is None:
                    self._save()  # so that what can't be written is known at once
        saved = self.ranks.first(saved)
        if saved is None:
            return
        self.steps.load_state(saved["steps"])
        vars(self.plateau).update(saved["plateau"])
        self.losses, self.errors = saved["losses"], saved["errors"]
        self.epoch_began = json.loads(saved["epoch_began"])
        self.steps_done, self.total = saved["steps_done"], saved["total"]
        self.rng.bit_generator.state = json.loads(saved["rng"])
        self.has_started = saved["has_started"]
