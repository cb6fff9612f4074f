"""Embeddings: what maps a row or an image to a point where distances mean something."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from ccml._images import Shape, image_of
from ccml._validation import check_count, check_option

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
_N_COMPONENTS = 64  # unless the user asks for another number
_FILTER_SIZES = (5, 3)  # of the first and the second layer of the paper's networks


class Linear(nn.Module):
    """The map z = Ax, so that squared distances are Mahalanobis distances with M = A^T A.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        The matrix A to start from.

    Examples
    --------
    >>> import torch
    >>> from ccml.embeddings import Linear
    >>> Linear([[1.0, 1.0]])(torch.tensor([[2.0, 3.0]])).tolist()
    [[5.0]]
    """

    def __init__(self, components: ArrayLike) -> None:
        super().__init__()
        self.components = nn.Parameter(torch.tensor(np.asarray(components), dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        """Map rows of shape (n, n_features) to (n, n_components)."""
        return x @ self.components.T


@dataclass(frozen=True)
class MLP:
    """Fully connected layers, for tables and ready-made embeddings.

    A learner centres and scales the columns for it.

    Parameters
    ----------
    hidden : sequence of int
        Units of each hidden layer.
    activation : {"relu", "tanh"}

    Examples
    --------
    >>> from ccml import CCML
    >>> from ccml.embeddings import MLP
    >>> CCML(16, embedding=MLP(hidden=(256, 128)))
    CCML(embedding=MLP(hidden=(256, 128), activation='relu'), n_components=16)
    >>> MLP(hidden=(20,)).build((7,), n_components=2)
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): Linear(in_features=7, out_features=20, bias=True)
      (2): ReLU()
      (3): Linear(in_features=20, out_features=2, bias=True)
    )
    """

    hidden: Sequence[int] = (256,)
    activation: Literal["relu", "tanh"] = "relu"

    def build(self, input_shape: Shape, n_components: int) -> nn.Module:
        """Make the module, with the initial weights that torch draws."""
        check_option("MLP", "activation", self.activation, ACTIVATIONS)
        if not isinstance(self.hidden, Sequence) or isinstance(self.hidden, str):
            raise ValueError(f"MLP(hidden={self.hidden!r}) must be a sequence, such as (256,).")
        sizes = [prod(input_shape), *(check_count("MLP", "hidden", size) for size in self.hidden)]
        layers: list[nn.Module] = [nn.Flatten()]
        for n_in, n_out in pairwise(sizes):
            layers += [nn.Linear(n_in, n_out), ACTIVATIONS[self.activation]()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], n_components))


@dataclass(frozen=True)
class Conv:
    """The paper's convolutional networks, for images.

    Filters of 5 x 5, and of 3 x 3 in a second layer, each followed by an activation and
    max-pooling of 2 x 2; then one linear map.

    Parameters
    ----------
    layers : {1, 2}
    n_filters : int
        Of each layer.
    activation : {"relu", "tanh"}
    image_shape : tuple of int, optional
        (height, width) or (channels, height, width) of images that come as flat rows. Images of
        shape (n, height, width) or (n, channels, height, width) don't need it.
    max_shift : int
        In training, shift each image at random by up to so many pixels; what comes in is 0.

    Examples
    --------
    >>> import torch
    >>> from ccml.embeddings import Conv
    >>> module = Conv(layers=2).build((28, 28), n_components=32)
    >>> module(torch.zeros(5, 28, 28)).shape
    torch.Size([5, 32])
    >>> sum(parameter.numel() for parameter in module.parameters())
    9202
    """

    layers: Literal[1, 2] = 2
    n_filters: int = 10
    activation: Literal["relu", "tanh"] = "relu"
    image_shape: Shape | None = None
    max_shift: int = 0

    def build(self, input_shape: Shape, n_components: int) -> nn.Module:
        """Make the module, with the initial weights that torch draws."""
        if not isinstance(self.layers, int) or self.layers not in (1, 2):
            raise ValueError(f"Conv(layers={self.layers!r}) must be 1 or 2.")
        check_count("Conv", "n_filters", self.n_filters)
        check_option("Conv", "activation", self.activation, ACTIVATIONS)
        check_count("Conv", "max_shift", self.max_shift, minimum=0)
        image = image_of("Conv", input_shape, self.image_shape)
        modules: list[nn.Module] = [_ToImages(image)]
        if self.max_shift:
            modules.append(RandomShift(self.max_shift))
        channels, *size = image
        for filter_size in _FILTER_SIZES[: self.layers]:
            # Pooling first gives the same as the activation first, which would cost four times.
            modules += [
                nn.Conv2d(channels, self.n_filters, filter_size),
                nn.MaxPool2d(2),
                ACTIVATIONS[self.activation](),
            ]
            channels, size = self.n_filters, [(side - filter_size + 1) // 2 for side in size]
        if min(size) < 1:
            raise ValueError(
                f"Conv(layers={self.layers}) needs images of at least "
                f"{'6 x 6' if self.layers == 1 else '12 x 12'} pixels; rows of shape {input_shape}"
                f" are {_describe(image)}. Channels come first: where they are last, use "
                "X.transpose(0, 3, 1, 2)."
            )
        n_outputs = channels * prod(size)
        return nn.Sequential(*modules, nn.Flatten(), nn.Linear(n_outputs, n_components))


Embedding = MLP | Conv | nn.Module | Callable[[Shape], nn.Module]


def build(
    embedding: Embedding, input_shape: Shape, n_components: int | None, device: str = "cpu"
) -> nn.Module:
    """Make a module for inputs of a shape: an embedding's, the user's own, or a function's.

    The user's own module is copied. What it gives for an input must be a vector.

    Examples
    --------
    >>> from torch import nn
    >>> from ccml.embeddings import build
    >>> build(lambda shape: nn.Linear(shape[0], 3), (7,), n_components=None)
    Linear(in_features=7, out_features=3, bias=True)
    """
    if isinstance(embedding, MLP | Conv):
        return embedding.build(input_shape, n_components or _N_COMPONENTS).to(device)
    if isinstance(embedding, nn.Module):
        module = copy.deepcopy(embedding)
    elif callable(embedding) and not isinstance(embedding, type):
        module = copy.deepcopy(embedding(input_shape))
    else:
        module = None
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"embedding={embedding!r} must be 'linear', an embedding such as MLP() or Conv(), a "
            "torch.nn.Module, or a function that takes the shape of an input and returns a module."
        )
    module = module.to(device)
    if not module.training:  # as a whole; parts that the user put in evaluation mode stay in it
        module.train()
    _check_output(module, torch.zeros(2, *input_shape, device=device), n_components)
    return module


def _check_output(module: nn.Module, inputs: Tensor, n_components: int | None) -> None:
    input_shape = tuple(inputs.shape[1:])
    try:
        with torch.no_grad(), in_use(module):
            output: Any = module(inputs)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"The embedding can't map inputs of shape (n, {', '.join(map(str, input_shape))}): "
            f"{str(error).partition(chr(10))[0] or type(error).__name__}"
        ) from error
    shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
    if not isinstance(shape, tuple) or len(shape) != 2 or shape[0] != 2:
        raise ValueError(
            f"The embedding maps 2 inputs of shape {input_shape} to {shape}; it has to give one "
            "vector for each, a tensor of shape (2, n_components)."
        )
    if n_components not in (None, shape[1]):
        raise ValueError(
            f"n_components={n_components}, but the embedding gives {shape[1]}. Leave n_components "
            "at None, or change the module."
        )


@contextmanager
def in_use(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and each of its parts back into its own afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


class RandomShift(nn.Module):
    """In training, shift each image by up to ``max_shift`` pixels either way, filling with 0."""

    def __init__(self, max_shift: int) -> None:
        super().__init__()
        self.max_shift = max_shift

    def forward(self, x: Tensor) -> Tensor:
        """Shift images of shape (n, channels, height, width)."""
        if not self.training:
            return x
        n, _, height, width = x.shape
        m = self.max_shift
        down, right = torch.randint(2 * m + 1, (2, n, 1), device=x.device)
        rows = down + torch.arange(height, device=x.device)  # (n, height), in the padded images
        columns = right + torch.arange(width, device=x.device)
        images = torch.arange(n, device=x.device)[:, None, None]
        padded = nn.functional.pad(x, (m, m, m, m)).movedim(1, -1)
        return padded[images, rows[:, :, None], columns[:, None]].movedim(-1, 1)


class _ToImages(nn.Module):
    """Give flat rows, or images without a channel, the shape (n, channels, height, width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(len(x), *self.shape)


def _describe(image: Shape) -> str:
    channels, height, width = image
    return f"{height} x {width} pixels in {channels} channel{'s' * (channels > 1)}"
