"""ConvCCML beside ConvNet and pytorch-metric-learning's NCALoss: time per epoch, and memory."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch

from ccml import ConvCCML, ConvNetClassifier, datasets
from ccml.embeddings import Conv

REPEATS = 5
N_EPOCHS = 3  # the first isn't counted
BATCH_SIZE = 1000
N_COMPONENTS = 100

# In a process of its own, so that the peak is its own.
CHILD = r"""
import re, warnings
from pathlib import Path
from ccml import ConvCCML, datasets

warnings.simplefilter("ignore")
X, y = datasets.load("mnist").subset("train", "validation")
ConvCCML(100, batch_size=1000, max_epochs=2, random_state=0).fit(X.reshape(-1, 28, 28), y)
print(int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1e6)
"""


def run() -> None:
    """Seconds per epoch on MNIST's 60,000 images, two layers, batches of 1,000, in turns.

    ConvCCML and ConvNet are fitted as they are, without early stopping. NCALoss has the same trunk,
    the same batches and Adam in a plain loop.
    """
    X, y = datasets.load("mnist").subset("train", "validation")
    images = X.reshape(-1, 28, 28).astype(np.float32) / 255
    contestants = {
        "ConvNet": partial(_seconds_per_epoch, ConvNetClassifier),
        "ConvCCML": partial(_seconds_per_epoch, ConvCCML),
    }
    if find_spec("pytorch_metric_learning"):
        contestants["NCALoss"] = _seconds_of_nca_loss
    else:
        print("skipped NCALoss: pip install pytorch-metric-learning")
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(REPEATS):
        for name, seconds in contestants.items():
            times[name].append(seconds(images, y))
    for name, seconds in times.items():
        ratio = np.median(np.array(times["ConvCCML"]) / np.array(seconds))
        print(f"{name:9} {np.median(seconds):6.2f} s  ConvCCML takes {ratio:.2f} of it (median)")
    result = subprocess.run([sys.executable, "-c", CHILD], check=True, stdout=subprocess.PIPE)
    print(f"ConvCCML on bytes, with early stopping: peak {float(result.stdout):.2f} GB")


def _seconds_per_epoch(kind: Callable, images: np.ndarray, y: np.ndarray) -> float:
    ends = []
    kind(
        N_COMPONENTS,
        batch_size=BATCH_SIZE,
        max_epochs=N_EPOCHS,
        validation_fraction=0,
        random_state=0,
        callbacks=[lambda *_: ends.append(time.perf_counter())],
    ).fit(images, y)
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def _seconds_of_nca_loss(images: np.ndarray, y: np.ndarray) -> float:
    from pytorch_metric_learning.losses import NCALoss

    trunk, loss = Conv(2).build((28, 28), N_COMPONENTS), NCALoss()
    optimizer = torch.optim.Adam(trunk.parameters(), lr=0.003)
    X, labels = torch.from_numpy(images), torch.from_numpy(y)
    ends = []
    for _ in range(N_EPOCHS):
        for batch in torch.randperm(len(X)).split(BATCH_SIZE):
            optimizer.zero_grad()
            loss(trunk(X[batch]), labels[batch]).backward()
            optimizer.step()
        ends.append(time.perf_counter())
    return (ends[-1] - ends[0]) / (len(ends) - 1)
