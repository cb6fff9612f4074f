"""Splits that never change."""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def stratified_split(y: npt.NDArray[np.integer], fraction: float) -> tuple[Indices, Indices]:
    """Take ``fraction`` of every class aside.

    Returns
    -------
    rest, aside : ndarray of int
        Row numbers, both shuffled. A class of n rows has ``round(fraction * n)`` aside.
    """
    # The legacy generator is the one whose stream numpy promises not to change.
    shuffled = np.random.RandomState(0).permutation(len(y))
    is_aside = np.zeros(len(y), dtype=bool)  # in the order of `shuffled`
    for label in np.unique(y):
        (members,) = np.nonzero(y[shuffled] == label)
        is_aside[members[: round(fraction * len(members))]] = True
    return shuffled[~is_aside], shuffled[is_aside]


def train_validation_test(y: npt.NDArray[np.integer]) -> tuple[Indices, Indices, Indices]:
    """Split 56 : 14 : 30, so that train and validation together are 70 % as in the paper."""
    training, test = stratified_split(y, 0.3)
    train, validation = stratified_split(y[training], 0.2)
    return training[train], training[validation], test
