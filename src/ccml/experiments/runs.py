"""Many cells, in several processes; each is kept on disk as soon as it is there."""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ccml.experiments import protocol, provenance
from ccml.experiments.cells import Cell, Outcome, compute

_OF_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_SECONDS = 0.5  # between looks at what the processes tell


class NotKeptError(OSError):
    """An outcome can't be written; going on would lose the others too."""


@dataclass(frozen=True)
class Event:
    """What happened to a cell: it has begun, come to an epoch, or ended; perhaps in failure."""

    cell: Cell
    epoch: int | None = None
    outcome: Outcome | None = None
    reason: str | None = None


def run(
    cells: Sequence[Cell],
    folder: Path,
    *,
    jobs: int = 1,
    on_event: Callable[[Event], None] = lambda event: None,
) -> dict[Cell, Outcome | str]:
    """Compute the cells that ``folder`` doesn't have yet; return all, or why there is none.

    Killed, or interrupted, it loses the cells that were being computed and no other.
    """
    results: dict[Cell, Outcome | str] = {}
    missing: dict[str, str] = {}  # why a data set isn't here; it is looked for once
    paths: dict[Path, list[Cell]] = {}  # of cells that are the same under two names, one is enough
    for cell in cells:
        try:
            data = None if cell.dataset in missing else protocol.load(cell.dataset)
        except OSError as error:
            data, missing[cell.dataset] = None, " ".join(str(error).split())
        if data is None:
            results[cell] = missing[cell.dataset]
            on_event(_end(cell, results[cell]))
            continue
        path = folder / f"{cell.key(data)}.npz"
        kept = _kept(path)
        if kept is None:
            paths.setdefault(path, []).append(cell)
        else:
            results[cell] = kept
            on_event(_end(cell, kept))
    for path, result in _computed({path: same[0] for path, same in paths.items()}, jobs, on_event):
        for cell in paths[path]:
            results[cell] = result
            on_event(_end(cell, result))
    return {cell: results[cell] for cell in cells}


def _end(cell: Cell, result: Outcome | str) -> Event:
    return Event(cell, reason=result) if isinstance(result, str) else Event(cell, outcome=result)


def _kept(path: Path) -> Outcome | None:
    try:
        return Outcome.load(path)
    except Exception:  # not there, or damaged: a zip file has many ways to be
        return None


def _computed(
    cells: Mapping[Path, Cell], jobs: int, on_event: Callable[[Event], None]
) -> Iterator[tuple[Path, Outcome | str]]:
    """Yield each outcome as it comes, from as many processes."""
    if not cells:
        return
    context = multiprocessing.get_context("spawn")  # torch doesn't survive a fork
    told: Any = context.Queue()
    with _one_thread_each(), ProcessPoolExecutor(jobs, context, _begin, (told,)) as pool:
        waiting: dict[Future[Outcome], Path] = {
            pool.submit(_compute, cell, path): path for path, cell in cells.items()
        }
        try:
            while waiting:
                done, _ = wait(waiting, timeout=_SECONDS, return_when=FIRST_COMPLETED)
                for event in _drained(told):
                    on_event(event)
                for future in done:
                    path = waiting.pop(future)
                    yield path, _result(future)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _result(future: "Future[Outcome]") -> Outcome | str:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise RuntimeError(
            "A process was killed, perhaps for want of memory. Finished cells are kept: run it "
            "again, with fewer jobs."
        ) from error
    except NotKeptError:
        raise
    except Exception as error:  # the other cells go on
        return f"{type(error).__name__}: {error}"


def _drained(told: Any) -> Iterator[Event]:
    while True:
        try:
            yield told.get_nowait()
        except queue.Empty:
            return


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Give processes that begin in this block one thread, whatever the number of them.

    More threads sum in another order: a cell would depend on how many were computed beside it.
    """
    before = {name: os.environ.get(name) for name in _OF_THREADS}
    os.environ.update(dict.fromkeys(_OF_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


class _Process:
    """What a process of the pool knows."""

    told: Any = None


def _begin(told: Any) -> None:
    _Process.told = told
    provenance.commit()  # now: by the time the first cell ends there may be another
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a learner would take Ctrl-C as "enough"
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _compute(cell: Cell, path: Path) -> Outcome:
    _Process.told.put(Event(cell))
    outcome = compute(cell, lambda epoch: _Process.told.put(Event(cell, epoch=epoch)))
    try:
        outcome.save(path)
    except OSError as error:
        raise NotKeptError(
            f"What was computed can't be kept in {path.parent}: {error.strerror}. What is there "
            "already stays; make room and run it again."
        ) from error
    return outcome
