"""Which implementation searches: the compiled one, or plain numpy."""

import os
from functools import cache
from types import ModuleType


def backend() -> str:
    """Say what the search runs on: "numba", or "numpy" where that can't be or isn't wanted.

    Both give the same neighbours; numba is many times faster. It is left alone if the
    environment says ``CCML_NUMBA=0``, and where it can't be imported, is switched off by its own
    ``NUMBA_DISABLE_JIT``, or can't write down what it compiled.

    Examples
    --------
    >>> from ccml import neighbors
    >>> neighbors.backend() in {"numba", "numpy"}
    True
    """
    return "numpy" if compiled() is None else "numba"


def compiled() -> ModuleType | None:
    """Return the compiled implementation, or None for plain numpy."""
    return None if os.environ.get("CCML_NUMBA") == "0" else _import_compiled()


@cache
def _import_compiled() -> ModuleType | None:
    try:
        import numba

        from ccml.neighbors import _compiled
    except (ImportError, RuntimeError):  # numba: "cannot cache function: no locator available"
        return None
    switched_off = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
    return None if switched_off else _compiled
