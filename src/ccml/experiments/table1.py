"""Table I of the paper: classification error of KNN and CCKNN under a metric, in percent.

Command: ``ccml reproduce table1``; some of it: ``ccml reproduce table1 --datasets wine --rows
CCML,NCA``. Runtime: 100 minutes on two cores for all, a minute for wine.
Expect: CCML at or below the paper's figure on wine, ISOLET and MNIST, and the lowest of the linear
metrics or near it; ConvCCML below ConvNet. NORB is a stand-in unless its files are there.

The protocol is in `ccml.experiments.protocol`. ConvNet has one figure, its own error, which stands
for both rules.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_1samp

from ccml.experiments import paper, protocol
from ccml.experiments.cells import RULES, Cell, Outcome
from ccml.experiments.records import Comparison, Record

Results = Mapping[Cell, Outcome | str]
SEEDS: Mapping[str, Sequence[int]] = {  # as many as two cores can do in two hours
    "wine": range(10),
    "isolet": range(3),
    "mnist": range(1),
    "norb": range(1),
    "digits": range(3),
}
COMPARED = (*protocol.EUCLIDEAN, "ITML", "NCMC", "LMNN", "NCA", "KNCA")  # with CCML


def cells(
    datasets: Sequence[str],
    rows: Sequence[str] | None = None,
    seeds: Mapping[str, Sequence[int]] = SEEDS,
    settings: Path | None = None,
) -> list[Cell]:
    """List the cells of the table, the first seed of all of them first."""
    return [
        Cell(name, row, seed, protocol.settings_of(name, row, settings))
        for seed in range(max(len(seeds[name]) for name in datasets))
        for name in datasets
        for row in protocol.rows_of(name)
        if (rows is None or row in rows) and seed in _of_row(seeds[name], name, row)
    ]


def _of_row(seeds: Sequence[int], name: str, row: str) -> Sequence[int]:
    """Without a learner there is nothing random but wine's folds."""
    return seeds[:1] if row in protocol.EUCLIDEAN and name != "wine" else seeds


def records(results: Results) -> list[Record]:
    """Average over the seeds; give each number of the table, or why there is none."""
    return [
        _record(name, row, rule, of_row)
        for (name, row), of_row in _by_row(results).items()
        for rule in RULES
    ]


def _record(name: str, row: str, rule: str, results: Results) -> Record:
    column = RULES.index(rule)
    settings = next(iter(results)).settings
    figures = paper.TABLE1.get(name, {}).get(row)
    kept: dict[str, Any] = {f"k of {rule.upper()}": getattr(settings, rule)}
    if row.startswith("ConvNet"):
        kept = {}
    if row not in protocol.NETWORKS:
        kept["PCA"] = settings.pca_of(rule)
    common: dict[str, Any] = {
        "row": row,
        "dataset": name,
        "rule": rule,
        "paper": None if figures is None else figures[column],
        "settings": kept | dict(settings.learner),
        "command": _command(name, row, results),
    }
    failures = [result for result in results.values() if isinstance(result, str)]
    if failures:
        nothing: dict[str, Any] = {"error": None, "spread": None, "seeds": (), "seconds": None}
        nothing |= {"commit": "", "machine": "", "stand_in": False}
        return Record(**common, **nothing, reason=failures[0])
    outcomes = [result for result in results.values() if isinstance(result, Outcome)]
    errors = [outcome.errors[column] for outcome in outcomes]
    about = outcomes[0].about
    common["settings"]["dimensions"] = about["n_components"][column]
    return Record(
        **common,
        error=round(float(np.mean(errors)), 3),
        spread=round(float(np.std(errors, ddof=1)), 3) if len(errors) > 1 else 0.0,
        seeds=tuple(cell.seed for cell in results),
        seconds=round(sum(outcome.about["seconds"] for outcome in outcomes), 1),
        commit=", ".join(dict.fromkeys(outcome.about["commit"] for outcome in outcomes)),
        machine=about["machine"],
        stand_in=about["stand_in"],
        notes=tuple(dict.fromkeys(note for found in outcomes for note in found.about["notes"])),
    )


def _command(name: str, row: str, cells: Collection[Cell]) -> str:
    as_usual = len(cells) == len(_of_row(SEEDS[name], name, row))
    options = "" if as_usual else f" --seeds {len(cells)}"
    if any(cell.settings != protocol.settings_of(name, row) for cell in cells):
        options += " --tune 0"  # which has the trials that they come from
    return f"ccml reproduce table1 --datasets {name} --rows {row}{options}"


def comparisons(results: Results) -> Iterator[Comparison]:
    """Compare CCML with the other linear metrics, on the same test rows.

    The paired t-test is over the test rows, each with its errors averaged over the seeds: it says
    whether other rows like these would give the same order.
    """
    by_row = _by_row(results)
    for (name, row), of_row in by_row.items():
        if row not in COMPARED or (name, "CCML") not in by_row:
            continue
        for column, rule in enumerate(RULES):
            other, own = (
                _wrong(found.values(), column) for found in (of_row, by_row[name, "CCML"])
            )
            if other is None or own is None:
                continue
            differences = 100 * (other - own)  # percentage points, a test row each
            # Where every row is as right or wrong under both, there is nothing to test.
            p = ttest_1samp(differences, 0).pvalue if differences.any() else 1.0
            yield Comparison(
                name, rule, row, round(float(differences.mean()), 3), float(p), len(differences)
            )


def _wrong(results: Iterable[Outcome | str], column: int) -> NDArray[np.float64] | None:
    """Fraction of the seeds that err on each test row."""
    outcomes = [result for result in results if isinstance(result, Outcome)]
    return np.mean([outcome.wrong[column] for outcome in outcomes], axis=0) if outcomes else None


def _by_row(results: Results) -> dict[tuple[str, str], dict[Cell, Outcome | str]]:
    groups: dict[tuple[str, str], dict[Cell, Outcome | str]] = {}
    for cell, result in results.items():
        groups.setdefault((cell.dataset, cell.row), {})[cell] = result
    return groups
