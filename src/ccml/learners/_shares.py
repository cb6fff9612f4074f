"""The rows of all processes, from what each of them passes to `fit`."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccml._validation import check_same_kind_of_label
from ccml.training import Ranks, Rows, Share


class Labelled(NamedTuple):
    """Rows with their classes as numbers, the labels that these stand for, and what they are."""

    rows: Rows
    labels: NDArray[Any]
    digest: str | None = None  # where there are several processes


def read_shares(
    owner: str, ranks: Ranks, X: NDArray[Any], y: NDArray[Any], weight: NDArray[np.float32] | None
) -> Labelled:
    """Take the rows that each process passes, one after another, for those of one data set.

    Where all pass the same, that is the data set, and each keeps a part of it.
    """
    if ranks.size == 1:
        labels, classes = np.unique(y, return_inverse=True)
        return Labelled(Rows(X, classes, weight), labels)
    with ranks.together():
        labels = _labels(owner, ranks, X, y, weight)
    classes = np.searchsorted(labels, y)
    digest = digest_of(X, classes, weight)
    digests, sizes = zip(*ranks.gather((digest, len(y))), strict=True)
    if len(set(digests)) == 1 and len(set(sizes)) == 1:
        begin, end = (len(y) * rank // ranks.size for rank in (ranks.rank, ranks.rank + 1))
        share = Share(ranks, np.arange(begin, end), len(y))
        return Labelled(Rows(X[begin:end], classes, weight, share), labels, digest)
    begin = sum(sizes[: ranks.rank])
    share = Share(ranks, np.arange(begin, begin + len(y)), sum(sizes))
    all_classes = np.concatenate(ranks.gather(classes))
    all_weights = None if weight is None else np.concatenate(ranks.gather(weight))
    together = f"{', '.join(digests)}, of {ranks.size} processes"
    return Labelled(Rows(X, all_classes, all_weights, share), labels, together)


def _labels(
    owner: str, ranks: Ranks, X: NDArray[Any], y: NDArray[Any], weight: NDArray[Any] | None
) -> NDArray[Any]:
    """Labels of all processes; refuse rows that don't go together."""
    of_rows = f"{X.shape[1:]} of {X.dtype}, {'no' if weight is None else 'with'} sample_weight"
    kinds, labels = zip(*ranks.gather((of_rows, np.unique(y))), strict=True)
    if len(set(kinds)) > 1:
        raise ValueError(
            f"{owner}.fit got rows in process 0 that are {kinds[0]}, and in another "
            f"{next(kind for kind in kinds if kind != kinds[0])}. Pass rows of one kind."
        )
    for other in labels[1:]:
        check_same_kind_of_label(f"{owner}.fit", other, labels[0])
    return np.unique(np.concatenate(labels))


def digest_of(*arrays: NDArray[Any] | None) -> str:
    """Tell data apart in a few letters."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(b"" if array is None else np.ascontiguousarray(array).data)
    return f"{digest.hexdigest()[:12]} (SHA-256)"
