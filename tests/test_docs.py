"""The pages' examples and commands run, and nothing in them points nowhere."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_iris
from typer.main import get_command
from typer.testing import CliRunner

import ccml
from ccml.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDE = [
    ROOT / "README.md",
    ROOT / "docs" / "index.md",
    *sorted((ROOT / "docs/guide").glob("*.md")),
]
NOT_RUN = {
    "make": "makes an environment, and runs these tests; .ci/run does both",
    "pip": "would change the environment that the tests run in; .ci/run installs by make",
    "torchrun": "starts processes; tests/training/test_ranks.py does",
}


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and content of what is fenced."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[tuple[str, str]]:
    """Each command of a page's terminal sessions, and what the page shows as its output."""
    sessions = "".join(content for language, content in blocks(page) if language == "console")
    return [
        (command, shown)
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", sessions, re.MULTILINE)
        if not command.startswith(tuple(NOT_RUN))
    ]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the pages' commands run: measured irises, some more, and new ones without a name."""
    monkeypatch.chdir(tmp_path)
    iris = load_iris(as_frame=True)
    table = iris.data.set_axis(
        ["sepal_length", "sepal_width", "petal_length", "petal_width"], axis=1
    )
    named = table.assign(species=iris.target_names[iris.target])
    named.to_csv("iris.csv", index=False)
    named.iloc[::10].to_csv("more.csv", index=False)
    new = [[5.0, 3.3, 1.5, 0.2], [6.1, 2.8, 4.9, 1.7], [6.6, 3.1, 5.5, 2.1]]
    type(table)(new, columns=table.columns).to_csv("new.csv", index=False)


@pytest.mark.parametrize("page", PAGES, ids=name)
@pytest.mark.usefixtures("folder")
def test_examples_run(page):
    result = doctest.testfile(str(page), module_relative=False)
    assert result.failed == 0


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
@pytest.mark.usefixtures("folder")
def test_commands_run(page):
    """In their order. What is shown of their output is there, but for its figures."""
    for command, shown in commands(page):
        program, *arguments = shlex.split(command)
        if program == "python":
            subprocess.run([sys.executable, *arguments], check=True)
            continue
        assert program == "ccml"
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, f"{command}: {result.output}"
        printed = _without_figures(result.output)
        for line in _without_figures(shown):
            assert line in printed, f"{command}: {line}"


def _without_figures(text: str) -> list[str]:
    figures = r"\d+(\.\d+)?(e-?\d+)?"
    return [" ".join(re.sub(figures, "0", line).split()) for line in text.splitlines()]


def test_there_are_commands_to_run():
    assert len(commands(ROOT / "docs" / "command-line.md")) > 8
    assert len(commands(ROOT / "README.md")) > 1


@pytest.mark.parametrize("page", GUIDE, ids=name)
def test_every_block_is_an_example_or_a_session(page):
    """So that nothing in README and guide is left out of the two tests above."""
    for language, content in blocks(page):
        assert language in {"pycon", "console"}
        assert content.startswith({"pycon": ">>> ", "console": "$ "}[language])


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text()):
        if target.startswith("https://"):
            continue
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in _anchors(there), f"{target}#{anchor}"


def _anchors(page: Path) -> list[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_every_command_and_public_name_is_documented():
    text = "".join(page.read_text() for page in PAGES)
    for command in get_command(app).commands:
        assert f"ccml {command}" in text
    for name in ccml.__all__:
        assert name in text


def test_the_reference_has_every_learner():
    """Its page names them, to have them in the guide's order; other pages take all there is."""
    page = (ROOT / "docs" / "api" / "learners.md").read_text()
    assert sorted(re.findall(r"\w+", page.split("members:")[1])) == sorted(ccml.learners.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_is_left_to_be_filled_in(page):
    assert not re.search(r"@\w+@|TODO|XXX", page.read_text())
