"""Two processes beside one: the same losses, and how much sooner."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# Run as it is by one process, and by torchrun.
SCRIPT = r"""
import json, os, sys, time, warnings
import numpy as np, torch
from sklearn.datasets import load_digits
from torch import nn
from ccml import CCML
from ccml.embeddings import Conv

warnings.simplefilter("ignore")
torch.manual_seed(0)

class InDouble(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net.double()

    def forward(self, x):
        return self.net(x.double())

def losses(embedding):
    X, y = load_digits(return_X_y=True)
    n = len(X)  # an epoch is a step: the batch has all rows
    model = CCML(embedding=embedding, batch_size=n, max_epochs=50, n_epochs_no_change=50,
                 validation_fraction=0, random_state=0)
    return list(model.fit(X.reshape(n, 8, 8), y).history_["loss"])

def seconds(embedding, X, y, batch_size):
    ends = []
    CCML(32, embedding=embedding, batch_size=batch_size, max_epochs=5, validation_fraction=0,
         random_state=0, callbacks=[lambda *_: ends.append(time.perf_counter())]).fit(X, y)
    return float(np.median(np.diff(ends))) if ends else 0.0

rng = np.random.default_rng(0)
y = rng.integers(10, size=10_000)
X = rng.normal(size=(10_000, 784)).astype(np.float32)
X[:, :10] += 3 * np.eye(10, dtype=np.float32)[y]
images = X[:4000].reshape(-1, 28, 28)
found = {
    "losses": {
        "linear": losses(InDouble(nn.Sequential(nn.Flatten(), nn.Linear(64, 8, bias=False)))),
        "conv": losses(InDouble(Conv(1).build((8, 8), 8))),
    },
    "seconds": {
        "linear, 10,000 x 784": seconds("linear", X, y, 500),
        "conv, 4,000 x 28 x 28": seconds(Conv(2), images, y[:4000], 1000),
    },
}
if os.environ.get("RANK", "0") == "0":
    json.dump(found, open(sys.argv[1], "w"))
"""


def run() -> None:
    """Train with two processes of torchrun and with one on all rows, one thread each.

    The largest difference of a loss over 50 steps in float64, and seconds an epoch.
    """
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    with tempfile.TemporaryDirectory() as folder:
        one, two = (_found(Path(folder), launcher) for launcher in ([], torchrun))
    for name, losses in one["losses"].items():
        difference = np.abs(np.subtract(losses, two["losses"][name])).max()
        print(f"{name:6} {len(losses)} steps: losses differ by at most {difference:.0e}")
    for name, seconds in one["seconds"].items():
        ratio = seconds / two["seconds"][name]
        print(
            f"{name:21} {seconds:.2f} s an epoch, two {two['seconds'][name]:.2f} s: {ratio:.2f} x"
        )


def _found(folder: Path, launcher: list[str]) -> dict[str, dict]:
    script, result = folder / "train.py", folder / "found.json"
    script.write_text(SCRIPT)
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, *launcher, script, result], check=True, env=os.environ | threads
    )
    return json.loads(result.read_text())
