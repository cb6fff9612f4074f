"""How many pairs of a query and a row a bound on the first axes leaves to be looked at."""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.decomposition import PCA

from benchmarks.search import mnist
from ccml.neighbors import ClassIndex

PICTURE = Path(__file__).parent.parent / "docs" / "survivors.png"
N_QUERIES, K = 300, 5


def run() -> None:
    """Draw docs/survivors.png: pairs that survive, against axes, for the three questions."""
    X, y, Q, pixels, pixel_queries = mnist()
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
    draw(panels[0], "learned metric, 60 dimensions", X, y, Q[:N_QUERIES])
    draw(panels[1], "pixels, 784 dimensions", pixels, y, pixel_queries[:N_QUERIES])
    panels[0].set_ylabel("pairs that survive")
    panels[0].legend(frameon=False)
    figure.savefig(PICTURE, dpi=120)
    print(f"wrote {PICTURE.name}")


def draw(panel: plt.Axes, title: str, X: np.ndarray, y: np.ndarray, Q: np.ndarray) -> None:
    """Count pairs whose distance on the first axes is within what they must undercut."""
    index = ClassIndex(X, y)
    lists, overall = index.search(Q, K).distances, index.nearest(Q, K).distances
    limits = {
        "search: the 5th of the row's class": lists[:, np.searchsorted(index.classes, y), -1],
        "nearest: the 5th of all": overall[:, -1:],
        "predict: the best class's mean": lists.mean(axis=2).min(axis=1)[:, None],
    }
    axes = np.arange(2, 62, 2)
    rotation = PCA(int(axes[-1]) if X.shape[1] > 60 else None).fit(X)
    rows, queries = rotation.transform(X), rotation.transform(Q)
    partial, done = np.zeros((len(Q), len(X))), 0
    shares: dict[str, list[float]] = {name: [] for name in limits}
    for n_axes in axes:
        for axis in range(done, min(n_axes, rows.shape[1])):
            partial += (queries[:, axis, None] - rows[:, axis]) ** 2
        done = n_axes
        for name, limit in limits.items():
            shares[name].append(float((partial <= limit).mean()))
    for name, share in shares.items():
        panel.semilogy(axes, share, label=name)
    panel.set(title=f"MNIST, {title}", xlabel="principal axes", ylim=(1e-5, 1))
    panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.3)
