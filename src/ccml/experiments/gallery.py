"""Figure 4 of the paper: nearest images, where Euclidean distances go wrong and CCML doesn't.

Command: ``ccml reproduce gallery``. Runtime: as that of Table I's cells that it needs, a quarter
of an hour on two cores; none where they are kept.
Expect: beside each query the five nearest training images under Euclidean distances, CCML and
ConvCCML, framed green where they are of its class and red with a cross where not; at the bottom,
queries that ConvCCML itself gets wrong.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccml.experiments import protocol
from ccml.experiments.cells import RULES, SHOWN, Cell, Outcome
from ccml.experiments.figures import CONV_CCML, data_name, deepest, save_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS = ("Euclidean", "CCML", *CONV_CCML)
_N_QUERIES, _N_FAILURES = 5, 3
_RIGHT, _WRONG = "#009E73", "#CC0000"


def can_draw(results: Mapping[Cell, Outcome | str], name: str) -> bool:
    """Whether all the metrics of the figure are there, and there is something to show."""
    metrics = _metrics(results, name)
    if len(metrics) < 3:
        return False
    wrong = _wrong(metrics)
    return any((wrong["Euclidean"] & ~wrong["CCML"]) | wrong[list(metrics)[-1]])


def figure(results: Mapping[Cell, Outcome | str], name: str, path: Path) -> str:
    """Draw the neighbours of a data set's queries to ``path``, an SVG; say what is shown."""
    from matplotlib.figure import Figure

    data = protocol.load(name)
    metrics = _metrics(results, name)
    network = list(metrics)[-1]
    called = next(data_name(cell, found) for cell, found in results.items()
                  if cell.dataset == name and isinstance(found, Outcome))  # fmt: skip
    wrong = _wrong(metrics)
    repaired = _some(wrong["Euclidean"] & ~wrong["CCML"], _N_QUERIES)
    failures = _some(wrong[network], _N_FAILURES)
    queries = [*repaired, *failures]
    widths = [1.0] + [width for _ in metrics for width in (0.35, *[1.0] * SHOWN)]
    size = (0.72 * len(metrics) * (SHOWN + 1), 0.85 * len(queries) + 0.6)
    canvas = Figure(figsize=size, layout="constrained")
    grid = canvas.add_gridspec(len(queries), len(widths), width_ratios=widths)
    for line, query in enumerate(queries):
        label = data.y[data.test[query]]
        note = f"wrong: {network}" if line == len(repaired) else "query" if line == 0 else ""
        ax = canvas.add_subplot(grid[line, 0])
        _draw(ax, data.X[data.test[query]], data.image_shape, None)
        ax.set_ylabel(data.class_names[label], rotation=0, ha="right", va="center")
        ax.set_title(note, fontsize="small", loc="left")
        for number, (row, outcome) in enumerate(metrics.items()):
            for rank, neighbour in enumerate(outcome.nearest[query]):
                ax = canvas.add_subplot(grid[line, 2 + number * (SHOWN + 1) + rank])
                right = bool(data.y[neighbour] == label)
                _draw(ax, data.X[neighbour], data.image_shape, right)
                if line == 0 and rank == 0:
                    ax.set_title(row, fontsize="medium", loc="left")
    save_svg(canvas, path)
    rules = ", ".join(f"{row} (k = {_k(results, name, row)})" for row in metrics)
    return (
        f"Five nearest images on {called} under {rules}: {len(repaired)} of "
        f"{int((wrong['Euclidean'] & ~wrong['CCML']).sum())} queries that Euclidean distances get "
        f"wrong and CCML right, drawn at random; then {len(failures)} of the "
        f"{int(wrong[network].sum())} that {network} gets wrong, all by KNN with its k. Red, with "
        "a cross: another class."
    )


def _metrics(results: Mapping[Cell, Outcome | str], name: str) -> dict[str, Outcome]:
    """Take the first seed's outcomes, of one network only."""
    found = {
        cell.row: result
        for cell, result in results.items()
        if cell.dataset == name and cell.seed == 0 and isinstance(result, Outcome)
    }
    shown = ("Euclidean", "CCML", deepest(found))
    return {row: found[row] for row in shown if row is not None and row in found}


def _wrong(metrics: Mapping[str, Outcome]) -> dict[str, NDArray[np.bool_]]:
    return {row: outcome.wrong[RULES.index("knn")] for row, outcome in metrics.items()}


def _k(results: Mapping[Cell, Outcome | str], name: str, row: str) -> int:
    return next(cell.settings.knn for cell in results if (cell.dataset, cell.row) == (name, row))


def _some(which: NDArray[np.bool_], most: int) -> NDArray[np.intp]:
    candidates = np.flatnonzero(which)
    rng = np.random.default_rng(0)
    return np.sort(rng.choice(candidates, min(most, len(candidates)), replace=False))


def _draw(
    ax: "Axes", row: NDArray[Any], image_shape: tuple[int, ...] | None, right: bool | None
) -> None:
    assert image_shape is not None
    image = row.reshape(-1, *image_shape[-2:])[0]  # the left one of a stereo pair
    ax.imshow(image, cmap="gray", interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])
    if right is None:
        return
    ax.spines[:].set(color=_RIGHT if right else _WRONG, linewidth=2)
    if not right:
        ax.text(0.97, 0.95, "x", color=_WRONG, weight="bold", ha="right", va="top",
                transform=ax.transAxes)  # fmt: skip
