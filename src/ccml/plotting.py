"""Results to figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ccml._images import image_of
from ccml._validation import check_count
from ccml.neighbors import ClassIndex

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which people with colour blindness can tell apart; symbols say it again.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SYMBOLS = ("o", "s", "^", "D", "v", "P")  # 7 and 6: 42 ways to draw a class


class Explained(Protocol):
    """What is drawn of an explanation (`CCKNNClassifier.explain`)."""

    @property
    def classes(self) -> NDArray[Any]:
        """Classes of each query, the winning one first."""

    @property
    def scores(self) -> NDArray[np.float64]:
        """Their scores."""

    @property
    def distances(self) -> NDArray[np.float64]:
        """Squared distances to their nearest rows."""

    @property
    def rows(self) -> NDArray[np.intp]:
        """Those rows."""


def plot_neighbors(X: ArrayLike, y: ArrayLike, *, n_neighbors: int = 1, ax: Axes) -> Axes:
    """Draw points in the plane, each linked to its nearest neighbours.

    A class has its colour and symbol; a link to another class is red and dashed.

    Parameters
    ----------
    X : array-like of shape (n_samples, 2)
    y : array-like of shape (n_samples,)
    n_neighbors : int
        Links per point.
    ax : matplotlib Axes
        Where to draw.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from ccml.datasets import make_sandwich
    >>> from ccml.plotting import plot_neighbors
    >>> X, y = make_sandwich(random_state=0)
    >>> ax = plot_neighbors(X, y, ax=Figure().subplots())
    >>> len(ax.collections)  # the links and six classes
    7
    """
    from matplotlib.collections import LineCollection

    points, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
    if points.ndim != 2 or points.shape[1] != 2:
        raise ValueError(f"plot_neighbors needs points in the plane, (n, 2); got {points.shape}.")
    index = ClassIndex(points, labels)
    rows = index.nearest(points, n_neighbors, exclude_self=True).indices  # (n, k)
    exists = rows.ravel() >= 0
    starts = np.repeat(np.arange(len(points)), n_neighbors)[exists]
    ends = rows.ravel()[exists]
    same = labels[starts] == labels[ends]
    links = LineCollection(
        np.stack([points[starts], points[ends]], axis=1).tolist(),
        colors=np.where(same, "0.55", "#CC0000").tolist(),
        linestyles=np.where(same, "solid", "dashed").tolist(),
        linewidths=1.0,
        zorder=1,
    )
    ax.add_collection(links)
    for number, label in enumerate(index.classes):
        members = points[labels == label]
        ax.scatter(
            members[:, 0],
            members[:, 1],
            s=22,
            color=_COLOURS[number % len(_COLOURS)],
            marker=_SYMBOLS[number % len(_SYMBOLS)],
            label=str(label),
            zorder=2,
        )
    return ax


def plot_images(images: ArrayLike, *, row_names: Sequence[str] = (), ax: Axes) -> Axes:
    """Draw images in rows and columns, grey, each from its own darkest to its own brightest pixel.

    Parameters
    ----------
    images : array-like of shape (n_rows, n_columns, height, width)
    row_names : sequence of str
        What to write beside the rows.
    ax : matplotlib Axes
        Where to draw.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from ccml.datasets import load
    >>> from ccml.plotting import plot_images
    >>> digits = load("digits")
    >>> images = digits.X[:20].reshape(2, 10, *digits.image_shape)
    >>> ax = plot_images(images, row_names=["first", "second"], ax=Figure().subplots())
    >>> ax.images[0].get_array().shape  # with a line between any two images
    (17, 89)
    """
    tiles = np.asarray(images, dtype=np.float64)
    if tiles.ndim != 4:
        raise ValueError(
            f"plot_images needs images of shape (rows, columns, height, width); got {tiles.shape}."
        )
    n_rows, n_columns, height, width = tiles.shape
    tiles = tiles - tiles.min(axis=(2, 3), keepdims=True)
    tiles /= np.maximum(tiles.max(axis=(2, 3), keepdims=True), np.finfo(np.float64).tiny)
    framed = np.pad(tiles, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=1)
    sheet = framed.swapaxes(1, 2).reshape(n_rows * (height + 1), n_columns * (width + 1))
    ax.imshow(sheet[:-1, :-1], cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    ax.set_xticks([])
    middles = (np.arange(len(row_names)) + 0.5) * (height + 1) - 1
    ax.set_yticks(middles, labels=list(row_names))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def explain(
    queries: ArrayLike,
    gallery: ArrayLike,
    explanation: Explained,
    *,
    n_classes: int = 2,
    image_shape: tuple[int, ...] | None = None,
    figure: Figure,
) -> Figure:
    """Draw decisions about images: each query, then the nearest images of the leading classes.

    The distance is above each neighbour, and the class and its score beside its row.

    Parameters
    ----------
    queries : array-like of shape (n_queries, height, width), (n_queries, channels, ...), or flat
    gallery : array-like of the same kind
        The images that the classifier was given, in that order, whatever was done to them then.
    explanation : Explanation
        What `CCKNNClassifier.explain` gives for the queries.
    n_classes : int, default=2
        How many classes to show of each query: the winner, the runner-up, and so on.
    image_shape : tuple of int, optional
        (height, width) or (channels, height, width) of images that come as flat rows.
    figure : matplotlib Figure
        Where to draw.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from ccml import CCKNNClassifier, plotting
    >>> from ccml.datasets import load
    >>> X, y = load("digits").subset("train")
    >>> model = CCKNNClassifier(n_neighbors=3).fit(X[5:], y[5:])
    >>> figure = plotting.explain(
    ...     X[:1], X[5:], model.explain(X[:1]), image_shape=(8, 8), figure=Figure()
    ... )
    >>> len(figure.axes)  # the query, and three neighbours in two classes
    7
    """
    shown, known = _pictures(queries, image_shape), _pictures(gallery, image_shape)
    n_ranks = min(check_count("explain", "n_classes", n_classes), explanation.classes.shape[1])
    k = explanation.rows.shape[2]
    if len(shown) != len(explanation.rows) or explanation.rows.max(initial=-1) >= len(known):
        raise ValueError(
            f"explain got {len(shown)} queries and {len(known)} gallery images, but an explanation "
            f"of {len(explanation.rows)} queries, with rows up to {explanation.rows.max()}. "
            "Give it what the classifier was given."
        )
    grid = figure.add_gridspec(len(shown) * n_ranks, 1 + k)
    for q, query in enumerate(shown):
        top = q * n_ranks
        _draw(figure.add_subplot(grid[top : top + n_ranks, 0]), query, "query")
        for rank in range(n_ranks):
            label, score = explanation.classes[q, rank], explanation.scores[q, rank]
            for j in range(k):
                row, distance = explanation.rows[q, rank, j], explanation.distances[q, rank, j]
                if row < 0:  # the class has no more
                    continue
                ax = figure.add_subplot(grid[top + rank, 1 + j])
                _draw(ax, known[row], f"{distance:.3g}")
                if j == 0:
                    ax.set_ylabel(f"{label}\n{score:.3g}", rotation=0, ha="right", va="center")
    return figure


def _pictures(X: ArrayLike, image_shape: tuple[int, ...] | None) -> NDArray[Any]:
    """One channel of each image, (n, height, width)."""
    images = np.asarray(X)
    shape = image_of("explain", images.shape[1:], image_shape)
    return images.reshape(len(images), *shape)[:, 0]


def _draw(ax: Axes, image: NDArray[Any], title: str) -> None:
    ax.imshow(image, cmap="gray", interpolation="nearest")
    ax.set_title(title, fontsize="small")
    ax.set_xticks([])
    ax.set_yticks([])
