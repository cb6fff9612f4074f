"""The report of what was reproduced: a page, and the table in Markdown and LaTeX.

The page, ``index.html``, holds everything it shows: it opens from a disk, without a network.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

from ccml._atomic import whole_file
from ccml.experiments import records as results
from ccml.experiments.layout import (
    arrange,
    comparison_order,
    comparisons_in_words,
    over_seeds,
    p_text,
    signed,
    summary,
)
from ccml.experiments.records import DATASETS, ROWS, RULES, Comparison, Figure, Record
from ccml.experiments.typeset import latex, markdown

__all__ = ["html", "latex", "markdown", "write", "write_figures"]

_MEDIA_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}


def write(
    folder: Path,
    records: Sequence[Record],
    comparisons: Sequence[Comparison] = (),
    figures: Sequence[Figure] = (),
) -> Path:
    """Write the report into a folder and return the path of its page.

    Beside the page ``index.html`` there are ``table.md``, ``table.tex``, and ``results.json`` and
    ``comparisons.json``, which `ccml.experiments.records` reads. Each replaces what had its name,
    complete or not at all.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     page = write(Path(folder), [])
    ...     sorted(path.name for path in page.parent.iterdir())
    ['comparisons.json', 'index.html', 'results.json', 'table.md', 'table.tex']
    """
    texts = {
        "table.md": markdown(records, comparisons),
        "table.tex": latex(records),
        "index.html": html(records, comparisons, figures),
    }
    folder.mkdir(parents=True, exist_ok=True)
    results.write(folder / "results.json", records)
    results.write_comparisons(folder / "comparisons.json", comparisons)
    for name, text in texts.items():
        with whole_file(folder / name) as file:
            file.write(text.encode())
    return folder / "index.html"


def write_figures(path: Path, figures: Sequence[Figure], missing: Sequence[str] = ()) -> Path:
    """Write a page of figures alone and return its path; a table's report stays as it is.

    ``missing`` says why something isn't in them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        file.write(html([], [], figures, missing).encode())
    return path


def html(
    records: Iterable[Record],
    comparisons: Iterable[Comparison],
    figures: Iterable[Figure],
    missing: Sequence[str] = (),
) -> str:
    """Lay everything out as one page that needs nothing else."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "compact": lambda value: json.dumps(value, ensure_ascii=False),
        "duration": _duration,
        "name": _name,
        "p": p_text,
        "percent": results.two_decimals,
        "rounded": results.rounded,
        "seeds": _seeds,
        "signed": lambda value: signed(value).replace("-", "\N{MINUS SIGN}"),
    }
    template = files("ccml.experiments").joinpath("report.html.jinja").read_text("utf-8")
    records, comparisons = results.in_order(records), comparison_order(comparisons)
    table, figures = arrange(records), list(figures)
    return environment.from_string(template).render(
        table=table,
        summary=_apostrophes(" ".join(summary(table))),
        over_seeds=over_seeds(table),
        records=records,
        comparisons={(c.row, c.dataset, c.rule): c for c in comparisons},
        others=[row for row in ROWS if any(row == c.row for c in comparisons)],
        compared=[data for data in DATASETS if any(data == c.dataset for c in comparisons)],
        sentences=[_apostrophes(sentence) for sentence in comparisons_in_words(comparisons)],
        figures=[(figure, _data_uri(figure)) for figure in figures],
        missing=missing,
        commits=results.all_of("commit", [*records, *figures]),
        machines=results.all_of("machine", [*records, *figures]),
        DATASETS=DATASETS,
        RULES=RULES,
    )


def _data_uri(figure: Figure) -> str:
    if figure.path.suffix not in _MEDIA_TYPES:
        raise ValueError(f"Figure(path={str(figure.path)!r}) must be an SVG or a PNG file.")
    content = b64encode(figure.path.read_bytes()).decode()
    return f"data:{_MEDIA_TYPES[figure.path.suffix]};base64,{content}"


def _apostrophes(text: str) -> str:
    return text.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")


def _name(row: str) -> str:
    """Let a row's name break before its parenthesis only."""
    start, parenthesis, end = ROWS[row].partition(" (")
    return start + parenthesis + end.replace(" ", "\N{NO-BREAK SPACE}")


def _duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}\N{EN DASH}{seeds[-1]}"
    return ", ".join(map(str, seeds))
