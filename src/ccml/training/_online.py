"""Learning from a stream: a step on each chunk, together with rows remembered from before."""

import io
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccml.training._options import TrainingOptions
from ccml.training._rows import Rows
from ccml.training._steps import Steps, seeded_torch


class OnlineTraining:
    """Steps on chunks of a stream, in memory that doesn't grow with it.

    Each step has a batch of new rows and as many remembered ones as queries, so that what was
    learned before isn't forgotten, and looks for neighbours among them and more of the remembered.

    Parameters
    ----------
    embedding, objective, options, rng
        As for `train`. ``options.pool_size`` rows take part in a step.
    memory_size : int
        Rows to remember. Where there are more, the largest class loses its oldest, so that a class
        that no longer appears keeps its place.
    """

    def __init__(
        self,
        embedding: nn.Module,
        objective: Callable[..., Tensor],
        options: TrainingOptions,
        rng: np.random.Generator,
        memory_size: int,
    ) -> None:
        self.steps = Steps(embedding, objective, options, rng)
        self.options = options
        self.rng = rng
        self.memory_size = memory_size
        self.memory: Rows | None = None

    def learn(self, chunk: Rows) -> float:
        """Take the steps for a chunk; return their mean loss."""
        n_batches = -(-len(chunk.y) // self.options.batch_size)
        losses = []
        with seeded_torch(self.rng, self.options.device):
            for batch in np.array_split(self.rng.permutation(len(chunk.y)), n_batches):
                rows, n_queries = self._with_replay(chunk.take(batch))
                loss = self.steps.step(self.steps.on_device(rows), np.arange(n_queries), rate=1.0)
                losses.append(loss / n_queries)
        self._remember(chunk)
        return float(np.mean(losses))

    def is_finite(self) -> bool:
        """Say whether the weights are still numbers to go on with."""
        return self.steps.is_finite()

    def _with_replay(self, new: Rows) -> tuple[Rows, int]:
        """Put remembered rows behind new ones; tell how many of all are queries."""
        if self.memory is None:
            return new, len(new.y)
        n_old = min(len(self.memory.y), max(len(new.y), self.options.pool_size - len(new.y)))
        old = self.memory.take(self.rng.permutation(len(self.memory.y))[:n_old])
        return _join(new, old), len(new.y) + min(n_old, len(new.y))

    def _remember(self, chunk: Rows) -> None:
        rows = chunk if self.memory is None else _join(self.memory, chunk)
        if len(rows.y) > self.memory_size:
            # Without the highest ranks, all from the largest classes, these become alike.
            kept = np.argsort(_rank_from_newest(rows.y), kind="stable")[: self.memory_size]
            rows = rows.take(np.sort(kept))
        self.memory = rows

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that the next chunk depends on, but for ``rng``, as arrays."""
        buffer = io.BytesIO()
        steps = self.steps.state()
        for unused in ("torch_rng", "device_rng"):  # every chunk has its own seed
            steps.pop(unused, None)
        torch.save(steps, buffer)
        state: dict[str, NDArray[Any]] = {"steps": np.frombuffer(buffer.getvalue(), dtype=np.uint8)}
        if self.memory is not None:
            state |= {"X": self.memory.X, "y": self.memory.y}
        return state

    def load_state(self, state: dict[str, NDArray[Any]]) -> Self:
        """Go on from what `state` gave."""
        buffer = io.BytesIO(state["steps"].tobytes())
        self.steps.load_state(torch.load(buffer, weights_only=True, map_location="cpu"))
        if "X" in state:
            self.memory = Rows(state["X"], state["y"])
        return self


def _join(first: Rows, second: Rows) -> Rows:
    return Rows(np.concatenate([first.X, second.X]), np.concatenate([first.y, second.y]))


def _rank_from_newest(y: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many later rows of its class there are for each row."""
    newest_first = y[::-1]
    order = np.argsort(newest_first, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(y))])
    rank = np.empty(len(y), dtype=np.intp)
    rank[order] = np.arange(len(y)) - starts[newest_first[order]]
    return rank[::-1]
