"""What commands print on, and how they fail: in one line, with an exit code."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import typer
from rich.console import Console

console = Console()

P = ParamSpec("P")


def complain(sentence: str) -> None:
    """Print a sentence where errors go."""
    Console(stderr=True).print(sentence, style="bold red", markup=False, soft_wrap=True)


def errors_in_one_line(command: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors that a user can cause into one line and exit code 1."""

    @wraps(command)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, OSError) as error:
            complain(f"Error: {error}")
            raise typer.Exit(1) from None

    return checked
