"""What learners ask of their rows, labels, callbacks, checkpoint and device."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from ccml._dask import refuse_dask
from ccml._validation import plain_labels


def check_labelled(
    owner: BaseEstimator,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    images: bool = False,
    reset: bool = True,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float32] | None]:
    """Return rows, labels and weights, without rows of weight 0. Only images may be bytes."""
    refuse_dask(type(owner).__name__, X)
    dtypes = [np.float64, np.float32, *([np.uint8] if images else [])]
    X, y = validate_data(owner, X, y, dtype=dtypes, allow_nd=images, reset=reset)
    y = plain_labels(y)
    check_classification_targets(y)
    if sample_weight is None:
        return X, y, None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float32, ensure_non_negative=True)
    return X[weight > 0], y[weight > 0], weight[weight > 0]


def check_classes(owner: BaseEstimator, y: NDArray[Any]) -> None:
    """Refuse labels from which nothing can be learned."""
    name = type(owner).__name__
    labels, counts = np.unique(y, return_counts=True)
    if len(labels) < 2:
        raise ValueError(
            f"{name} needs at least 2 classes to tell apart; y has 1 class ({labels[0]!r})."
        )
    if counts.max() < 2:
        raise ValueError(
            f"{name} needs a class with at least 2 samples; every class here has 1. "
            "Give more samples per class."
        )


def check_callbacks(owner: str, callbacks: Any) -> None:
    """Refuse what can't be called after every epoch."""
    callbacks = () if callbacks is None else callbacks
    if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
        raise ValueError(
            f"{owner}(callbacks={callbacks!r}) must be a list of functions of (epoch, loss, "
            "validation_error)."
        )


def check_checkpoint(name: str, path: Any, random_state: Any) -> None:
    """Refuse what no run could be saved to, or go on from."""
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise ValueError(f"{name}(checkpoint={path!r}) must be the path of a file.")
    folder = os.path.dirname(os.fspath(path)) or "."
    if not os.path.isdir(folder) or os.path.isdir(path):
        raise ValueError(
            f"{name}(checkpoint={path!r}) must be the path of a file in a folder that exists."
        )
    if random_state is None:
        raise ValueError(
            f"{name}(checkpoint=...) needs a random_state, such as 0: a run that goes on has to "
            "hold out the same rows."
        )


def check_device(name: str, device: Any) -> None:
    """Refuse a device that torch can't compute on here."""
    try:
        torch.zeros(1, device=torch.device(device)).item()  # "meta" has no values to give
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(
            f"{name}(device={device!r}) isn't a device that can be used here ({reason}). "
            "Use device='cpu'."
        ) from None
