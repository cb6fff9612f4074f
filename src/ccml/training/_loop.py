"""One loop for every objective and every embedding."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccml.neighbors import ClassIndex
from ccml.objectives import Pool
from ccml.training._batches import pools
from ccml.training._callbacks import Callback, progress_bar
from ccml.training._schedule import Plateau, Score

_WARM_UP_STEPS = 20
_EMBEDDING_BLOCK = 8192
_LOSS_TOLERANCE = 1e-3

Ending = Literal["converged", "max_epochs", "interrupted", "diverged"]


class Rows(NamedTuple):
    """Rows with their classes 0 to C - 1, and weights of mean 1 where the user gave some."""

    X: NDArray[np.float32]
    y: NDArray[np.intp]
    weight: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class TrainingOptions:
    """How to train; the names are those of the learners' parameters."""

    n_neighbors: int
    batch_size: int
    pool_size: int
    max_epochs: int
    learning_rate: float
    weight_decay: float
    n_epochs_no_change: int
    dropout: float = 0.0
    device: str = "cpu"
    verbose: bool = False
    title: str = "training"
    callbacks: Sequence[Callback] = ()


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
    options: TrainingOptions,
    rng: np.random.Generator,
) -> TrainingResult:
    """Minimise ``objective`` over the weights of ``embedding``, which ends with the best of them.

    Best is the lowest CCKNN error on the validation rows, or (to a thousandth) the lowest loss
    where there are none. Ctrl-C ends the loop early, also with the best weights so far.

    Parameters
    ----------
    embedding : nn.Module
        Trained in place.
    objective : callable
        ``objective(embeddings, labels, sample_weight=..., pool=...)`` gives a loss.
    training, validation : Rows
    options : TrainingOptions
    rng : numpy.random.Generator
        Shuffles the rows.
    """
    steps = _Steps(embedding, objective, training, options, rng)
    plateau = Plateau(
        options.n_epochs_no_change,
        steps.weights(),
        # Of few validation rows the error stands still while the metric still changes, for better
        # or worse. So at an equal error only a fall of the expected error counts, by a whole row.
        tolerance=_LOSS_TOLERANCE if validation is None else 1 / len(validation.y),
    )
    losses: list[float] = []
    errors: list[float] = []
    ended: Ending = "max_epochs"
    with ExitStack() as stack:
        callbacks = list(options.callbacks)
        if options.verbose:
            callbacks.append(stack.enter_context(progress_bar(options.max_epochs, options.title)))
        try:
            if validation is not None:  # the start may be as good as it gets
                plateau.update(steps.score(validation), steps.weights())
            for epoch in range(1, options.max_epochs + 1):
                loss = steps.epoch(plateau.rate)
                if not (np.isfinite(loss) and steps.is_finite()):
                    ended = "diverged"
                    break
                score = (0.0, loss) if validation is None else steps.score(validation)
                rate_was_cut = plateau.update(score, steps.weights())
                losses.append(loss)
                if validation is not None:
                    errors.append(score[0])
                for callback in callbacks:
                    callback(epoch, loss, None if validation is None else score[0])
                if rate_was_cut:
                    steps.restore(plateau.best_weights)
                if plateau.stopped:
                    ended = "converged"
                    break
        except KeyboardInterrupt:
            ended = "interrupted"
    steps.restore(plateau.best_weights)
    return TrainingResult(np.array(losses), np.array(errors), ended)


