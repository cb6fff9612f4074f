"""From what is asked for to the report: which cells, the figures drawn from them, the pages."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccml._validation import check_count, check_option
from ccml.experiments import gallery, protocol, report, retrieval, runs, sandwich, table1
from ccml.experiments.cells import Cell, Outcome
from ccml.experiments.records import Comparison, Figure, Record
from ccml.experiments.runs import Event

TARGETS = ("table1", "sandwich", "retrieval", "gallery")
_PAPERS = ("wine", "isolet", "mnist", "norb")
_QUICK: Mapping[str, Sequence[int]] = {"wine": range(2), "digits": range(1)}


@dataclass(frozen=True)
class Plan:
    """What to reproduce; ``options`` are those of the command that asks for the same."""

    targets: Sequence[str]
    cells: Sequence[Cell]
    options: str = ""

    @classmethod
    def of(
        cls,
        what: str = "all",
        datasets: Sequence[str] | None = None,
        rows: Sequence[str] | None = None,
        *,
        n_seeds: int | Mapping[str, int] | None = None,
        quick: bool = False,
        settings: Path | None = None,
    ) -> "Plan":
        """Choose targets, data sets and rows by name; by default the paper's, and all.

        By default there are as many seeds of a data set as two cores can do in two hours;
        ``n_seeds`` says how many of each, or of those it names. The quick form is wine and digits
        with few seeds, which need no download. ``settings`` is a folder with settings that go
        before those of the library.
        """
        check_option("reproduce", "what", what, ("all", *TARGETS))
        seeds = dict(_QUICK if quick else table1.SEEDS)
        names = list(datasets or (_QUICK if quick else _PAPERS))
        for name in names:
            check_option("reproduce", "datasets", name, seeds)
        counts = dict.fromkeys(names, n_seeds) if isinstance(n_seeds, int) else n_seeds or {}
        for name, count in counts.items():
            check_option("reproduce", "seeds", name, names)
            seeds[name] = range(check_count("reproduce", "seeds", count))
        for row in rows or ():
            check_option("reproduce", "rows", row, protocol.ROWS)
            if not any(row in protocol.rows_of(name) for name in names):
                raise ValueError(
                    f"{row} isn't for {' or '.join(names)}. The data sets that have it: "
                    f"{', '.join(_with_row(row))}."
                )
        targets = TARGETS if what == "all" else (what,)
        every = table1.cells(names, rows, seeds, settings)
        cells = [cell for cell in every if any(_needs(target, cell) for target in targets)]
        options = " --quick" if quick else ""
        if datasets:
            options += f" --datasets {','.join(datasets)}"
        if rows:
            options += f" --rows {','.join(rows)}"
        if isinstance(n_seeds, int):
            options += f" --seeds {n_seeds}"
        elif n_seeds:
            options += f" --seeds {','.join(f'{name}={n_seeds[name]}' for name in n_seeds)}"
        return cls(targets, cells, options)


@dataclass(frozen=True)
class Reproduction:
    """What came of a plan; ``reasons`` are those why something is missing."""

    records: Sequence[Record]
    comparisons: Sequence[Comparison]
    figures: Sequence[Figure]
    page: Path
    reasons: Sequence[str]


def reproduce(
    plan: Plan,
    out: Path,
    *,
    jobs: int = 1,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Reproduction:
    """Compute what isn't kept in ``out/cells`` yet, and write the report into ``out``.

    Without the table it is a page with the figure's name, so that of the table stays.
    """
    results = runs.run(plan.cells, out / "cells", jobs=jobs, on_event=on_event)
    figures = [
        drawn
        for target in plan.targets
        if target != "table1"
        for drawn in _draw(target, plan.options, results, out)
    ]
    reasons = list(dict.fromkeys(found for found in results.values() if isinstance(found, str)))
    if "table1" not in plan.targets:
        page = report.write_figures(out / f"{plan.targets[0]}.html", figures, reasons)
        return Reproduction([], [], figures, page, reasons)
    records, comparisons = table1.records(results), list(table1.comparisons(results))
    page = report.write(out, records, comparisons, figures)
    return Reproduction(records, comparisons, figures, page, reasons)


def _draw(
    target: str, options: str, results: Mapping[Cell, Outcome | str], out: Path
) -> list[Figure]:
    start = time.perf_counter()
    if target == "sandwich":
        errors = sandwich.figure(out / "sandwich.svg")
        captions = {"sandwich": _sandwich_caption(errors)}
        title, options = "Figure 2: Sandwich", ""
    elif target == "retrieval":
        if not retrieval.curves(results, "ndcg"):
            return []
        sentences = retrieval.figure(results, out / "retrieval.svg")
        captions = {"retrieval": " ".join(["Retrieval on test rows.", *sentences])}
        title = "Figure 3: nDCG@k and the fraction of the true class among the k nearest"
    else:
        names = dict.fromkeys(cell.dataset for cell in results if _has_images(cell))
        captions = {
            f"gallery-{name}": gallery.figure(results, name, out / f"gallery-{name}.svg")
            for name in names
            if gallery.can_draw(results, name)
        }
        title = "Figure 4: nearest images"
    seconds = round(time.perf_counter() - start, 1)
    return [
        Figure(
            name, title, caption, out / f"{name}.svg", f"ccml reproduce {target}{options}", seconds
        )
        for name, caption in captions.items()
    ]


def _sandwich_caption(errors: Mapping[str, float]) -> str:
    panels = ", ".join(f"{title} {error:.0%}" for title, error in errors.items())
    return (
        "Each point is linked to its nearest neighbour, in red where that is of another class. "
        f"Leave-one-out 1-NN error: {panels}."
    )


def _needs(target: str, cell: Cell) -> bool:
    if target == "retrieval":
        return cell.row in retrieval.ROWS and cell.dataset != "wine"
    if target == "gallery":
        return cell.row in gallery.ROWS and cell.seed == 0 and _has_images(cell)
    return target == "table1"


def _has_images(cell: Cell) -> bool:
    return any(row in protocol.rows_of(cell.dataset) for row in protocol.NETWORKS)


def _with_row(row: str) -> list[str]:
    return [name for name in protocol.NAMES if row in protocol.rows_of(name)]
