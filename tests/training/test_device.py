"""On another device nothing comes back to the CPU but a few numbers.

No test machine has a GPU, so one is played: tensors that say they are on "meta" and keep their
values elsewhere. To mix them with tensors of the CPU is an error, as it would be on a GPU.
"""

from functools import partial

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from ccml import objectives
from ccml.embeddings import MLP, Conv, Linear
from ccml.training import Rows, TrainingOptions, train

DEVICE = torch.device("meta")


class Away(torch.Tensor):
    """A tensor on the played device."""

    @staticmethod
    def __new__(cls, values):
        return torch.Tensor._make_wrapper_subclass(
            cls, values.shape, strides=values.stride(), dtype=values.dtype, device=DEVICE
        )

    def __init__(self, values):
        self.values = values

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} outside of the played device")


class PlayedDevice(TorchDispatchMode):
    """Computes on the CPU for tensors that are `Away`; notes what is brought back."""

    def __init__(self):
        super().__init__()
        self.brought_back = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        away = any(isinstance(t, Away) for t in tensors)
        target = kwargs.get("device")
        moves = func is torch.ops.aten._to_copy.default and target is not None
        if away and not moves:
            strangers = [t for t in tensors if not isinstance(t, Away) and t.ndim > 0]
            assert not strangers, f"{func} mixes devices: {[t.shape for t in strangers]}"
        if target is not None:
            kwargs["device"] = torch.device("cpu")
            away = torch.device(target) == DEVICE
            if not away and isinstance(args[0], Away):
                self.brought_back.append(args[0].numel())
        result = func(*self._here(args), **self._here(kwargs))
        if not away:
            return result
        if func._schema.is_mutable:  # in place: what was given is what comes back
            return args[0] if isinstance(args[0], Away) else result
        return tree_map(lambda t: Away(t) if isinstance(t, torch.Tensor) else t, result)

    @staticmethod
    def _here(tree):
        return tree_map(lambda t: t.values if isinstance(t, Away) else t, tree)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 8, 8)).astype(np.float32)
    X[:, 0] += y[:, None]
    return Rows(X, y)


OBJECTIVES = {
    "local": partial(objectives.local, n_neighbors=3),
    "per-class": partial(objectives.per_class, n_neighbors=3),
    "nca": objectives.nca,
    "knca": partial(objectives.knca, n_neighbors=3),
    "large-margin": partial(objectives.large_margin, n_neighbors=3),
    "contrastive": objectives.contrastive,
}
EMBEDDINGS = {
    "linear": lambda: torch.nn.Sequential(
        torch.nn.Flatten(), Linear(np.random.default_rng(0).normal(size=(4, 64)))
    ),
    "mlp": lambda: MLP((16,)).build((8, 8), 4),
    "conv": lambda: Conv(1, max_shift=1).build((8, 8), 4),
}


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
@pytest.mark.parametrize("embedding", EMBEDDINGS.values(), ids=EMBEDDINGS)
def test_training_stays_on_its_device(embedding, objective, rows):
    torch.manual_seed(0)
    options = TrainingOptions(
        batch_size=20, pool_size=20, max_epochs=2, learning_rate=0.01, weight_decay=0.01,
        n_epochs_no_change=5, dropout=0.2, device=str(DEVICE),
    )  # fmt: skip
    module = embedding()
    with PlayedDevice() as device:
        result = train(module, objective, rows, None, None, options, np.random.default_rng(0))
    assert np.isfinite(result.loss).all()
    assert max(device.brought_back, default=0) <= 3  # the sizes of the classes
