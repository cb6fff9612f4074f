"""Kill a process that adds to a gallery, again and again, and see what is there afterwards.

``python tests/gallery/kills.py FOLDER [ROUNDS]``. Each round forks a process that adds batches, and
notes each after `add` has returned; it is killed at some moment, and a second process checks that
every noted batch is there, whole, and that nothing is there twice. Nothing of gRPC runs in the
process that forks.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from ccml.gallery import Gallery, _store

BATCH, WIDTH = 50, 8
_store._UNSETTLED_ROWS, _store._LARGE = 200, 500  # to be killed while segments and indexes are made


def rows_of(batch: int) -> np.ndarray:
    return np.random.default_rng(batch).normal(size=(BATCH, WIDTH))


def opened(folder: Path) -> Gallery:
    return Gallery(PCA(4, random_state=0).fit(rows_of(0)), folder / "gallery.db")


def ids_of(batch: int) -> range:
    return range(batch * BATCH, (batch + 1) * BATCH)


def add_batches(folder: Path, begin: int) -> None:
    """From the batch that was cut short on, which may be there already."""
    with opened(folder) as gallery, (folder / "added").open("a") as notes:
        for batch in range(begin, begin + 1000):
            gallery.add(rows_of(batch), [f"class {batch % 7}"] * BATCH, ids_of(batch))
            notes.write(f"{batch}\n")
            notes.flush()


def added(folder: Path) -> int:
    """Batches that `add` has returned for: they are numbered."""
    notes = folder / "added"
    return len(set(notes.read_text().split())) if notes.exists() else 0


def check(folder: Path) -> None:
    n = added(folder)
    with opened(folder) as gallery:
        gallery.export_parquet(folder / "items.parquet")
        n_items, n_classes = gallery.count(), len(gallery.classes)
        found = gallery.search(rows_of(max(n - 1, 0))[:5], 1)
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(folder / "items.parquet", columns=["id", "label"])
    ids = [int(text) for text in table["id"].to_pylist()]
    assert len(ids) == len(set(ids)) == n_items, "something is there twice"
    missing = set(range(n * BATCH)) - set(ids)
    assert not missing, f"{len(missing)} of {n * BATCH} items are missing"
    assert set(ids) <= set(range((n + 1) * BATCH)), "something that nobody has added"
    assert len(set(table["label"].to_pylist())) <= n_classes, "a class that isn't known"
    if n:
        assert [matches[0].id for matches in found] == [*ids_of(n - 1)][:5]


def in_a_fork(task, *arguments) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            task(*arguments)
            code = 0
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(code)
    return pid


def main(folder: Path, rounds: int) -> None:
    rng = random.Random(0)
    for _ in range(rounds):
        before = added(folder)
        pid = in_a_fork(add_batches, folder, before)
        while added(folder) == before:  # it takes a while to open
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.5))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        _, status = os.waitpid(in_a_fork(check, folder), 0)
        if status:
            sys.exit(1)
    report = f"{rounds} kills, {added(folder)} batches of {BATCH}: all there, nothing twice\n"
    sys.stdout.write(report)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100)
