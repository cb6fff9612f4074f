"""How memory and the time of an epoch grow with the rows."""

import subprocess
import sys

SIZES = (10_000, 100_000, 1_000_000)

# A process of its own, so that its peak is its own.
CHILD = r"""
import re, sys, time, warnings
from pathlib import Path
import numpy as np
from ccml import CCML

warnings.simplefilter("ignore")
n = int(sys.argv[1])
rng = np.random.default_rng(0)
y = rng.integers(10, size=n)
X = rng.normal(size=(n, 50)).astype(np.float32)
X[:, :10] += 3 * np.eye(10, dtype=np.float32)[y]
times = []
model = CCML(max_epochs=3, random_state=0, callbacks=[lambda *_: times.append(time.perf_counter())])
model.fit(X, y)
# Not getrusage: what that gives includes the parent at the time of the fork.
peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1e6
print(f"{n:9,} rows  {np.mean(np.diff(times)):6.2f} s an epoch  peak {peak:.2f} GB")
"""


def run() -> None:
    """Fit CCML on n x 50 float32 rows: seconds an epoch, and peak resident memory (Linux)."""
    for n_rows in SIZES:
        subprocess.run([sys.executable, "-c", CHILD, str(n_rows)], check=True)
