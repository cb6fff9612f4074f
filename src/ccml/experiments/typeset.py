"""Table I in Markdown and in LaTeX."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ccml.experiments.layout import (
    Cell,
    Table,
    arrange,
    comparison_order,
    comparisons_in_words,
    over_seeds,
    p_text,
    signed,
    summary,
)
from ccml.experiments.records import ROWS, RULES, Comparison, Record, data_name, two_decimals

_LEGEND = (
    "Errors in percent of the test rows, mean ± standard deviation {over_seeds}; bold "
    "where at or below the paper's. In parentheses: the best number of principal components. "
    "ConvNet's figure is its own error."
)


def markdown(records: Iterable[Record], comparisons: Iterable[Comparison] = ()) -> str:
    """Give the summary, the table (a line a row and data set) and the comparisons in Markdown."""
    table = arrange(records)
    comparisons = comparison_order(comparisons)
    blocks = [" ".join(summary(table))]
    if table.datasets:
        legend = _LEGEND.format(over_seeds=over_seeds(table))
        blocks += ["\n".join(_markdown_table(table)), legend]
        blocks += [
            f"<sup>{letter}</sup> {_markdown_text(reason)}"
            for letter, reason in table.notes.items()
        ]
    if comparisons:
        words = " ".join(comparisons_in_words(comparisons))
        blocks += [words, "\n".join(_markdown_comparisons(comparisons))]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _markdown_table(table: Table) -> Iterator[str]:
    yield "| data set | metric | KNN | paper | CCKNN | paper |"
    yield "|---|---|--:|--:|--:|--:|"
    for data in table.datasets:
        for line in table.lines:
            texts = _markdown_cells(line.cells[data])
            if any(texts):
                yield f"| {_heading(table, data)} | {ROWS[line.row]} | {' | '.join(texts)} |"


def _markdown_comparisons(comparisons: Iterable[Comparison]) -> Iterator[str]:
    yield "| data set | rule | metric | its error less CCML's | paired t-test | over |"
    yield "|---|---|---|--:|--:|--:|"
    for c in comparisons:
        yield (
            f"| {c.data} | {RULES[c.rule]} | {ROWS[c.row]} | {signed(c.difference)} | "
            f"{p_text(c.p_value)} | {c.units} |"
        )


def _heading(table: Table, data: str) -> str:
    return data_name(data, stand_in=data in table.stand_ins)


def _markdown_cells(cells: Sequence[Cell]) -> list[str]:
    texts = []
    for cell in cells:
        record = cell.record
        if record is None:
            texts += ["", ""]
            continue
        mean = "\N{EN DASH}" if record.error is None else two_decimals(record.error)
        if record.at_most_paper:
            mean = f"**{mean}**"
        note = f" <sup>{cell.note}</sup>" if cell.note else ""
        spread = f" ± {record.spread:.2f}" if len(record.seeds) > 1 else ""
        if record.best_n_components is not None:
            spread += f" ({record.best_n_components})"
        paper = "" if record.paper is None else f"{record.paper:.2f}"
        texts += [mean + spread + note, paper]
    return texts + [""] * (4 - len(texts))


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


def latex(records: Iterable[Record]) -> str:
    r"""Give the table in LaTeX, for a document that has ``\usepackage{booktabs}``."""
    table = arrange(records)
    if not table.datasets:
        return "% no results\n"
    n = len(table.datasets)
    headings = [rf"\multicolumn{{2}}{{c}}{{{_heading(table, data)}}}" for data in table.datasets]
    rules = [rf"\cmidrule(lr){{{2 * i + 2}-{2 * i + 3}}}" for i in range(n)]
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table*}",
        r"\centering",
        r"\caption{Classification error in percent, mean $\pm$ standard deviation "
        f"{over_seeds(table)}; "
        r"the paper's figure in brackets. Bold: the lowest of the linear learners. In parentheses: "
        r"the best number of principal components.}",
        r"\label{tab:errors}",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{3pt}",
        rf"\begin{{tabular}}{{l{'rr' * n}}}",
        r"\toprule",
        " & ".join(["", *headings]) + r" \\",
        "".join(rules),
        " & ".join(["", *list(RULES.values()) * n]) + r" \\",
    ]
    for group in table.groups.values():
        lines.append(r"\midrule")
        lines += [
            " & ".join([ROWS[line.row], *map(_latex_cell, chain(*line.cells.values()))]) + r" \\"
            for line in group
        ]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [
        rf"\par\textsuperscript{{{letter}}} {_latex_text(reason)}"
        for letter, reason in table.notes.items()
    ]
    return "\n".join([*lines, r"\end{table*}", ""])


def _latex_cell(cell: Cell) -> str:
    record = cell.record
    if record is None:
        return ""
    mean = "--" if record.error is None else two_decimals(record.error)
    text = rf"\textbf{{{mean}}}" if cell.lowest else mean
    if len(record.seeds) > 1:
        text += rf"{{\scriptsize\,$\pm$\,{record.spread:.2f}}}"
    if record.best_n_components is not None:
        text += rf"{{\scriptsize\,({record.best_n_components})}}"
    text += rf"\textsuperscript{{{cell.note}}}" if cell.note else ""
    text += f" [{record.paper:.2f}]" if record.paper is not None else ""
    return rf"\multicolumn{{2}}{{c}}{{{text}}}" if cell.n_columns == 2 else text


_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def _latex_text(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))