class _Steps:
    """The embedding, its data on the device, and the optimiser: everything a step needs."""

    def __init__(
        self,
        embedding: nn.Module,
        objective: Callable[..., Tensor],
        rows: Rows,
        options: TrainingOptions,
        rng: np.random.Generator,
    ) -> None:
        device = torch.device(options.device)
        self.embedding = embedding.to(device)
        self.objective = objective
        self.rows = rows
        self.options = options
        self.rng = rng
        self.X = torch.tensor(rows.X, device=device)
        self.y = torch.tensor(rows.y, device=device)
        self.sample_weight = (
            None if rows.weight is None else torch.tensor(rows.weight, device=device)
        )
        self.parameters = [p for p in embedding.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(self.parameters, lr=options.learning_rate)
        self.initial_norm = self._squared_norm().item()
        self.n_steps = 0

    def epoch(self, rate: float) -> float:
        """Go through all rows once, at ``rate`` times the learning rate; return what it minimised.

        That is the mean loss over the rows, plus the weight cost.
        """
        options = self.options
        total = torch.zeros((), device=self.y.device)
        for rows, batches in pools(self.rows.y, options.pool_size, options.batch_size, self.rng):
            pool_rows = torch.tensor(rows, device=self.y.device)
            X, y = self.X[pool_rows], self.y[pool_rows]
            weight = None if self.sample_weight is None else self.sample_weight[pool_rows]
            for batch in batches:
                total += self._step(X, y, weight, torch.tensor(batch, device=y.device), rate)
        return total.item() / len(self.y)

    def _step(
        self, X: Tensor, y: Tensor, weight: Tensor | None, queries: Tensor, rate: float
    ) -> Tensor:
        """Take one step; return what it minimised times the number of queries."""
        self.n_steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.learning_rate * rate * min(1, self.n_steps / _WARM_UP_STEPS)
        with self._hidden_columns():
            # The whole pool is embedded with gradients: a neighbour moves as much as its query.
            embedded = self.embedding(X)
            loss = self.objective(
                embedded[queries],
                y[queries],
                sample_weight=None if weight is None else weight[queries],
                pool=Pool(embedded, y, queries),
            )
        if weight is not None:  # the loss is a weighted mean; a batch counts by its weight
            loss = loss * weight[queries].mean()
        # The paper's weight cost, relative to the start so that it doesn't depend on units.
        cost = self.options.weight_decay * self._squared_norm() / self.initial_norm
        self.optimizer.zero_grad(set_to_none=True)
        minimised = loss + cost
        minimised.backward()
        self.optimizer.step()
        return minimised.detach() * len(queries)

    @contextmanager
    def _hidden_columns(self) -> Iterator[None]:
        """Hide columns from the embedding, the same from all rows: so it compares like with like.

        The others are enlarged so that squared distances keep their expectation.
        """
        if self.options.dropout == 0:
            yield
            return
        shown = self.rng.random(self.rows.X.shape[1:]) >= self.options.dropout
        weight = np.float32((1 - self.options.dropout) ** -0.5)
        columns = torch.tensor(shown * weight, device=self.y.device)
        # Also from rows that the objective embeds by itself, such as centroids.
        hook = self.embedding.register_forward_pre_hook(lambda _, inputs: (inputs[0] * columns,))
        try:
            yield
        finally:
            hook.remove()

    def score(self, validation: Rows) -> Score:
        """CCKNN error on the validation rows, and its expectation under Eq. `org_cne`."""
        index = ClassIndex(self._embed(self.rows.X), self.rows.y)
        distances = index.class_distances(self._embed(validation.X), self.options.n_neighbors)
        wrong = index.classes[distances.argmin(axis=1)] != validation.y
        weights = np.exp(distances.min(axis=1, keepdims=True) - distances)  # (n, C)
        own = weights[index.classes == validation.y[:, None]]
        expected_wrong = 1 - own / weights.sum(axis=1)
        return (
            float(np.average(wrong, weights=validation.weight)),
            float(np.average(expected_wrong, weights=validation.weight)),
        )

    @torch.no_grad()
    def _embed(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Map rows without gradients, in blocks."""
        blocks = torch.from_numpy(X).split(_EMBEDDING_BLOCK)
        return np.concatenate(
            [self.embedding(block.to(self.y.device)).cpu().numpy() for block in blocks]
        )

    def weights(self) -> dict[str, Tensor]:
        """Copy the weights."""
        return {name: value.clone() for name, value in self.embedding.state_dict().items()}

    def restore(self, weights: dict[str, Any]) -> None:
        """Go back to weights copied before."""
        self.embedding.load_state_dict(weights)

    def is_finite(self) -> bool:
        """Say whether the weights are still numbers to go on with."""
        return bool(torch.isfinite(self._squared_norm()))

    def _squared_norm(self) -> Tensor:
        return torch.stack([parameter.square().sum() for parameter in self.parameters]).sum()
