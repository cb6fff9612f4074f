"""The pages' examples run, and nothing in them points nowhere."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import ccml
from ccml.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page):
    result = doctest.testfile(str(page), module_relative=False)
    assert result.failed == 0


def test_commands_run(tmp_path, monkeypatch):
    """Those of the page about the command line, in their order, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "command-line.md").read_text()
    commands = re.findall(r"^\$ (.*)$", text, flags=re.MULTILINE)
    assert len(commands) > 8
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "python":
            subprocess.run([sys.executable, *arguments], check=True)
        else:
            assert program == "ccml"
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, f"{command}: {result.output}"


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
