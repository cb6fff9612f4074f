"""From what is asked for to the report: which cells, the figures drawn from them, the pages."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ccml._validation import check_count, check_option
from ccml.experiments import (
    gallery,
    protocol,
    provenance,
    report,
    retrieval,
    runs,
    sandwich,
    table1,
)
from ccml.experiments.cells import Cell, Outcome
from ccml.experiments.figures import CONV_CCML, deepest
from ccml.experiments.records import Comparison, Figure, Record
from ccml.experiments.runs import Event

TARGETS = ("table1", "sandwich", "retrieval", "gallery")
_PAPERS = ("wine", "isolet", "mnist", "norb")
_QUICK: Mapping[str, Sequence[int]] = {"wine": range(2), "digits": range(1)}


@dataclass(frozen=True)
class Plan:
    """What to reproduce.

    ``options`` are those of the command that asks for the same, ``tuned`` those of them that say
    where its settings come from, if not from the library.
    """

    targets: Sequence[str]
    cells: Sequence[Cell]
    options: str = ""
    tuned: str = ""

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
        for parameter, given in (("datasets", datasets), ("rows", rows)):
            if given is not None and not given:
                raise ValueError(f"reproduce({parameter}='') must name at least one.")
        seeds = dict(_QUICK if quick else table1.SEEDS)
        names = list(datasets or (_QUICK if quick else _PAPERS))
        for name in names:
            check_option("reproduce", "datasets", name, table1.SEEDS)
            if name not in seeds:
                raise ValueError(f"The quick form has no {name}, only {' and '.join(seeds)}.")
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
        _check_figure(what, names, rows)
        targets = TARGETS if what == "all" else (what,)
        every = table1.cells(names, rows, seeds, settings)
        cells = [cell for cell in every if any(_needs(target, cell, rows) for target in targets)]
        options = " --quick" if quick else ""
        if datasets:
            options += f" --datasets {','.join(datasets)}"
        if rows:
            options += f" --rows {','.join(rows)}"
        if isinstance(n_seeds, int):
            options += f" --seeds {n_seeds}"
        elif n_seeds:
            options += f" --seeds {','.join(f'{name}={n_seeds[name]}' for name in n_seeds)}"
        tuned = f" --tune 0 --out {settings.parent}" if settings else ""
        return cls(targets, cells, options + tuned, tuned)


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
    records = table1.records(results, plan.tuned)
    comparisons = list(table1.comparisons(results))
    page = report.write(out, records, comparisons, figures)
    return Reproduction(records, comparisons, figures, page, reasons)


def _draw(
    target: str, options: str, results: Mapping[Cell, Outcome | str], out: Path
) -> Iterator[Figure]:
    command = f"ccml reproduce {target}{options}"
    if target == "sandwich":
        start, command = time.perf_counter(), f"ccml reproduce {target}"  # it has no options
        path = out / "sandwich.svg"
        caption = _sandwich_caption(sandwich.figure(path))
        seconds = round(time.perf_counter() - start, 1)
        commit, machine = provenance.commit(), provenance.machine()
        title = "Figure 2: Sandwich"
        yield Figure(target, title, caption, path, command, seconds, (0,), commit, machine)
    elif target == "retrieval":
        shown = _shown(target, results)
        if shown:
            path = out / "retrieval.svg"
            caption = " ".join(["Retrieval on test rows.", *retrieval.figure(shown, path)])
            title = "Figure 3: nDCG@k and the fraction of the true class among the k nearest"
            yield _figure_of(shown, title, caption, path, command)
    else:
        for name in dict.fromkeys(cell.dataset for cell in results if _has_images(cell.dataset)):
            shown = _shown(target, results, name)
            if gallery.can_draw(shown, name):
                path = out / f"gallery-{name}.svg"
                caption = gallery.figure(shown, name, path)
                yield _figure_of(shown, "Figure 4: nearest images", caption, path, command)


def _shown(
    target: str, results: Mapping[Cell, Outcome | str], dataset: str | None = None
) -> dict[Cell, Outcome]:
    rows = {cell.row for cell in results}
    return {
        cell: result
        for cell, result in results.items()
        if isinstance(result, Outcome)
        and dataset in (None, cell.dataset)
        and _needs(target, cell, rows)
    }


def _figure_of(
    shown: Mapping[Cell, Outcome], title: str, caption: str, path: Path, command: str
) -> Figure:
    """Say where a figure comes from: from where the cells come that it shows."""
    return Figure(
        path.stem,
        title,
        caption,
        path,
        command,
        seconds=round(sum(outcome.about["seconds"] for outcome in shown.values()), 1),
        seeds=tuple(sorted({cell.seed for cell in shown})),
        commit=table1.told_by("commit", shown.values()),
        machine=table1.told_by("machine", shown.values()),
    )


def _sandwich_caption(errors: Mapping[str, float]) -> str:
    panels = ", ".join(f"{title} {error:.0%}" for title, error in errors.items())
    return (
        "Each point is linked to its nearest neighbour, in red where that is of another class. "
        f"Leave-one-out 1-NN error: {panels}."
    )


def _needs(target: str, cell: Cell, rows: Collection[str] | None) -> bool:
    """Whether a target has to do with a cell, of the rows that are asked for."""
    if target not in ("retrieval", "gallery"):
        return target == "table1"
    asked = [row for row in protocol.rows_of(cell.dataset) if rows is None or row in rows]
    if cell.row in CONV_CCML and cell.row != deepest(asked):
        return False
    if target == "retrieval":
        return cell.row in retrieval.ROWS and cell.dataset != "wine"
    return cell.row in gallery.ROWS and cell.seed == 0 and _has_images(cell.dataset)


def _check_figure(what: str, names: Sequence[str], rows: Collection[str] | None) -> None:
    """Refuse to draw what would be empty."""
    if what == "retrieval" and set(names) == {"wine"}:
        raise ValueError("Retrieval is shown on test rows, and wine has none of its own.")
    if what == "retrieval" and rows is not None and not {*rows} & {*retrieval.ROWS}:
        raise ValueError(f"Retrieval is shown of {', '.join(retrieval.ROWS)}: name some of these.")
    if what != "gallery":
        return
    if not any(map(_has_images, names)):
        raise ValueError(f"The gallery is of images, and there are none of {' and '.join(names)}.")
    if rows is not None and not ({"Euclidean", "CCML"} <= {*rows} and deepest(rows)):
        raise ValueError(
            "The gallery is of Euclidean, CCML and ConvCCML-2 (or ConvCCML-1): name these rows too."
        )


def _has_images(dataset: str) -> bool:
    return any(row in protocol.rows_of(dataset) for row in protocol.NETWORKS)


def _with_row(row: str) -> list[str]:
    return [name for name in protocol.NAMES if row in protocol.rows_of(name)]
