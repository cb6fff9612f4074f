"""Checkpoints: whole or refused, and a killed run ends as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from ccml.training import Checkpoint, CheckpointError

STATE = {"weights": {"a": torch.arange(6.0)}, "epoch": 3, "losses": [0.5, 0.25], "rng": "{}"}


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path / "run.ckpt", 0, {"learner": "CCML", "n_neighbors": "5"})


def test_round_trip(checkpoint):
    assert checkpoint.load() is None
    checkpoint.save(STATE)
    loaded = checkpoint.load()
    assert torch.equal(loaded["weights"]["a"], STATE["weights"]["a"])
    assert {name: loaded[name] for name in ("epoch", "losses", "rng")} == {
        name: STATE[name] for name in ("epoch", "losses", "rng")
    }


def test_the_one_before_is_kept(checkpoint):
    checkpoint.save(STATE)
    checkpoint.save(STATE | {"epoch": 4})
    assert checkpoint.load()["epoch"] == 4
    names = sorted(path.name for path in checkpoint.path.parent.iterdir())
    assert names == ["run.ckpt", "run.ckpt.previous"]
    checkpoint.path.unlink()
    assert checkpoint.load() is None  # deleted to start anew


def test_truncation_and_flipped_bits_are_refused(checkpoint):
    checkpoint.save(STATE)
    whole = checkpoint.path.read_bytes()
    rng = np.random.default_rng(0)
    for length in [*range(0, 60), *rng.integers(60, len(whole), 60)]:
        checkpoint.path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"damaged|not a checkpoint"):
            checkpoint.load()
    for place in [*range(0, 60), *rng.integers(60, len(whole), 200)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        checkpoint.path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"damaged|not a checkpoint"):
            checkpoint.load()
    checkpoint.path.write_bytes(whole + b"\0")
    with pytest.raises(CheckpointError, match=r"is damaged. Delete it to start anew"):
        checkpoint.load()
    checkpoint.path.write_bytes(whole)
    assert checkpoint.load()["epoch"] == 3


def test_a_damaged_one_names_the_one_before_and_leaves_it(checkpoint):
    checkpoint.save(STATE)
    checkpoint.save(STATE | {"epoch": 4})
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"or put the one before it, .*run.ckpt.previous"):
        checkpoint.load()
    os.replace(f"{checkpoint.path}.previous", checkpoint.path)
    assert checkpoint.load()["epoch"] == 3


def test_a_foreign_one_says_what_differs(checkpoint):
    checkpoint.save(STATE)
    other = Checkpoint(checkpoint.path, 0, {"learner": "NCA", "n_neighbors": "5"})
    with pytest.raises(CheckpointError, match=r"of another run: learner was CCML and is NCA"):
        other.load()
    checkpoint.path.write_text("an entirely different file\n")
    with pytest.raises(CheckpointError, match=r"not a checkpoint"):
        checkpoint.load()


def test_what_cannot_be_written_says_so(checkpoint):
    nowhere = Checkpoint(checkpoint.path / "below a file", 0, {})
    checkpoint.save(STATE)
    with pytest.raises(CheckpointError, match=r"can't be written"):
        nowhere.save(STATE)


def test_no_code_runs_from_a_file(checkpoint, tmp_path):
    """Even with a right checksum."""

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "owned"),)

    checkpoint.save({"weights": Evil()})
    with pytest.raises(CheckpointError, match=r"damaged"):
        checkpoint.load()
    assert not (tmp_path / "owned").exists()


RUN = r"""
import sys, warnings
import numpy as np
from torch import nn
from ccml import CCML
from ccml.embeddings import Conv

warnings.simplefilter("ignore")
kind, checkpoint, target = sys.argv[1:]
rng = np.random.default_rng(0)
y = rng.integers(3, size=600)
X = rng.normal(size=(600, 8, 8)).astype(np.float32)
X[:, :4] += y[:, None, None]
rows = X.reshape(600, -1)
settings = {"max_epochs": 25, "batch_size": 50, "random_state": 0}
if kind == "linear":
    model, data = CCML(8, dropout=0.2, **settings), rows
elif kind == "conv":
    model, data = CCML(8, embedding=Conv(1, max_shift=1), **settings), X
else:
    net = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Dropout(), nn.Linear(32, 8))
    model, data = CCML(embedding=net, validation_fraction=0, **settings), rows
    nn.init.constant_(net[0].bias, 0.1)
    for part in (net[0], net[3]):
        nn.init.normal_(part.weight, generator=__import__("torch").Generator().manual_seed(0))
        nn.init.zeros_(part.bias)
if checkpoint != "-":
    model.set_params(checkpoint=checkpoint, checkpoint_seconds=0)
model.fit(data, y)
weights = {"components": model.components_} if kind == "linear" else model.weights_
np.savez(target, loss=model.history_["loss"], **weights)
"""


@pytest.mark.parametrize("kind", ["linear", "conv", "module"])
def test_a_run_killed_at_any_moment_ends_bitwise_equal(kind, tmp_path):
    def start(checkpoint, target):
        command = [sys.executable, "-c", RUN, kind, str(checkpoint), str(tmp_path / target)]
        return subprocess.Popen(command)

    assert start("-", "whole.npz").wait() == 0
    path = tmp_path / "run.ckpt"
    moments = random.Random(0)
    n_kills = 0
    for _ in range(4):
        process = start(path, "resumed.npz")
        before = path.stat().st_mtime_ns if path.exists() else None
        while process.poll() is None and not (path.exists() and path.stat().st_mtime_ns != before):
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.05))  # in a step, in a save, or between them
        n_kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert n_kills >= 3
    assert start(path, "resumed.npz").wait() == 0
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "resumed.npz") as resumed:
        assert set(whole) == set(resumed)
        for name in whole:
            assert whole[name].tobytes() == resumed[name].tobytes(), name
