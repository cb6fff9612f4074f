"""Table I of the paper: classification error of KNN and CCKNN under a metric, in percent.

Command: ``ccml reproduce table1``; some of it: ``ccml reproduce table1 --datasets wine --rows
CCML,NCA``. Runtime: 1 hour 50 minutes on two cores for all, six minutes for wine.
Expect: CCML at or below the paper's figure on wine, ISOLET and MNIST, and the lowest of the linear
metrics or near it; ConvCCML with two layers below ConvNet. NORB is a stand-in unless its files are
there.

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
from ccml.experiments.records import LINEAR, SEPARATOR, Comparison, Record

Results = Mapping[Cell, Outcome | str]
SEEDS: Mapping[str, Sequence[int]] = {  # as many as two cores can do in two hours
    "wine": range(10),
    "isolet": range(3),
    "mnist": range(1),
    "norb": range(1),
    "digits": range(3),
}
_DECIMALS = 6  # enough that rounding again, to the two that are printed, does no harm
COMPARED = tuple(row for row in (*protocol.EUCLIDEAN, *LINEAR) if row != "CCML")


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


def records(results: Results, tuned: str = "") -> list[Record]:
    """Average over the seeds; give each number of the table, or why there is none.

    ``tuned`` are the options that give settings which aren't the library's again.
    """
    return [
        _record(name, row, rule, of_row, tuned)
        for (name, row), of_row in _by_row(results).items()
        for rule in RULES
    ]


def _record(name: str, row: str, rule: str, results: Results, tuned: str) -> Record:
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
        "settings": kept | protocol.own_parameters(row) | dict(settings.learner),
        "command": _command(name, row, results, tuned),
    }
    failures = [result for result in results.values() if isinstance(result, str)]
    if failures:
        nothing: dict[str, Any] = {"error": None, "spread": None, "seeds": (), "seconds": None}
        nothing |= {"commit": "", "machine": "", "stand_in": False}
        return Record(**common, **nothing, reason=failures[0])
    outcomes = [result for result in results.values() if isinstance(result, Outcome)]
    errors = [outcome.errors[column] for outcome in outcomes]
    notes = [note for outcome in outcomes for note in outcome.about["notes"]]
    if settings == protocol.settings_of(name, row):  # not others that were searched for
        notes += filter(None, [protocol.note_of(name, row)])
    about = outcomes[0].about
    common["settings"]["dimensions"] = about["n_components"][column]
    return Record(
        **common,
        error=round(float(np.mean(errors)), _DECIMALS),
        spread=round(float(np.std(errors, ddof=1)), _DECIMALS) if len(errors) > 1 else 0.0,
        seeds=tuple(cell.seed for cell in results),
        seconds=round(sum(outcome.about["seconds"] for outcome in outcomes), 1),
        commit=told_by("commit", outcomes),
        machine=told_by("machine", outcomes),
        stand_in=about["stand_in"],
        notes=tuple(dict.fromkeys(notes)),
    )


def told_by(fact: str, outcomes: Iterable[Outcome]) -> str:
    """List a fact about each outcome, once if they agree."""
    return SEPARATOR.join(dict.fromkeys(outcome.about[fact] for outcome in outcomes))


def _command(name: str, row: str, cells: Collection[Cell], tuned: str) -> str:
    as_usual = len(cells) == len(_of_row(SEEDS[name], name, row))
    options = "" if as_usual else f" --seeds {len(cells)}"
    if any(cell.settings != protocol.settings_of(name, row) for cell in cells):
        options += tuned
    return f"ccml reproduce table1 --datasets {name} --rows {row}{options}"


def comparisons(results: Results) -> Iterator[Comparison]:
    """Compare CCML with the other linear metrics, on the same test rows.

    The paired t-test is over the test rows, each with its errors averaged over the seeds: it says
    whether other rows like these would give the same order. On NORB it is over the toys, whose
    views err together; ISOLET's speakers, whose letters may, aren't known one by one.
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
            if name == "norb":
                differences = _by_toy(differences)
            # Where every row is as right or wrong under both, there is nothing to test.
            p = ttest_1samp(differences, 0).pvalue if differences.any() else 1.0
            yield Comparison(
                name,
                rule,
                row,
                difference=round(float(differences.mean()), _DECIMALS),
                p_value=float(p),
                n=len(differences),
                stand_in=any(
                    isinstance(found, Outcome) and found.about["stand_in"]
                    for found in of_row.values()
                ),
            )


def _wrong(results: Collection[Outcome | str], column: int) -> NDArray[np.float64] | None:
    """Fraction of the seeds that err on each test row; None where a seed has failed."""
    outcomes = [result for result in results if isinstance(result, Outcome)]
    if len(outcomes) < len(results):
        return None
    return np.mean([outcome.wrong[column] for outcome in outcomes], axis=0)


def _by_toy(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average over the views of each toy, of which all have as many."""
    data = protocol.load("norb")
    toys = np.column_stack([data.y, data.factors["instance"]])[data.test]
    _, numbers = np.unique(toys, axis=0, return_inverse=True)
    return np.bincount(numbers, values) / np.bincount(numbers)


def _by_row(results: Results) -> dict[tuple[str, str], dict[Cell, Outcome | str]]:
    groups: dict[tuple[str, str], dict[Cell, Outcome | str]] = {}
    for cell, result in results.items():
        groups.setdefault((cell.dataset, cell.row), {})[cell] = result
    return groups
