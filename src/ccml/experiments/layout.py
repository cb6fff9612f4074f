"""How records lie in Table I, and what they and the comparisons say in words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase

from ccml.experiments.records import (
    DATASETS,
    LINEAR,
    NETWORKS,
    ROWS,
    RULES,
    VARIANTS,
    Comparison,
    Record,
    in_order,
    rounded,
    two_decimals,
)

_CHANCE = 0.05  # p-values from here on prove nothing
_GROUPS = {
    "Without learning": ("Euclidean", "Euclidean-best-PCA"),
    "Linear learners": LINEAR,
    "Variants of CCML": VARIANTS,
    "Networks": NETWORKS,
}


@dataclass(frozen=True)
class Cell:
    """A place of the table: what stands there, if anything, and how wide it is."""

    record: Record | None
    n_columns: int = 1  # 2: one figure for both rules
    note: str = ""  # the letter of the reason why it has no figure, or of what to know of it
    lowest: bool = False  # of the linear learners in its column


@dataclass(frozen=True)
class Line:
    """A row of the table, and its cells for each data set: KNN's and CCKNN's, or one for both."""

    row: str
    cells: dict[str, tuple[Cell, ...]]


@dataclass(frozen=True)
class Table:
    """Table I: its columns, its rows in groups, and the notes under it."""

    datasets: tuple[str, ...]
    stand_ins: frozenset[str]  # those data sets that aren't the paper's
    groups: dict[str, list[Line]]
    notes: dict[str, str]  # letter -> reason, or what to know

    @property
    def lines(self) -> list[Line]:
        """The rows of all groups."""
        return [line for group in self.groups.values() for line in group]

    @property
    def cells(self) -> list[Cell]:
        """Every cell that has a record, row by row."""
        pairs = (pair for line in self.lines for pair in line.cells.values())
        return [cell for pair in pairs for cell in pair if cell.record]


def arrange(records: Iterable[Record]) -> Table:
    """Lay records out as the paper's Table I; what has no record stays empty."""
    found = {record.place: record for record in in_order(records)}
    notes = dict.fromkeys(filter(None, map(_note, found.values())))
    letters = {note: _letter(number) for number, note in enumerate(notes)}
    datasets = tuple(data for data in DATASETS if any(data == place[1] for place in found))
    lowest = {place for data in datasets for rule in RULES for place in _lowest(found, data, rule)}

    def cells(row: str, data: str) -> tuple[Cell, ...]:
        pair = [found.get((row, data, rule)) for rule in RULES]
        shared = row.startswith("ConvNet") and _same_figure(*pair)
        return tuple(
            Cell(
                record,
                n_columns=2 if shared else 1,
                note=letters.get(_note(record), "") if record else "",
                lowest=record is not None and record.place in lowest,
            )
            for record in (pair[:1] if shared else pair)
        )

    present = {place[0] for place in found}
    groups = {
        name: [
            Line(row, {data: cells(row, data) for data in datasets})
            for row in rows
            if row in present
        ]
        for name, rows in _GROUPS.items()
    }
    return Table(
        datasets=datasets,
        stand_ins=frozenset(record.dataset for record in found.values() if record.stand_in),
        groups={name: lines for name, lines in groups.items() if lines},
        notes={letter: note for note, letter in letters.items()},
    )


def _note(record: Record) -> str:
    return record.reason or " ".join(record.notes)


