"""What is told of each epoch, to the user's callbacks and to the progress bar."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Callback(Protocol):
    """Anything that can be called with these three after every epoch.

    ``validation_error`` is the CCKNN error on the held-out rows, as a fraction, or None where
    nothing is held out. An exception raised here ends the training.
    """

    def __call__(self, epoch: int, loss: float, validation_error: float | None) -> None:
        """Take note of one epoch."""


@contextmanager
def progress_bar(max_epochs: int, title: str) -> Iterator[Callback]:
    """Draw a bar with the epoch, the loss and the validation error; yield its callback."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[report]}"),
    )
    with Progress(*columns) as progress:
        task = progress.add_task(title, total=max_epochs, report="")

        def advance(epoch: int, loss: float, validation_error: float | None) -> None:
            report = f"loss {loss:.4f}"
            if validation_error is not None:
                report += f", validation error {validation_error:.2%}"
            progress.update(task, completed=epoch, report=report)

        yield advance
