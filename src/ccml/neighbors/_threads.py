"""One pool of threads at a time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Any, Self

import numba
from threadpoolctl import ThreadpoolController

from ccml._dask import is_in_task

ALONE = 64  # fewer queries than this aren't worth a thread


class Threads(ThreadPoolExecutor):
    """Plain threads, made for a call, and the only ones at work during it.

    The kernels let go of the interpreter's lock. BLAS is kept to the thread that calls it: its
    own ones would spin beside ours. Searches in several threads at once and after a fork are fine.
    """

    _lock = Lock()
    _n_open = 0
    _limits: Any = None

    def __enter__(self) -> Self:
        with self._lock:
            if Threads._n_open == 0:
                Threads._limits = _blas().limit(limits=1)
            Threads._n_open += 1
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            super().__exit__(*error)
        finally:
            with self._lock:
                Threads._n_open -= 1
                if Threads._n_open == 0:
                    Threads._limits.restore_original_limits()

    def __init__(self) -> None:
        most = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
        self.n_threads = 1 if is_in_task() else most
        super().__init__(self.n_threads)

    def run(self, task: Callable[[slice], Any], n_queries: int, most: int) -> list[Any]:
        """Run a task on slices of at most ``most`` queries."""
        size = max(1, min(most, -(-n_queries // self.n_threads)))
        parts = [slice(i, i + size) for i in range(0, n_queries, size)]
        if n_queries < ALONE or self.n_threads < 2:
            return [task(part) for part in parts]
        return list(self.map(task, parts))


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")
