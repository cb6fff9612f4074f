"""The commands on a large table: time, start-up included, and memory."""

import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

N_ROWS, N_COLUMNS, N_CLASSES = 100_000, 50, 5

# In a process of its own; the peak is printed at its end. Not getrusage: what that gives includes
# the parent at the time of the fork.
_COMMAND = r"""
import re, sys
from pathlib import Path
from ccml.cli import app
try:
    app(sys.argv[1:])
finally:
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]
    print(f"peak {int(peak) / 1e6:.2f} GB", file=sys.stderr)
"""


def run() -> None:
    """From a CSV of 100,000 rows x 50 columns to a saved model, and labels for as many rows.

    Classes are normal clusters that overlap, two for each class, in ten of the columns; the others
    are noise. Labels are for the same rows: what takes the time is the same.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        _table().to_csv(folder / "data.csv", index=False)
        _timed("fit", "data.csv", "--target", "label", "-o", "model.ccml", folder=folder)
        _timed("predict", "model.ccml", "data.csv", "-o", "labels.csv", folder=folder)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "ccml.cli", "--help"], check=True, capture_output=True)
    print(f"ccml --help: {time.perf_counter() - start:.2f} s")


def _table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    clusters = rng.integers(2 * N_CLASSES, size=N_ROWS)
    X = rng.normal(size=(N_ROWS, N_COLUMNS))
    X[:, :10] += rng.normal(scale=1.5, size=(2 * N_CLASSES, 10))[clusters]
    frame = pd.DataFrame(X.round(4), columns=[f"x{i}" for i in range(N_COLUMNS)])
    return frame.assign(label=np.array(list("abcde"))[clusters % N_CLASSES])


def _timed(*arguments: str, folder: Path) -> None:
    start = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", _COMMAND, *arguments],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    print(f"ccml {arguments[0]}: {seconds:.1f} s, {result.stderr.splitlines()[-1]}", flush=True)
    for line in result.stdout.splitlines():
        print(f"    {line}")
