"""Shared by all tests."""

import pytest


@pytest.fixture(autouse=True)
def _no_surprises_from_the_surroundings(monkeypatch):
    """Progress bars look the same wherever the tests run."""
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
