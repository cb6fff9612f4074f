"""Damaged and forged files of every kind that is read: a result or a clear error, nothing else.

``make fuzz`` runs all of it. A case is made from its number alone, so what
``python -m tests.fuzz --only model --case 1234`` reads is what case 1234 read before.

A finding is an error of another type than is documented, or of several lines, or that doesn't name
the file; a warning; more memory or time than a small file may take; the end of the process; and an
attempt to run code, which the hook below stops.
"""

import argparse
import ast
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.fuzz_files import GROUPS, mutated, write_seeds
from tests.fuzz_readers import Reader, readers, trap

_SPARE_MEMORY = 2 << 30  # bytes, beside what the libraries take
_SOURCES = Path(__file__).parents[1] / "src"
_WAITS = 30  # times the limit that a case may wait for a busy machine
_START = 1800  # seconds until the libraries are there and every seed is read once
_RUNS = (
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile",
    "subprocess.Popen", "pty.spawn", "socket.connect", "socket.bind", "webbrowser.open",
    "ctypes.dlopen",
)  # fmt: skip
_CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.symlink", "os.link")


Case = tuple[str, int]  # group and number


class Outcome(NamedTuple):
    """What became of a case."""

    case: Case
    kind: str
    finding: str  # empty if it is as it has to be
    seconds: float


