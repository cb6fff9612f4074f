"""A part of `make fuzz`, and that it finds what it is there to find."""

import subprocess
import sys
from pathlib import Path


def fuzz(*options):
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *options],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_result_or_a_clear_error():
    run = fuzz("--cases", "100")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "300 cases, 0 findings" in run.stdout


def test_nothing_gets_through():
    run = fuzz("--only", "trap", "--cases", "11", "--limit", "2")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "11 cases, 11 findings" in run.stdout
    for kind in ("KeyError", "MemoryError", "SystemExit", "crash", "hang"):
        assert f"     1 trap, trap: {kind}" in run.stdout
    assert "     3 trap, trap: Tripped" in run.stdout  # a command, code, and a file elsewhere
