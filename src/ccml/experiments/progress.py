"""How far a run has come, and how long it will still take."""

import time
from collections.abc import Callable, Sequence

from ccml.experiments import protocol
from ccml.experiments.cells import Cell, Outcome
from ccml.experiments.runs import Event


class Progress:
    """Takes events, and knows what is finished, what is running and the time left.

    It may be asked from another thread than the one that takes events.
    """

    def __init__(
        self, cells: Sequence[Cell], jobs: int, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.n_cells = len(cells)
        self._ended: dict[Cell, Outcome | str] = {}
        self._epochs: dict[Cell, int] = {}  # of those that are running
        self._expected = {cell: protocol.expected_seconds(cell.dataset, cell.row) for cell in cells}
        self._begun: dict[Cell, float] = {}
        self._took: dict[Cell, float] = {}  # in this run
        self._jobs, self._now = jobs, now

    def note(self, event: Event) -> None:
        """Take an event."""
        cell = event.cell
        result = event.outcome if event.reason is None else event.reason
        if result is not None:
            self._ended[cell] = result
            self._epochs.pop(cell, None)
            if cell in self._begun:
                self._took[cell] = self._now() - self._begun[cell]
        elif cell not in self._ended:  # what a process tells may come late
            self._begun.setdefault(cell, self._now())
            self._epochs[cell] = event.epoch or 0

    @property
    def ended(self) -> dict[Cell, Outcome | str]:
        """What came of the cells that are finished."""
        return dict(self._ended)

    @property
    def epochs(self) -> dict[Cell, int]:
        """How far those are that are running."""
        return dict(self._epochs)

    def seconds_left(self) -> float:
        """Estimate it from what cells are expected to take, and what they took here."""
        took, ended = dict(self._took), self.ended
        expected = sum(self._expected[cell] for cell in took)
        speed = sum(took.values()) / expected if expected else 1.0
        left = 0.0
        for cell, seconds in self._expected.items():
            if cell not in ended:
                gone = self._now() - self._begun[cell] if cell in self._begun else 0.0
                left += max(speed * seconds - gone, 0.0)
        return left / self._jobs
