"""Results to figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ccml.neighbors import ClassIndex

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which people with colour blindness can tell apart; symbols say it again.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_SYMBOLS = ("o", "s", "^", "D", "v", "P")  # 7 and 6: 42 ways to draw a class


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
