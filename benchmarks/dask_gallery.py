"""A gallery in Zarr, searched by dask workers of 1 GB, beside one process that holds it."""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr

from ccml import CCKNNClassifier

SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
CHUNK = 250_000  # rows: 64 MB
QUERIES = 2000
ROUNDS = 3  # of one worker and of two, in turn
ENOUGH = 1.6
NEIGHBORS = 5

# A process of its own, so that it has the memory to itself.
IN_MEMORY = r"""
import sys, time
import numpy as np, zarr
from ccml import CCKNNClassifier

folder, n_neighbors = sys.argv[1], int(sys.argv[2])
Q = np.load(f"{folder}/queries.npy")
CCKNNClassifier(n_neighbors).fit(Q, np.arange(len(Q)) % 10).predict(Q)  # compiled from here on
start = time.perf_counter()
X, y = (zarr.open_array(f"{folder}/{name}.zarr")[:] for name in ("rows", "labels"))
model = CCKNNClassifier(n_neighbors).fit(X, y)
fitted = time.perf_counter()
np.save(f"{folder}/answer.npy", model.predict(Q))
print(fitted - start, time.perf_counter() - fitted)
"""


def run(sizes: tuple[int, ...] = SIZES) -> None:
    """Classify 2,000 queries: n x 64 float32, 200 Gaussians, ten classes, k = 5, chunks of 64 MB.

    In memory: a process with all cores loads, lays out and searches. Dask: workers with one thread
    and 1 GB each; loading is part of the search. One and two workers in turn, medians of 3.
    """
    for n_rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), n_rows)
            arguments = [sys.executable, "-c", IN_MEMORY, folder, str(NEIGHBORS)]
            output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
            loading, searching = map(float, output.split())
            print(
                f"{n_rows:9,} rows  in memory: load and lay out {loading:6.1f} s, search "
                f"{1e6 * searching / QUERIES:7.1f} us a query",
                flush=True,
            )
            _compare_workers(Path(folder), n_rows)


def mixture() -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    """Return what draws rows and labels of 200 Gaussians in 64 dimensions, ten classes."""
    rng = np.random.default_rng(0)
    spectrum = (1 / np.sqrt(np.arange(1, 65))).astype(np.float32)
    centres = 2 * rng.normal(size=(200, 64)).astype(np.float32) * spectrum

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        parts = rng.integers(200, size=n)
        noise = rng.standard_normal((n, 64), dtype=np.float32)
        return centres[parts] + noise * spectrum, parts % 10

    return draw


def _write(folder: Path, n_rows: int) -> None:
    draw = mixture()
    rows = zarr.create_array(
        folder / "rows.zarr", shape=(n_rows, 64), chunks=(min(CHUNK, n_rows), 64), dtype="f4"
    )
    labels = zarr.create_array(
        folder / "labels.zarr", shape=(n_rows,), chunks=(min(CHUNK, n_rows),), dtype="i8"
    )
    np.save(folder / "queries.npy", draw(QUERIES)[0])
    for begin in range(0, n_rows, CHUNK):
        here = slice(begin, min(begin + CHUNK, n_rows))
        rows[here], labels[here] = draw(here.stop - begin)


def _compare_workers(folder: Path, n_rows: int) -> None:
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for n_workers, mine in times.items():
            seconds, peak = _with_workers(folder, n_workers)
            mine.append(seconds)
    one, two = (float(np.median(mine)) for mine in times.values())
    verdict = (
        "" if n_rows < CHUNK * 4 else f", {'at least' if one / two >= ENOUGH else 'below'} {ENOUGH}"
    )
    print(
        f"{n_rows:9,} rows  dask: one worker {one:6.1f} s, two {two:6.1f} s "
        f"({1e6 * two / QUERIES:7.1f} us a query): {one / two:.2f} times as fast{verdict}; "
        f"peak of a worker {peak:.2f} GB; the same answer",
        flush=True,
    )


def _with_workers(folder: Path, n_workers: int) -> tuple[float, float]:
    """Seconds of a search, and the peak memory of a worker in GB."""
    import dask.array as da
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        memory_limit="1GB",
        dashboard_address=":0",
    )
    with cluster, Client(cluster) as client:
        rows, labels = (da.from_zarr(folder / f"{name}.zarr") for name in ("rows", "labels"))
        Q = np.load(folder / "queries.npy")
        for each in client.scheduler_info()["workers"]:  # compiled and imported from here on
            client.submit(_warm, Q, workers=[each], pure=False).result()
        model = CCKNNClassifier(NEIGHBORS).fit(rows, labels)
        start = time.perf_counter()
        answer = model.predict(Q)
        seconds = time.perf_counter() - start
        peaks = client.run(_peak).values()
    np.testing.assert_array_equal(answer, np.load(folder / "answer.npy"))
    return seconds, max(peaks)


def _warm(Q: np.ndarray) -> None:
    CCKNNClassifier(NEIGHBORS).fit(Q, np.arange(len(Q)) % 10).class_neighbors(Q)


def _peak() -> float:
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1e6


if __name__ == "__main__":  # python -m benchmarks.dask_gallery 1000000
    run(tuple(map(int, sys.argv[1:])) or SIZES)