def _letter(number: int) -> str:
    return ascii_lowercase[number % 26] * (number // 26 + 1)


def _same_figure(one: Record | None, other: Record | None) -> bool:
    return (
        one is not None
        and other is not None
        and (one.error, one.spread, one.paper, one.reason, one.stand_in)
        == (other.error, other.spread, other.paper, other.reason, other.stand_in)
    )


def _lowest(
    found: dict[tuple[str, str, str], Record], dataset: str, rule: str
) -> list[tuple[str, str, str]]:
    """Say which linear learners have a column's lowest error, as printed: more than one if tied."""
    errors = {}
    for row in LINEAR:
        record = found.get((row, dataset, rule))
        if record is not None and record.error is not None:
            errors[record.place] = rounded(record.error)
    if len(errors) < 2:
        return []
    return [place for place, error in errors.items() if error == min(errors.values())]


def summary(table: Table) -> list[str]:
    """Say in sentences how the table compares with the paper's, and CCML with the others."""
    figures = [cell for cell in table.cells if cell.record and cell.record.error is not None]
    compared = [cell for cell in figures if cell.record and cell.record.at_most_paper is not None]
    sentences = []
    if compared:
        sentences.append(_beside_paper(compared))
    n_stand_in = sum(cell.record is not None and cell.record.stand_in for cell in figures)
    if n_stand_in:
        names = _listed([DATASETS[data] for data in table.datasets if data in table.stand_ins])
        verb = "figure comes" if n_stand_in == 1 else "figures come"
        sentences.append(
            f"{n_stand_in} {verb} from stand-in data for {names}: neither better nor worse than "
            "the paper's. With the real files in $CCML_DATA the command takes those."
        )
    n_missing = len(table.cells) - len(figures)
    if n_missing:
        verb = "cell has" if n_missing == 1 else "cells have"
        sentences.append(f"{n_missing} {verb} no figure; the notes under the table say why.")
    return sentences + _lowest_in_words(figures)


def _beside_paper(compared: Sequence[Cell]) -> str:
    above = [cell for cell in compared if cell.record and not cell.record.at_most_paper]
    n, n_below = len(compared), len(compared) - len(above)
    if not above:
        return f"All {n} figures that the paper has too are at or below the paper's."
    start = f"{n_below} of the {n} figures that the paper has too are at or below the paper's; "
    excesses = [_excess(cell) for cell in above]
    return (
        start
        + f"{len(above)} {'is' if len(above) == 1 else 'are'} above: "
        + ("; ".join(excesses) + ".")
    )


def _excess(cell: Cell) -> str:
    record = cell.record
    assert record is not None
    assert record.error is not None
    assert record.paper is not None
    points = rounded(record.error) - record.paper
    return (
        f"{ROWS[record.row]} {_where(cell)} by {points:.2f} percentage points "
        f"({two_decimals(record.error)} against {record.paper:.2f})"
    )


def _where(cell: Cell) -> str:
    assert cell.record is not None
    on = f"on {cell.record.data}"
    return on if cell.n_columns == 2 else f"with {RULES[cell.record.rule]} {on}"


def _lowest_in_words(figures: Sequence[Cell]) -> list[str]:
    best = {cell.record.place[1:] for cell in figures if cell.record and cell.lowest}
    ours = [
        cell for cell in figures
        if cell.record and cell.record.row == "CCML" and cell.record.place[1:] in best
    ]  # fmt: skip
    if not ours:
        return []
    others = [_where(cell) for cell in ours if not cell.lowest]
    if not others:
        columns = "the one column" if len(ours) == 1 else f"all {len(ours)} columns"
        return [f"Of the linear learners CCML has the lowest error in {columns}."]
    return [
        f"Of the linear learners CCML has the lowest error in {len(ours) - len(others)} of "
        f"{len(ours)} columns; not {_listed(others)}."
    ]


def over_seeds(table: Table) -> str:
    """Say what the figures of each data set are the means of."""
    numbers: dict[str, set[int]] = {}
    for cell in table.cells:
        # Without a learner one seed says all.
        if cell.record and cell.record.seeds and not cell.record.row.startswith("Euclidean"):
            numbers.setdefault(cell.record.dataset, set()).add(len(cell.record.seeds))
    counts = [
        f"{DATASETS[data]} {' to '.join(map(str, sorted({min(found), max(found)})))}"
        for data in table.datasets
        if (found := numbers.get(data))
    ]
    return f"over the seeds ({', '.join(counts)})" if counts else "over the seeds"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def comparison_order(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Sort comparisons as the table is: by data set, rule, and the other metric."""
    data, rules, rows = list(DATASETS), list(RULES), list(ROWS)
    return sorted(
        comparisons, key=lambda c: (data.index(c.dataset), rules.index(c.rule), rows.index(c.row))
    )


def comparisons_in_words(comparisons: Iterable[Comparison]) -> list[str]:
    """Say where another linear metric does as well as CCML, or better, or perhaps."""
    ordered = comparison_order(comparisons)
    sentences = []
    by_chance: dict[str, list[str]] = {}
    for comparison in ordered:
        points = rounded(comparison.difference)
        column = f"With {RULES[comparison.rule]} on {comparison.data}"
        other, p = ROWS[comparison.row], p_text(comparison.p_value)
        if points == 0:
            sentences.append(f"{column}, {other} has CCML's error ({p}, {comparison.units}).")
        elif points < 0:
            below = f"{-points:.2f} percentage points below CCML"
            sentences.append(f"{column}, {other} is {below} ({p}, {comparison.units}).")
        elif comparison.p_value >= _CHANCE:
            by_chance.setdefault(column, []).append(f"{other} ({p})")
    if ordered and not sentences:
        plural = "this one comparison" if len(ordered) == 1 else f"all {len(ordered)} comparisons"
        sentences.append(f"CCML has the lower error in {plural}.")
    sentences += [
        f"{column}, CCML's lead over {_listed(others)} may be chance."
        for column, others in by_chance.items()
    ]
    if any(comparison.dataset == "isolet" for comparison in ordered):
        sentences.append(
            "On ISOLET rows are taken as independent; as those of a speaker may not be, its "
            "p-values may be too small."
        )
    return sentences


def signed(points: float) -> str:
    """Write percentage points with their sign; never as -0.00.

    Examples
    --------
    >>> signed(1.234), signed(-0.001)
    ('+1.23', '+0.00')
    """
    return f"{rounded(points) + 0.0:+.2f}"


def p_text(p_value: float) -> str:
    """Write a p-value as one does: never as 0.

    Examples
    --------
    >>> p_text(0.0312), p_text(1e-9)
    ('p = 0.031', 'p < 0.001')
    """
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
