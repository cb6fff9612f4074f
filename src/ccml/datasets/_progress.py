"""A progress bar that pooch can drive."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn


class DownloadBar:
    """Show a download on standard error, where that is a terminal.

    pooch sets ``total`` and calls ``update``, ``reset`` and ``close``. It does not call ``close``
    when a download fails, so the bar is used in a ``with`` statement.
    """

    def __init__(self, label: str) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(label, total=None)

    @property
    def total(self) -> int:
        """Bytes to come; 0 if the server does not say."""
        return int(self._progress.tasks[0].total or 0)

    @total.setter
    def total(self, n_bytes: int) -> None:
        self._progress.update(self._task, total=n_bytes or None)

    def update(self, n_bytes: int) -> None:
        """Advance by this many bytes."""
        self._progress.advance(self._task, n_bytes)

    def reset(self) -> None:
        """Go back to the beginning: pooch does so before it fills the bar."""
        self._progress.update(self._task, completed=0)

    def close(self) -> None:
        """Take the bar off the screen."""
        self._progress.stop()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
