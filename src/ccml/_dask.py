"""Dask collections: what is one, and how a method of rows is applied to its blocks.

Dask is optional and slow to import: whoever has no collection of its own never pays for it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Method = TypeVar("Method", bound=Callable[..., Any])

_in_task = ContextVar("ccml_in_dask_task", default=False)


def is_dask(X: Any) -> bool:
    """Tell a dask collection from all else, without importing dask for it."""
    if "dask" not in sys.modules:
        return False
    from dask.base import is_dask_collection

    return is_dask_collection(X)


def dask_array() -> ModuleType:
    """Return the module `dask.array`, or say what to install."""
    try:
        import dask.array
    except ImportError as error:
        raise ImportError("Dask collections need more packages: pip install 'ccml[dask]'.") from (
            error
        )
    return dask.array


def refuse_dask(owner: str, *arguments: Any) -> None:
    """Refuse to load a collection, which may be larger than memory, where nobody asked for it."""
    if any(map(is_dask, arguments)):
        raise TypeError(
            f"{owner} needs its rows in memory; got a dask collection. Give it X.compute(), or a "
            "part of the rows."
        )


@contextmanager
def in_task() -> Iterator[None]:
    """Mark what runs inside a task: dask has its own threads, so a search takes only one."""
    token = _in_task.set(True)
    try:
        yield
    finally:
        _in_task.reset(token)


def is_in_task() -> bool:
    """Whether this runs inside a task."""
    return _in_task.get()


def by_blocks(method: Method) -> Method:
    """Let a method of rows take dask arrays and dataframes too: block by block, when computed.

    It is called at once with a single row of zeros, which finds the type and shape of the result,
    and whatever is wrong with the columns or the parameters.
    """

    @wraps(method)
    def applied(self: Any, X: Any) -> Any:
        return map_rows(self, method.__name__, X) if is_dask(X) else method(self, X)

    return cast(Method, applied)


def map_rows(model: Any, name: str, X: Any) -> Any:
    """Apply a model's method, by its name, to the blocks of ``X``: a lazy array of the results."""
    da = dask_array()
    from dask.delayed import delayed

    sample = sample_row(X)
    empty = np.asarray(getattr(model, name)(sample))[:0]
    model = copy(model)  # what is fitted anew meanwhile is another
    if isinstance(sample, np.ndarray):
        vars(model).pop("feature_names_in_", None)  # the row without names has been warned about
    # A node of its own is sent to a worker once, and not with every block.
    node = delayed(model, traverse=False)
    if not isinstance(X, da.Array):
        apply = delayed(_apply)
        return _stacked([apply(part, node, name, empty) for part in _parts(X)], empty)
    letters = "abcdefghijklmnopqrstuvwxyz"
    axes = letters[: X.ndim]
    added = letters[X.ndim : X.ndim + empty.ndim - 1]
    return da.blockwise(
        _apply, axes[0] + added, X.rechunk(dict.fromkeys(range(1, X.ndim), -1)), axes, node, None,
        name, None, empty, None, new_axes=dict(zip(added, empty.shape[1:], strict=True)),
        concatenate=True, meta=empty, token=name,
    )  # fmt: skip


def sample_row(X: Any) -> Any:
    """Return one row of zeros with the columns and type of a collection."""
    if isinstance(X, dask_array().Array):
        if np.isnan(X.shape[1:]).any():
            raise ValueError(
                f"X is a dask array of shape {X.shape}, whose columns aren't counted. Call its "
                "compute_chunk_sizes() first."
            )
        return np.zeros((1, *X.shape[1:]), dtype=X.dtype)
    meta: Any = getattr(X, "_meta", None)
    if not hasattr(meta, "columns"):
        raise TypeError(
            f"X is a dask {type(X).__name__}; only arrays and dataframes have rows and columns."
        )
    dtypes = list(meta.dtypes)
    plain = all(isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in dtypes)
    zeros = np.zeros((1, len(dtypes)), dtype=np.result_type(*dtypes) if plain else np.float64)
    return type(meta)(zeros, columns=meta.columns)


def as_array(collection: Any) -> Any:
    """Make a dask array of a dataframe or a series; its blocks have lengths that nobody knows."""
    if isinstance(collection, dask_array().Array):
        return collection
    if not hasattr(collection, "to_delayed") or not hasattr(collection, "_meta"):
        raise TypeError(
            f"Got a dask {type(collection).__name__}; only arrays, dataframes and series can be "
            "read as rows."
        )
    from dask.delayed import delayed

    parts = [delayed(np.asarray)(part) for part in _parts(collection)]
    return _stacked(parts, np.asarray(collection._meta))


def _parts(frame: Any) -> list[Any]:
    """Return the partitions of a dataframe or series, as they are cut.

    Tuned, dask would join some of them, by how many columns are read: more of labels than of rows.
    """
    import dask.config

    with dask.config.set({"optimization.tune.active": False}):
        return list(frame.to_delayed())


def _stacked(parts: list[Any], empty: NDArray[Any]) -> Any:
    """Put parts of unknown lengths under one another.

    `map_partitions` does it too, but dask (2026.8) can't always fuse the graph that it makes.
    """
    da = dask_array()
    shape = (np.nan, *empty.shape[1:])
    blocks = [da.from_delayed(part, shape, meta=empty) for part in parts]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def _apply(block: Any, model: Any, name: str, empty: NDArray[Any]) -> NDArray[Any]:
    if len(block) == 0:
        return empty
    with in_task():
        return np.asarray(getattr(model, name)(block)).astype(empty.dtype, copy=False)
