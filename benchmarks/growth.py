"""How the search grows with the gallery, and what its first call costs."""

import os
import subprocess
import sys
import tempfile

SIZES = (10_000, 60_000, 250_000, 1_000_000)

# Processes of their own, so that peaks and first calls are their own.
GROWTH = r"""
import re, sys, time
from pathlib import Path
import numpy as np
from ccml.neighbors import ClassIndex

def memory(what):  # MB
    return int(re.search(what + r":\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1e3

rng = np.random.default_rng(0)
spectrum = (1 / np.sqrt(np.arange(1, 65))).astype(np.float32)
centres = 2 * rng.normal(size=(200, 64)).astype(np.float32) * spectrum

def draw(n):
    parts = rng.integers(200, size=n)
    return centres[parts] + rng.standard_normal((n, 64), dtype=np.float32) * spectrum, parts % 10

Q, _ = draw(2000)
ClassIndex(*draw(100)).predict(Q, 5)
X, y = draw(int(sys.argv[1]))
before = memory("VmRSS")
start = time.perf_counter()
index = ClassIndex(X, y)
built = time.perf_counter() - start
times = []
for _ in range(5):
    start = time.perf_counter()
    index.predict(Q, 5)
    times.append(time.perf_counter() - start)
extra, gallery = memory("VmHWM") - before, X.nbytes / 1e6
each = 1e6 * np.median(times) / len(Q)
print(f"{len(X):9,} rows  {each:6.1f} us a query  built in {built:.2f} s  "
      f"peak {extra:.0f} MB beside the given {gallery:.0f} MB")
"""

FIRST_CALL = r"""
import time
start = time.perf_counter()
import ccml
imported = time.perf_counter() - start
import numpy as np
from ccml.neighbors import ClassIndex
X, y = np.random.default_rng(0).normal(size=(5000, 30)), np.arange(5000) % 10
for name in ("predict", "nearest", "search"):
    times = []
    for _ in range(2):
        start = time.perf_counter()
        getattr(ClassIndex(X, y), name)(X[:500], 5)
        times.append(time.perf_counter() - start)
    print(f"  {name:8} {times[0]:5.2f} s, later {times[1]:5.2f} s")
print(f"  import ccml {imported:.2f} s")
"""


def run() -> None:
    """Time and memory of predict: 64-d mixture of 200 Gaussians, decaying spectrum, 10 classes.

    2,000 queries, medians of 5. Then the first calls in a new process, numba's cache cold and warm.
    """
    for n_rows in SIZES:
        subprocess.run([sys.executable, "-c", GROWTH, str(n_rows)], check=True)
    with tempfile.TemporaryDirectory() as cache:
        for title in ("cold", "warm"):
            print(f"cache {title}", flush=True)
            subprocess.run(
                [sys.executable, "-c", FIRST_CALL],
                check=True,
                env={**os.environ, "NUMBA_CACHE_DIR": cache},
            )
