"""A step: embed, compare, descend."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ccml.embeddings import in_use
from ccml.objectives import Pool
from ccml.training._options import TrainingOptions
from ccml.training._ranks import Ranks, Share
from ccml.training._rows import Rows

_WARM_UP_STEPS = 20
_BLOCK_ROWS, _BLOCK_ELEMENTS = 8192, 2**22  # that are embedded at a time
_HAVE_RANDOM_STATES = ("cuda", "xpu")


class TorchRows(NamedTuple):
    """Rows on the device."""

    X: Tensor
    y: Tensor
    weight: Tensor | None
    share: Share | None


class Steps:
    """The embedding, its device and the optimiser: everything a step needs."""

    def __init__(
        self,
        embedding: nn.Module,
        objective: Callable[..., Tensor],
        options: TrainingOptions,
        rng: np.random.Generator,
    ) -> None:
        self.device = torch.device(options.device)
        self.embedding = embedding
        self.objective = objective
        self.options = options
        self.rng = rng
        trained = [part for part in (embedding, objective) if isinstance(part, nn.Module)]
        self.model = nn.ModuleList(trained).to(self.device)
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        if not parameters:
            raise ValueError("The embedding has no weights to train; all are frozen, or none.")
        self.optimizer = torch.optim.Adam(parameters, lr=options.learning_rate)
        # Matrices and filters; a bias or a factor has no cost.
        weights = [p for p in parameters if p.ndim > 1] or parameters
        self.decayed = weights if options.decayed_layers == "all" else weights[-1:]
        self.parameters = parameters
        self.initial_norm = _squared_norm(self.decayed).item() or 1.0
        self.n_steps = 0
        self.seed = torch.initial_seed()

    def on_device(self, rows: Rows) -> TorchRows:
        """Give torch rows to look for neighbours in."""
        X, y = (torch.from_numpy(array).to(self.device) for array in (rows.X, rows.y))
        weight = rows.weight
        weight = None if weight is None else torch.from_numpy(weight).to(self.device)
        return TorchRows(X, y, weight, rows.share)

    def step(self, rows: TorchRows, batch: NDArray[np.intp], rate: float) -> float:
        """Take a step at ``rate`` times the learning rate, with a batch of places in the rows.

        Returns what it minimised, the mean loss of the batch and the weight cost, times the
        number of queries.
        """
        self.n_steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.learning_rate * rate * min(1, self.n_steps / _WARM_UP_STEPS)
        ranks = Ranks() if rows.share is None else rows.share.ranks
        ranks.seed_step(self.seed, self.n_steps)
        queries = torch.from_numpy(batch).to(self.device)
        weight = None if rows.weight is None else rows.weight[queries]
        with _multiplied_inputs(self.embedding, self.draw_columns(rows)):
            # The whole pool is embedded with gradients: a neighbour moves as much as its query.
            embedded = self.embedding(rows.X)
            if rows.share is not None:
                embedded = rows.share.points(embedded)
            loss = self.objective(
                embedded[queries],
                rows.y[queries],
                sample_weight=weight,
                pool=Pool(embedded, rows.y, queries),
            )
        if weight is not None:  # the loss is a weighted mean; a batch counts by its weight
            loss = loss * weight.mean()
        # The paper's weight cost, relative to the start so that it doesn't depend on units.
        cost = self.options.weight_decay * _squared_norm(self.decayed) / self.initial_norm
        self.optimizer.zero_grad(set_to_none=True)
        minimised = loss + cost
        minimised.backward()
        minimised = ranks.average(self.parameters, minimised)
        self.optimizer.step()
        return minimised.item() * len(batch)

    def draw_columns(self, rows: TorchRows) -> Tensor | None:
        """Draw what a step multiplies the columns by: 0 for those that it hides, if any.

        The others are enlarged so that squared distances keep their expectation.
        """
        if self.options.dropout == 0:
            return None
        shown = self.rng.random(rows.X.shape[1:]) >= self.options.dropout
        weight = np.float32((1 - self.options.dropout) ** -0.5)
        return torch.tensor(shown * weight, device=self.device)

    def embed(self, rows: Rows) -> NDArray[np.float32]:
        """Map rows without gradients, in blocks."""
        return rows.whole(embed(self.embedding, rows.X, self.device))

    def weights(self) -> dict[str, Tensor]:
        """Copy the weights."""
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def restore(self, weights: dict[str, Any]) -> None:
        """Go back to weights copied before."""
        self.model.load_state_dict(weights)

    def is_finite(self) -> bool:
        """Say whether the weights are still numbers to go on with."""
        return bool(torch.isfinite(_squared_norm(self.parameters)))

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, but for ``rng``."""
        state = {
            "weights": self.weights(),
            "optimizer": self.optimizer.state_dict(),
            "initial_norm": self.initial_norm,
            "n_steps": self.n_steps,
            "torch_rng": torch.get_rng_state(),
        }
        if self.device.type in _HAVE_RANDOM_STATES:
            state["device_rng"] = torch.get_device_module(self.device).get_rng_state(self.device)
        return state

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.restore(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.initial_norm, self.n_steps = state["initial_norm"], state["n_steps"]
        if "torch_rng" in state:
            torch.set_rng_state(state["torch_rng"])
        if "device_rng" in state and self.device.type in _HAVE_RANDOM_STATES:
            module = torch.get_device_module(self.device)
            module.set_rng_state(state["device_rng"], self.device)


@contextmanager
def seeded_torch(rng: np.random.Generator, device: str = "cpu") -> Iterator[None]:
    """Let what modules draw follow from ``rng``, and leave the user's random numbers alone."""
    kind = torch.device(device).type
    others = [torch.device(device)] if kind in _HAVE_RANDOM_STATES else []
    with torch.random.fork_rng(others, device_type=kind if others else "cuda"):
        torch.manual_seed(int(rng.spawn(1)[0].integers(2**63)))
        yield


@contextmanager
def _multiplied_inputs(embedding: nn.Module, columns: Tensor | None) -> Iterator[None]:
    """Hide columns from an embedding, the same from all rows: so it compares like with like."""
    if columns is None:
        yield
        return
    # Also from rows that the objective embeds by itself, such as centroids.
    hook = embedding.register_forward_pre_hook(lambda _, inputs: (inputs[0] * columns,))
    try:
        yield
    finally:
        hook.remove()


def _squared_norm(parameters: list[nn.Parameter]) -> Tensor:
    return torch.stack([parameter.square().sum() for parameter in parameters]).sum()


@torch.no_grad()
def embed(
    module: nn.Module, X: NDArray[np.float32], device: str | torch.device = "cpu"
) -> NDArray[np.float32]:
    """Map rows by a module as it is in use, not in training, in blocks."""
    size = max(1, min(_BLOCK_ROWS, _BLOCK_ELEMENTS // max(1, X[:1].size)))
    with in_use(module):
        blocks = torch.from_numpy(X).split(size)
        return np.concatenate([module(block.to(device)).cpu().numpy() for block in blocks])
