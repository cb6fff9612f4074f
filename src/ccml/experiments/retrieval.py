"""Figure 3 of the paper: quality of retrieval against k, the number of rows returned.

Command: ``ccml reproduce retrieval``. Runtime: as that of Table I's cells that it needs, an hour on
two cores; none where they are kept.
Expect: nDCG@k of CCML above those of NCA, LMNN and Euclidean distances, but for NCA's at small k on
ISOLET and LMNN's at large k on NORB's stand-in, as the caption says; ConvCCML's above all. Below
it, the fraction of the k rows that are of the query's class.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccml.experiments.cells import DEPTH, Cell, Outcome
from ccml.experiments.figures import CONV_CCML, data_name, deepest, save_svg

ROWS = ("Euclidean", "LMNN", "NCA", "CCML", *CONV_CCML)
_STYLES = {  # Okabe and Ito's colours; a dash says it again
    "Euclidean": ("#000000", ":"),
    "LMNN": ("#009E73", "-."),
    "NCA": ("#E69F00", (0, (5, 1))),
    "CCML": ("#0072B2", "-"),
    "ConvCCML": ("#D55E00", "--"),
}

_EXPECTED = {  # row -> those it is to be above
    "CCML": ("Euclidean", "LMNN", "NCA"),
    "ConvCCML": ("Euclidean", "LMNN", "NCA", "CCML"),
}

Curves = dict[str, dict[str, NDArray[np.float64]]]


def curves(results: Mapping[Cell, Outcome | str], measure: str) -> Curves:
    """Average over the seeds: data set -> row -> ``measure`` at k = 1, 2, ..."""
    found: dict[str, dict[str, list[NDArray[np.float64]]]] = {}
    for cell, result in results.items():
        if cell.row in ROWS and isinstance(result, Outcome) and len(result.ndcg):
            of_data = found.setdefault(data_name(cell, result), {})
            of_data.setdefault(cell.row, []).append(getattr(result, measure))
    means: Curves = {}
    for name, rows in found.items():
        network = deepest(rows)
        kept = {row: np.mean(values, axis=0) for row, values in rows.items()}
        means[name] = {
            row: kept[row] for row in ("Euclidean", "LMNN", "NCA", "CCML") if row in kept
        }
        if network is not None:
            means[name]["ConvCCML"] = kept[network]
    return means


def figure(results: Mapping[Cell, Outcome | str], path: Path) -> list[str]:
    """Draw the curves to ``path``, an SVG; return a sentence for each data set."""
    from matplotlib.figure import Figure

    measures = {
        "nDCG@k": curves(results, "ndcg"),
        "of the true class": curves(results, "precision"),
    }
    names = list(measures["nDCG@k"])
    canvas = Figure(figsize=(max(4.2 * len(names) + 0.6, 7), 7), layout="constrained")
    grid = canvas.subplots(2, len(names), squeeze=False, sharex=True)
    for axes, (title, by_data) in zip(grid, measures.items(), strict=True):
        for ax, name in zip(axes, names, strict=True):
            for row, values in by_data[name].items():
                colour, dash = _STYLES[row]
                ax.plot(np.arange(1, DEPTH + 1), values, color=colour, linestyle=dash, label=row)
            ax.set_xscale("log")
            ax.grid(alpha=0.25)
        axes[0].set_ylabel(title)
    for ax, name in zip(grid[0], names, strict=True):
        ax.set_title(name)
    for ax in grid[-1]:
        ax.set_xlabel("k")
        ax.set_xticks([1, 2, 5, 10, 20, 50, 100], labels=["1", "2", "5", "10", "20", "50", "100"])
        ax.minorticks_off()
    handles = {
        label: handle
        for ax in grid[0]
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=5, frameon=False
    )
    save_svg(canvas, path)
    return list(filter(None, (_order(name, measures["nDCG@k"][name]) for name in names)))


def _order(name: str, rows: Mapping[str, NDArray[np.float64]]) -> str:
    """Say where the paper's order holds, and where it doesn't; nothing where it can't be told."""
    sentences = []
    for better, others in _EXPECTED.items():
        gaps = {other: rows[better] - rows[other] for other in others if {better, other} <= {*rows}}
        above = [other for other, gap in gaps.items() if (gap > 0).all()]
        if above:
            sentences.append(f"{better} is above {', '.join(above)} at every k")
        for other in [other for other in gaps if other not in above]:
            spans = _spans(np.flatnonzero(gaps[other] <= 0) + 1)
            most = f"by up to {-gaps[other].min():.4f}" if (gaps[other] < 0).any() else "equal"
            sentences.append(f"{better} is not above {other} at k = {spans} ({most})")
    return f"{name}: {'; '.join(sentences)}." if sentences else ""


def _spans(ks: NDArray[np.intp]) -> str:
    """Write rising numbers as one does: 1, 5 to 9."""
    runs = np.split(ks, np.flatnonzero(np.diff(ks) > 1) + 1)
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
