"""Processes that train together learn what one would, and none is left waiting."""

import importlib.util
import os
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

SCRIPT = Path(__file__).parent / "rank_jobs.py"
JOBS = [
    "fifty_steps_linear",
    "fifty_steps_conv",
    "batches_weights_and_validation",
    "few_rows_in_one",
    "same_rows_in_both",
    "starts",
    "other_learners",
    "gradients",
    "running_statistics",
    "resumed",
    "long_run",
    "refusals",
]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What two processes of torchrun have found, each in a dict by job."""
    folder = tmp_path_factory.mktemp("ranks")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run([*torchrun, SCRIPT, folder, *JOBS], check=True, env=ENVIRONMENT)
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(2)]


@pytest.fixture(scope="module")
def alone():
    """The jobs, for a process that has all rows."""
    spec = importlib.util.spec_from_file_location("rank_jobs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_equal(found, expected, tolerance):
    for name in expected:
        for a, b in zip(found[name], expected[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=name)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize(
    "job",
    [
        "fifty_steps_linear",
        "fifty_steps_conv",
        "batches_weights_and_validation",
        "few_rows_in_one",
    ],
)
def test_in_float64_the_losses_and_weights_are_those_of_one_process(results, alone, job):
    assert_equal(results[0][job], getattr(alone, job)(), 1e-9)


def test_rows_that_all_pass_count_once(results, alone):
    """So a script that knows nothing of torchrun learns the same under it."""
    assert_equal(results[0]["same_rows_in_both"], alone.same_rows_in_both(), 1e-4)


def test_the_start_is_that_of_one_process(results, alone):
    for found, expected in zip(results[0]["starts"], alone.starts(), strict=True):
        assert_equal({"weights": found["weights"]}, {"weights": expected["weights"]}, 1e-6)


def test_the_other_learners_of_the_loop_train_together_too(results, alone):
    for found, expected in zip(results[0]["other_learners"], alone.other_learners(), strict=True):
        assert_equal(found, expected, 1e-3)


def test_every_process_ends_with_the_same_model(results):
    first, second = results
    for job in JOBS[:4]:
        assert_equal(first[job], second[job], 0)
    assert_equal(first["running_statistics"], second["running_statistics"], 0)


def test_only_the_first_reports(results):
    assert any("hadn't converged" in message for message in results[0]["warnings"])
    assert results[1]["warnings"] == []


def test_gradients_reach_the_points_of_every_process(results):
    z = torch.linspace(-1, 2, 10, dtype=torch.float64).reshape(5, 2).requires_grad_()
    (z @ z.T).sin().pow(2).sum().div(2).backward()
    for found in (result["gradients"] for result in results):
        torch.testing.assert_close(found["points"], z.detach(), rtol=0, atol=0)
        torch.testing.assert_close(found["gradient"], z.grad[found["own"]], rtol=1e-12, atol=1e-12)


def test_a_resumed_run_ends_with_the_same_bits(results):
    for again, straight in (result["resumed"] for result in results):
        assert_equal(again, straight, 0)


@pytest.mark.parametrize(
    ("case", "first", "second"),
    [
        ("nan", "RuntimeError: Process 1 .* stopped. ValueError: Input X contains NaN", "Input X"),
        ("columns", r"process 0 that are \(13,\) .* another \(12,\)", "Pass rows of one kind"),
        ("labels", "Use one type of label", "Use one type of label"),
        ("weight", "no sample_weight, and in another .* with sample_weight", "sample_weight"),
        ("classes", "needs at least 2 classes", "needs at least 2 classes"),
        ("callback", "^OSError: no space", "Process 0 of this training stopped. OSError: no space"),
        ("checkpoint", "not a checkpoint", "Process 0 .* not a checkpoint"),
        ("NCMC", "NCMC learns in one process, and this is one of 2", "without torchrun"),
        ("ITML", "ITML learns in one process", "without torchrun"),
        ("partial_fit", "CCML.partial_fit learns in one process", "without torchrun"),
    ],
)
def test_what_stops_one_stops_all_and_they_say_why(results, case, first, second):
    for result, pattern in zip(results, (first, second), strict=True):
        assert re.search(pattern, result["refusals"][case]), result["refusals"][case]


def start(folder, rank, **environment):
    """Start a process of two without torchrun, which would end the other by itself."""
    settings = {"RANK": str(rank), "WORLD_SIZE": "2", "STORE": str(folder / "store")}
    return subprocess.Popen(
        [sys.executable, SCRIPT, folder, "long_run"],
        env=ENVIRONMENT | settings | environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_process_that_dies_stops_the_others_and_the_run_goes_on_from_its_checkpoint(
    results, tmp_path
):
    survivor, victim = start(tmp_path, 0), start(tmp_path, 1, DIES="1 14")
    victim.communicate(timeout=120)
    assert victim.returncode == -9
    began = time.monotonic()
    message = survivor.communicate(timeout=60)[1]
    assert time.monotonic() - began < 60
    assert survivor.returncode == 1
    assert re.search(r"RuntimeError: Another process of this training has gone away \(\w", message)
    assert "with checkpoint=... a run goes on from where it was saved last" in message
    (tmp_path / "store").unlink()
    for process in [start(tmp_path, rank) for rank in range(2)]:
        assert process.communicate(timeout=120)[1] == ""
    for rank in range(2):
        again = pickle.loads((tmp_path / f"{rank}.pickle").read_bytes())
        assert_equal(again["long_run"], results[rank]["long_run"], 0)
