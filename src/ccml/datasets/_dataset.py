"""What every data set looks like, wherever it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ccml._validation import check_count, check_option

_SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows, labels, and which rows are for what.

    Attributes
    ----------
    name : str
        The name it was loaded by.
    X : ndarray of shape (n_samples, n_features)
        The rows. An image is one flat row; ``image_shape`` restores it.
    y : ndarray of int of shape (n_samples,)
        The class of each row, 0 to ``len(class_names) - 1``.
    train, validation, test : ndarray of int
        Row numbers. They don't overlap, and together they are every row. ``train`` and
        ``validation`` together are the official training rows.
    class_names : tuple of str
        ``class_names[y[i]]`` is the name of row i's class.
    feature_names : tuple of str
        One for each column of ``X``.
    image_shape : tuple of int or None
        Height and width, where rows are images; (channels, height, width) of stereo pairs.
    official_split : bool
        Whether ``test`` is the one everybody uses. If not, the split is fixed, but ours.
    factors : mapping of str to ndarray of int of shape (n_samples,)
        What else is known of each row, such as the azimuth from which NORB's toys are seen.

    Examples
    --------
    >>> from ccml.datasets import load
    >>> wine = load("wine")
    >>> wine
    Dataset('wine': 178 rows of 13 features, 3 classes; 100 train, 25 validation, 53 test)
    >>> X, y = wine.subset("train", "validation")
    >>> X.shape, y.shape
    ((125, 13), (125,))
    """

    name: str
    X: npt.NDArray[Any]
    y: npt.NDArray[np.int64]
    train: npt.NDArray[np.int64]
    validation: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    image_shape: tuple[int, ...] | None
    official_split: bool
    factors: Mapping[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def subset(self, *splits: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Copy the rows and labels of one or more splits.

        Parameters
        ----------
        *splits : {"train", "validation", "test"}
            Which rows, in the order they are wanted.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
        y : ndarray of int of shape (n_rows,)

        Examples
        --------
        >>> from ccml.datasets import load
        >>> X, y = load("digits").subset("test")
        >>> X.shape
        (539, 64)
        """
        for split in splits:
            check_option("Dataset.subset", "split", split, _SPLITS)
        if not splits or len(set(splits)) < len(splits):
            raise ValueError(
                f"Dataset.subset{splits} needs one or more splits, each of them once. "
                f"The options are {', '.join(map(repr, _SPLITS))}."
            )
        indices = {"train": self.train, "validation": self.validation, "test": self.test}
        rows = np.concatenate([indices[split] for split in splits])
        return self.X[rows], self.y[rows]

    def examples(self, n: int) -> npt.NDArray[np.intp]:
        """Choose rows of each class: where there are toys, of one after the other, in other poses.

        Parameters
        ----------
        n : int
            How many of each class.

        Returns
        -------
        ndarray of int of shape (n_classes, n)
            Row numbers.

        Examples
        --------
        >>> from ccml.datasets import load
        >>> digits = load("digits")
        >>> digits.y[digits.examples(3)][:2]
        array([[0, 0, 0],
               [1, 1, 1]])
        """
        check_count("Dataset.examples", "n", n)
        examples = np.empty((len(self.class_names), n), dtype=np.intp)
        for label, chosen in enumerate(examples):
            rows = np.flatnonzero(self.y == label)
            if len(rows) < n:
                raise ValueError(
                    f"{self.name} has a class of {len(rows)} rows; {n} examples are too many."
                )
            instances = self.factors.get("instance", np.arange(len(self.X)))[rows]
            toys = np.unique(instances)
            for column in range(n):
                members = rows[instances == toys[column % len(toys)]]
                chosen[column] = members[column * 37 % len(members)]  # 37: another pose and light
        return examples

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}: {len(self.X)} rows of {self.X.shape[1]} features, "
            f"{len(self.class_names)} classes; {len(self.train)} train, "
            f"{len(self.validation)} validation, {len(self.test)} test)"
        )
