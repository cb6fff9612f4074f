"""Figures as files: the same bytes from the same results."""

from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING

from ccml._atomic import whole_file
from ccml.experiments import records
from ccml.experiments.cells import Cell, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CONV_CCML = ("ConvCCML-2", "ConvCCML-1")  # the deepest first: a figure has one


def deepest(rows: Container[str]) -> str | None:
    """Name the deepest network that there is among rows."""
    return next((row for row in CONV_CCML if row in rows), None)


def data_name(cell: Cell, outcome: Outcome) -> str:
    """Name the data of a cell, and say so if it isn't the paper's."""
    return records.data_name(cell.dataset, stand_in=outcome.about["stand_in"])


def save_svg(figure: "Figure", path: Path) -> None:
    """Write a figure, whole or not at all."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without a salt and with a date, no two files would be the same.
    with rc_context({"svg.hashsalt": "ccml"}), whole_file(path) as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
