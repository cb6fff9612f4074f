"""What commands print on, and how they fail: in one line, with an exit code."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec

import typer
from rich.console import Console

console = Console()
errors = Console(stderr=True)

P = ParamSpec("P")


class _State:
    """What the options before the command say."""

    debug = False


def show_tracebacks() -> None:
    """Let errors through as they are."""
    _State.debug = True


def complain(sentence: str) -> None:
    """Print a sentence where errors go."""
    errors.print(sentence, style="bold red", markup=False, soft_wrap=True, highlight=False)


def say(sentence: str) -> None:
    """Print a sentence for people: not in the way of what a program reads."""
    errors.print(sentence, markup=False, soft_wrap=True, highlight=False)


def print_json(result: Any) -> None:
    """Print a result for programs, on one line."""
    typer.echo(json.dumps(result))


def errors_in_one_line(command: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors that a user can cause into one line and exit code 1; Ctrl-C into 130."""

    @wraps(command)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with interruptible() as notes:
                command(*args, **kwargs)
            for note in notes:
                say(f"Note: {note}")
        except (ValueError, OSError, ImportError) as error:
            if _State.debug:
                raise
            complain(f"Error: {' '.join(str(error).split())}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            complain("Interrupted; nothing is reported or written from what was cut short.")
            raise typer.Exit(130) from None

    return checked


@contextmanager
def interruptible() -> Iterator[list[str]]:
    """Let Ctrl-C stop the command; a learner would take it as "enough" and only warn.

    Other warnings are collected, as sentences.
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.filterwarnings("error", message=".* was interrupted")
        try:
            yield notes
        except UserWarning as warning:
            if "was interrupted" in str(warning):
                raise KeyboardInterrupt from None
            raise
    notes += dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)
