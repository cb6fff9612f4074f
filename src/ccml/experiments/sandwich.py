"""Figure 2 of the paper: how the metric on the Sandwich data goes from local to global with k.

Command: ``ccml reproduce sandwich``. Runtime: ten seconds.
Expect: in input space nearly every point's nearest neighbour is of another class (red links);
after CCML none. With small k a class keeps its extent, in small clusters; with larger k the metric
becomes more global and a class shrinks as a whole. NCA and ITML stand beside it.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccml.datasets import make_sandwich
from ccml.evaluation import knn_error
from ccml.experiments.figures import save_svg
from ccml.learners import CCML, ITML, NCA
from ccml.plotting import plot_neighbors

NEIGHBORS = (1, 2, 4, 6, 8)


def embeddings(seed: int = 0) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.intp]]:
    """Map the Sandwich data by each metric; return the points by title, and their classes."""
    X, y = make_sandwich(random_state=seed)
    points = {"input space": X}
    for k in NEIGHBORS:
        learner = CCML(2, n_neighbors=k, init="identity", validation_fraction=0, random_state=seed)
        points[f"CCML, k = {k}"] = learner.fit_transform(X, y)
    nca = NCA(2, init="identity", validation_fraction=0, random_state=seed)
    points["NCA"] = nca.fit_transform(X, y)
    points["ITML"] = ITML(random_state=seed).fit_transform(X, y)
    return points, y


def figure(path: Path, seed: int = 0) -> dict[str, float]:
    """Draw the figure to ``path``, an SVG; return the leave-one-out 1-NN error of every panel."""
    from matplotlib.figure import Figure

    points, y = embeddings(seed)
    canvas = Figure(figsize=(14, 7.5), layout="constrained")
    axes = canvas.subplots(2, 4).ravel()
    errors = {title: knn_error(Z, y, n_neighbors=1) for title, Z in points.items()}
    for ax, (title, Z) in zip(axes, points.items(), strict=True):
        plot_neighbors(Z, y, ax=ax)
        ax.set_title(f"{title} (1-NN error {errors[title]:.0%})")
        ax.set_aspect("equal", adjustable="datalim")  # else a collapsed axis looks like any other
        ax.set_xticks([])
        ax.set_yticks([])
    handles, labels = axes[0].get_legend_handles_labels()
    names = [f"class {label}" for label in labels]
    canvas.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    save_svg(canvas, path)
    return errors
