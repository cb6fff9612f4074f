"""Runs in several processes: nothing that is finished is lost, or computed again."""

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from ccml.experiments import protocol, runs
from ccml.experiments.cells import Cell, Outcome, compute
from ccml.experiments.progress import Progress
from ccml.experiments.runs import Event, NotKeptError, _compute, _kept, run


def cell_of(dataset, row, seed=0):
    return Cell(dataset, row, seed, protocol.settings_of(dataset, row))


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")
    cells = [cell_of("wine", row) for row in ("Euclidean", "CCML", "CCML-log")]
    events = []
    return cells, folder, run(cells, folder, jobs=2, on_event=events.append), events


def test_processes_give_what_one_gives(first_run):
    cells, _, results, _ = first_run
    assert list(results) == cells
    np.testing.assert_array_equal(results[cells[0]].wrong, compute(cells[0]).wrong)
    np.testing.assert_array_equal(results[cells[1]].wrong, compute(cells[1]).wrong)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_cell_has_one_thread_whatever_the_number_of_jobs(jobs, tmp_path, monkeypatch):
    name, seen = "OMP_NUM_THREADS", []

    class Pool(ProcessPoolExecutor):
        def submit(self, *arguments):
            seen.append(os.environ[name])  # what a process begins with
            return super().submit(*arguments)

    monkeypatch.setattr(runs, "ProcessPoolExecutor", Pool)
    monkeypatch.setenv(name, "5")
    run([cell_of("wine", "Euclidean")], tmp_path, jobs=jobs)
    assert seen == ["1"]
    assert os.environ[name] == "5"


def test_the_same_cell_under_two_names_is_computed_once(first_run):
    cells, folder, results, events = first_run
    assert len(list(folder.iterdir())) == 2
    assert results[cells[1]] is results[cells[2]]
    assert len([event for event in events if event == Event(event.cell)]) == 2  # beginnings


def test_epochs_are_told(first_run):
    cells, _, _, events = first_run
    assert any(event.epoch for event in events if event.cell == cells[1])


def test_what_is_kept_is_not_computed_again(first_run):
    cells, folder, results, _ = first_run
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    events = []
    again = run(cells, folder, on_event=events.append)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert len(events) == len(cells)
    np.testing.assert_array_equal(again[cells[1]].wrong, results[cells[1]].wrong)


def test_a_damaged_file_is_computed_again(tmp_path):
    cell = cell_of("wine", "Euclidean")
    path = tmp_path / f"{cell.key(protocol.load('wine'))}.npz"
    path.write_bytes(b"PK and no more")
    assert isinstance(run([cell], tmp_path)[cell], Outcome)
    whole = path.read_bytes()
    assert len(whole) > 100
    rng = np.random.default_rng(0)
    for place in rng.integers(len(whole), size=300):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << rng.integers(8)
        path.write_bytes(flipped)
        _kept(path)  # whatever it is, it isn't an error
        path.write_bytes(whole[:place])
        assert _kept(path) is None


def test_missing_data_leaves_its_cells_empty_and_says_why(tmp_path, monkeypatch):
    def load(name):
        if name == "isolet":
            looked_for.append(name)
            raise FileNotFoundError("isolet.npz isn't here; run ccml datasets fetch isolet.")
        return real(name)

    real, looked_for = protocol.load, []
    monkeypatch.setattr(protocol, "load", load)
    missing = [cell_of("isolet", "CCML"), cell_of("isolet", "NCA")]
    there = cell_of("wine", "Euclidean")
    results = run([*missing, there], tmp_path)
    for cell in missing:
        assert results[cell] == "isolet.npz isn't here; run ccml datasets fetch isolet."
    assert len(looked_for) == 1  # a download that fails takes its time
    assert isinstance(results[there], Outcome)


def test_a_cell_that_fails_says_why_and_the_others_go_on(tmp_path):
    impossible = Cell("wine", "CCML", 0, protocol.Settings(learner={"n_components": -1}))
    cells = [impossible, cell_of("wine", "Euclidean")]
    results = run(cells, tmp_path)
    assert "n_components=-1" in results[impossible]
    assert isinstance(results[cells[1]], Outcome)


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path, monkeypatch):
    done, not_kept = cell_of("wine", "Euclidean"), cell_of("wine", "Euclidean", seed=1)
    run([done], tmp_path)

    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("ccml.experiments.cells.whole_file", full)
    monkeypatch.setattr("ccml.experiments.runs._Process.told", SimpleNamespace(put=lambda _: None))
    with pytest.raises(NotKeptError, match=r"can't be kept in .*: No space left on device.* make"):
        _compute(not_kept, tmp_path / "cell.npz")
    assert [path.stem for path in tmp_path.iterdir()] == [done.key(protocol.load("wine"))]


def test_where_nothing_can_be_written_the_run_stops(tmp_path):
    (tmp_path / "cells").symlink_to("/dev/full")
    with pytest.raises(NotKeptError, match=r"can't be kept in .*cells: .* make room"):
        run([cell_of("wine", "Euclidean"), cell_of("wine", "CCML")], tmp_path / "cells")


SCRIPT = """
import sys
from pathlib import Path
from ccml.experiments import protocol, table1
from ccml.experiments.runs import run
if __name__ == "__main__":
    cells = table1.cells(["wine"], ["Euclidean", "KNCA"], {"wine": range(6)})
    run(cells, Path(sys.argv[1]), jobs=2)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_cut_short_keeps_what_is_finished(tmp_path, how):
    script, folder = tmp_path / "script.py", tmp_path / "cells"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), str(folder)], stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not list(folder.glob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(how)  # to the parent alone: its processes end with it
    process.wait(60)
    process.stderr.close()
    kept = list(folder.glob("*.npz"))
    assert kept
    assert all(isinstance(Outcome.load(path), Outcome) for path in kept)
    deadline = time.monotonic() + 30
    while _group(process.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not _group(process.pid)


def _group(session):
    """Processes of a session that are still there."""
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def test_progress_estimates_the_time_left(monkeypatch):
    monkeypatch.setattr(protocol, "expected_seconds", lambda dataset, row: 10.0)
    now = [0.0]
    cells = [cell_of("wine", "CCML", seed) for seed in range(4)]
    progress = Progress(cells, jobs=2, now=lambda: now[0])
    assert progress.seconds_left() == 20
    progress.note(Event(cells[0]))
    now[0] = 5.0
    progress.note(Event(cells[0], epoch=3))
    assert progress.epochs == {cells[0]: 3}
    assert progress.seconds_left() == 17.5
    now[0] = 20.0  # twice as long as expected: so will the others be
    progress.note(Event(cells[0], reason="failed"))
    assert progress.seconds_left() == 30
    assert progress.ended == {cells[0]: "failed"}