class Tripwire:
    """Notes, and stops, what a file must not do.

    Libraries may import what is theirs; to run text, even text that they make up, is for before.
    """

    class Tripped(BaseException):
        """Passes through a reader's ``except Exception``."""

    def __init__(self, folder: Path) -> None:
        self.tripped: list[str] = []
        self.armed = False
        self._inside = str(folder)
        self._libraries = (sys.prefix, sys.base_prefix, str(_SOURCES), "<frozen ")
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed or not self._is_forbidden(event, arguments):
            return
        self.tripped.append(f"{event} {arguments!r}"[:300])
        raise self.Tripped(self.tripped[-1])

    def _is_forbidden(self, event: str, arguments: tuple[Any, ...]) -> bool:
        if event in _RUNS:
            return True
        if event in _CHANGES or (event == "open" and self._is_for_writing(*arguments)):
            return not str(arguments[0]).startswith(self._inside)
        if event == "exec":
            return not arguments[0].co_filename.startswith(self._libraries)
        if event == "compile":  # `ast.literal_eval`, which NumPy's headers need, runs nothing
            return sys._getframe(2).f_code.co_filename != ast.__file__
        return False

    @staticmethod
    def _is_for_writing(path: Any, mode: str | None, flags: int) -> bool:
        return not isinstance(path, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def work(sender: Any, cases: Sequence[Case], folder: Path, limit: float) -> None:
    """Send the outcome of each case, after a word that all is ready.

    The limit is of the processor's time: SIGPROF ends this process, in whatever loop it is.
    """
    place, wire = folder / "work", Tripwire(folder)
    names = {seed_of(case) for case in cases}
    if "trap" in names:
        known, seeds = {"trap": trap}, {"trap": {"trap": b""}}
    else:
        known, seeds = readers(), _seeds(names, folder / "seeds")
        for name in seeds:  # what is imported late, also where an error is made, is imported now
            known[name].use(known[name].read(folder / "seeds" / name))
            nothing = dict.fromkeys(seeds[name], b"")
            _outcome((name, -1), known[name], nothing, place / name, wire, armed=False)
    _limit_memory()
    sender.send("ready")
    for case in cases:
        name, (group, number) = seed_of(case), case
        if group == "trap":
            files = {"trap": str(number).encode()}
        else:
            files = mutated(name, seeds[name], random.Random(f"{group} {number}"))
        signal.setitimer(signal.ITIMER_PROF, limit)
        outcome = _outcome(case, known[name], files, place / group / str(number), wire)
        signal.setitimer(signal.ITIMER_PROF, 0)
        sender.send(outcome)


def seed_of(case: Case) -> str:
    """Seeds take turns."""
    group, number = case
    return GROUPS[group][number % len(GROUPS[group])]


def _seeds(names: set[str], folder: Path) -> dict[str, dict[str, bytes]]:
    if not folder.exists():  # a worker that was ended has left them to this one
        with warnings.catch_warnings(action="ignore"):
            write_seeds(folder)
    return {
        name: {
            str(path.relative_to(folder / name)): path.read_bytes()
            for path in (folder / name).rglob("*")
            if path.is_file()
        }
        for name in sorted(names)
    }


def _limit_memory() -> None:
    with suppress(ImportError, OSError):  # where there is no such limit
        import resource

        n_pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = n_pages * resource.getpagesize() + _SPARE_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _outcome(
    case: Case,
    reader: Reader,
    files: dict[str, bytes],
    folder: Path,
    wire: Tripwire,
    *,
    armed: bool = True,
) -> Outcome:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    finding, started = "", time.perf_counter()
    with warnings.catch_warnings(record=True, action="always") as caught:
        wire.armed = armed
        try:
            result = reader.read(folder)
            kind = "result"
        except reader.errors as error:
            kind, message = type(error).__name__, str(error)
            if not message.isprintable() or len(message) > 10_000:
                finding = f"not a line of text: {message[:1000]!r}"
            elif reader.names_the_file and str(folder) not in message:
                finding = f"doesn't name the file: {message}"
        except BaseException as error:
            wire.armed = False  # a traceback compiles the lines that it shows
            kind, finding = type(error).__name__, traceback.format_exc(limit=-4)
        finally:
            wire.armed = False
    # That a model is of another version of scikit-learn has to be said.
    caught = [one for one in caught if one.category.__name__ != "InconsistentVersionWarning"]
    if caught and not finding:
        finding = f"{caught[0].category.__name__}: {caught[0].message}"
    if kind == "result":
        with warnings.catch_warnings(action="ignore"):
            wire.armed = armed
            try:
                reader.use(result)
            except Exception:
                kind = "result, of no use"
            finally:
                wire.armed = False
    if wire.tripped:
        finding = f"run: {'; '.join(wire.tripped)}\n{finding}"
        wire.tripped.clear()
    seconds = time.perf_counter() - started
    shutil.rmtree(folder)
    return Outcome(case, kind, finding, seconds)


def outcomes(cases: Sequence[Case], folder: Path, limit: float) -> Iterator[Outcome]:
    """Run cases in a process of their own, which is replaced when it ends or hangs."""
    context = multiprocessing.get_context("spawn")
    n_done = 0
    while n_done < len(cases):
        receiver, sender = context.Pipe(duplex=False)
        left = cases[n_done:]
        worker = context.Process(target=work, args=(sender, left, folder, limit), daemon=True)
        worker.start()
        sender.close()
        if not receiver.poll(_START) or receiver.recv() != "ready":
            raise RuntimeError("The seeds can't be read.")
        for case in left:
            hangs = outcome = Outcome(case, "hang", f"takes over {limit:g} s", limit)
            try:
                if receiver.poll(_WAITS * limit):
                    outcome = receiver.recv()
            except EOFError:
                worker.join()
                ended = f"the process ended, with {worker.exitcode}"
                is_late = worker.exitcode == -signal.SIGPROF
                outcome = hangs if is_late else Outcome(case, "crash", ended, 0)
            n_done += 1
            yield outcome
            if outcome.kind in ("crash", "hang"):
                break
        worker.kill()
        worker.join()


def main() -> int:
    """Run cases, print what became of them, and return 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--only", choices=GROUPS, help="one group; else models and data")
    parser.add_argument("--cases", type=int, default=10_000, help="how many of each group")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--case", type=int, help="one case")
    parser.add_argument("--limit", type=float, default=10, help="a case's seconds of processor")
    options = parser.parse_args()
    first, n = (options.first, options.cases) if options.case is None else (options.case, 1)
    groups = [options.only] if options.only else ["model", "data", "checkpoint"]
    cases = [(group, number) for group in groups for number in range(first, first + n)]
    # Sets of names, which a model file has, are in the same order in each run.
    os.environ |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    kinds: Counter[str] = Counter()
    n_findings, slowest = 0, Outcome(("", 0), "", "", 0)
    with TemporaryDirectory(prefix="ccml-fuzz-") as folder, suppress(KeyboardInterrupt):
        for outcome in outcomes(cases, Path(folder), options.limit):
            group, number = outcome.case
            kinds[f"{group}, {seed_of(outcome.case)}: {outcome.kind}"] += 1
            slowest = max(slowest, outcome, key=lambda other: other.seconds)
            if outcome.finding:
                n_findings += 1
                _say(f"FINDING --only {group} --case {number} ({seed_of(outcome.case)})")
                _say(f"  {outcome.kind}: {outcome.finding}")
    for kind, count in sorted(kinds.items()):
        _say(f"{count:6} {kind}")
    group, number = slowest.case
    _say(f"slowest: --only {group} --case {number}, {slowest.seconds:.1f} s")
    _say(f"{sum(kinds.values())} cases, {n_findings} findings")
    return int(n_findings > 0)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
