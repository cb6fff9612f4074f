"""What every file becomes."""

from dataclasses import dataclass
from typing import Any, Literal

from numpy.typing import NDArray


class DataFileError(ValueError):
    """A file can't be read as data; the message says which, why, and what to do."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to learn from or to decide about.

    Attributes
    ----------
    kind : {"table", "vectors", "images"}
    X : DataFrame, or ndarray of shape (n, features), (n, height, width) or (n, channels, ...)
    y : ndarray of shape (n,) or None
        Labels, if there are any.
    names : list or None
        What to call the rows, where that isn't 0, 1, 2 and so on: the paths of images, and the
        numbers of the rows of a table of which some are left out.
    notes : tuple of str
        What was done to them that their owner should know of.
    """

    kind: Literal["table", "vectors", "images"]
    X: Any
    y: NDArray[Any] | None = None
    names: list[Any] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.X)

    @property
    def called(self) -> list[Any]:
        """What the rows are called: ``names``, or 0, 1, 2 and so on."""
        return list(range(len(self))) if self.names is None else self.names
