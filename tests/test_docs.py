"""The pages' examples run, and nothing in them points nowhere."""

import doctest
import re
from pathlib import Path

import pytest
from typer.main import get_command

import ccml
from ccml.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page):
    result = doctest.testfile(str(page), module_relative=False)
    assert result.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_every_command_and_public_name_is_documented():
    text = "".join(page.read_text() for page in PAGES)
    for command in get_command(app).commands:
        assert f"ccml {command}" in text
    for name in ccml.__all__:
        assert name in text
