"""Figures as files: the same bytes from the same results."""

from pathlib import Path
from typing import TYPE_CHECKING

from ccml._atomic import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save_svg(figure: "Figure", path: Path) -> None:
    """Write a figure, whole or not at all."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without a salt and with a date, no two files would be the same.
    with rc_context({"svg.hashsalt": "ccml"}), whole_file(path) as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
