"""What commands print on, and how they fail: in one line, with an exit code."""

import json
import re
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


# Options, by the names of the parameters that the library's messages name.
_OPTIONS = {
    "checkpoint": "--checkpoint",
    "datasets": "--datasets",
    "delimiter": "--delimiter",
    "device": "--device",
    "embedding": "--embedding",
    "image_size": "--image-size",
    "labels": "--labels",
    "learner": "--learner",
    "minutes": "--tune",
    "n_components": "--components",
    "n_neighbors": "--neighbors",
    "quantile": "--reject",
    "random_state": "--seed",
    "rows": "--rows",
    "seed": "--seed",
    "seeds": "--seeds",
    "study": "-o",
    "target": "--target",
    "what": "",  # an argument, not an option
}
# "CCML(n_neighbors=0)", "delimiter=';'" or "target="; not the folder of "target=1/data.parquet".
_PARAMETER = re.compile(
    r"(?<![\w/])(?P<owner>[\w.]+\((?=[^(),]*\)))?"
    rf"\b(?P<name>{'|'.join(_OPTIONS)})=(?P<value>'[^']*'|-?\d[\d.]*|-?inf|nan|)(?![\w/])"
    r"(?(owner)\))"
)


class _State:
    """What the options before the command say."""

    debug = False


def show_tracebacks() -> None:
    """Let errors through as they are."""
    _State.debug = True


def in_options(sentence: str) -> str:
    """Name options instead of the parameters that the library's messages name.

    Examples
    --------
    >>> in_options("It seems to be delimited by ';'. Use delimiter=';'.")
    "It seems to be delimited by ';'. Use --delimiter ';'."
    >>> in_options("CCML(n_neighbors=0) must be a whole number of at least 1.")
    '--neighbors 0 must be a whole number of at least 1.'
    """

    def option(found: re.Match[str]) -> str:
        return f"{_OPTIONS[found['name']]} {found['value']}".strip()

    return _PARAMETER.sub(option, sentence)


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
    """Turn errors into one line and exit code 1; Ctrl-C into 130."""

    @wraps(command)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with interruptible() as notes:
                command(*args, **kwargs)
            for note in notes:
                say(f"Note: {note}")
        except (typer.Exit, typer.Abort, BrokenPipeError):  # as when `head` has had enough
            raise
        except Exception as error:
            if _State.debug:
                raise
            complain(f"Error: {in_options(_sentence(error))}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            complain("Interrupted; nothing is reported or written from what was cut short.")
            raise typer.Exit(130) from None

    return checked


def _sentence(error: Exception) -> str:
    """Say what went wrong on one line; of what nobody has foreseen, also what kind it is."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    text = " ".join(str(error).split())
    if isinstance(error, ValueError | OSError | ImportError):
        return text
    return f"{type(error).__name__}: {text} (`ccml --debug` shows where)"


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
