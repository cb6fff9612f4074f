"""The command: what it prints, what it writes, and how it fails."""

import json
import re

import pytest
from typer.testing import CliRunner

import ccml
from ccml.cli import _console, app
from ccml.experiments import protocol
from ccml.experiments.choose import NEIGHBORS


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, arguments)


def test_version(run):
    result = run("--version")
    assert result.output.strip() == f"ccml {ccml.__version__}"


def test_help_lists_the_commands(run):
    assert "reproduce" in run("--help").output
    assert "--datasets" in run("reproduce", "--help").output


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


def test_table1_prints_ours_beside_the_papers(run, report):
    result = run("reproduce", "table1", "--quick", "--datasets", "wine", "--rows", "Euclidean",
                 "--out", str(report))  # fmt: skip
    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if "Euclidean" in line]
    assert "3.99" in line
    assert "3.29" in line
    assert (report / "index.html").read_text().startswith("<!doctype html>")


def test_cells_are_told_as_they_end_where_there_is_no_terminal(run, tmp_path):
    arguments = ["reproduce", "table1", "--quick", "--datasets", "digits", "--rows", "Euclidean",
                 "--out", str(tmp_path)]  # fmt: skip
    (told,) = run(*arguments).stderr.splitlines()
    assert re.fullmatch(
        r"Euclidean on digits, seed 0: \d\.\d\d / \d\.\d\d % \(1 of 1 cells, about 0 s left\)", told
    )
    assert run(*arguments).stderr == ""  # it was kept


def test_a_terminal_shows_what_is_running_and_the_table_so_far(run, monkeypatch, tmp_path):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(_console.errors, "is_interactive", True)
    result = run("reproduce", "table1", "--quick", "--datasets", "wine", "--rows", "CCML",
                 "--out", str(tmp_path))  # fmt: skip
    assert "0 of 2 cells, about" in result.stderr
    assert "Running: CCML on wine" in result.stderr
    assert "Table I: error in percent" in result.stderr
    assert "seed 0" not in result.stderr


def test_reproduce_as_json(run, report):
    result = run("reproduce", "table1", "--quick", "--datasets", "wine", "--rows", "Euclidean",
                 "--out", str(report), "--json")  # fmt: skip
    records = json.loads(result.stdout)
    assert [record["rule"] for record in records] == ["knn", "ccknn"]
    assert records == json.loads((report / "results.json").read_text())


def test_tuned_settings_are_used(run, tmp_path):
    arguments = ["reproduce", "table1", "--quick", "--datasets", "digits", "--rows", "Euclidean",
                 "--out", str(tmp_path), "--json"]  # fmt: skip
    result = run(*arguments, "--tune", "0")
    assert "Euclidean on digits: validation error" in result.stderr
    assert json.loads(result.stdout)[0]["settings"]["k of KNN"] in NEIGHBORS
    assert (tmp_path / "settings" / "digits.toml").exists()


def test_sandwich_saves_the_picture_and_says_where(run, report):
    tables = {path: path.read_bytes() for path in report.glob("*.*")}
    result = run("reproduce", "sandwich", "--out", str(report))
    assert result.exit_code == 0
    assert b"<svg" in (report / "sandwich.svg").read_bytes()
    assert str(report / "sandwich.html") in result.output
    assert all(path.read_bytes() == content for path, content in tables.items())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "table1", "--datasets", "wien"], "did you mean 'wine'"),
        (["reproduce", "tabel1"], "^Error: 'tabel1' is not an option; did you mean 'table1'"),
        (["reproduce", "table1", "--rows", "CCLM"], "did you mean 'CCML'"),
        (["reproduce", "table1", "--rows", "ccml"], "did you mean 'CCML'"),
        (["reproduce", "table1", "--datasets", "MNIST"], "did you mean 'mnist'"),
        (["reproduce", "--seeds", "two"], "--seeds two must be a number, as 2, or"),
        (["reproduce", "--seeds", "mnist="], "--seeds mnist= must be"),
        (["reproduce", "--seeds", "mnits=2"], "did you mean 'mnist'"),
        (["reproduce", "--seeds", "0"], "at least 1"),
    ],
)
def test_mistakes_get_one_line(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code != 0
    assert re.search(message, result.output)
    assert "Traceback" not in result.output


def test_missing_data_is_said_in_the_report(run, monkeypatch, tmp_path):
    def unreachable(name):
        raise FileNotFoundError(f"{name}.npz is not here; put it there.")

    monkeypatch.setattr(protocol, "load", unreachable)
    arguments = ["reproduce", "table1", "--datasets", "mnist", "--rows", "CCML"]
    result = run(*arguments, "--out", str(tmp_path))
    assert result.exit_code == 0
    assert "mnist.npz is not here; put it there." in (tmp_path / "index.html").read_text()
    assert "mnist.npz is not here; put it there." in result.stderr


@pytest.mark.parametrize("what", ["retrieval", "gallery"])
def test_a_figure_without_its_data_says_so(run, monkeypatch, tmp_path, what):
    def unreachable(name):
        raise FileNotFoundError(f"{name}.npz is not here; put it there.")

    monkeypatch.setattr(protocol, "load", unreachable)
    result = run("reproduce", what, "--datasets", "mnist", "--out", str(tmp_path / "new"))
    assert result.exit_code == 0
    assert "mnist.npz is not here; put it there." in result.stderr
    assert "mnist.npz is not here; put it there." in (tmp_path / "new" / f"{what}.html").read_text()


def test_ctrl_c_stops_the_command_not_just_one_fit(run, monkeypatch, tmp_path):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("ccml.training._loop.pools", interrupt)
    result = run("reproduce", "sandwich", "--out", str(tmp_path))
    assert result.exit_code == 130
    assert result.stderr.startswith("Interrupted")


def test_a_folder_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("reproduce", "sandwich", "--out", str(tmp_path / "file"))
    assert result.exit_code == 1
    assert result.stderr.startswith("Error:")


class TestDatasets:
    def test_a_sheet_of_images(self, run, tmp_path):
        path = tmp_path / "sheet.png"
        result = run("datasets", "show", "digits", "--out", str(path))
        assert result.exit_code == 0
        assert str(path) in result.output
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_named_after_the_data_if_it_has_no_name(self, run, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert run("datasets", "show", "digits", "--columns", "3").exit_code == 0
        assert (tmp_path / "digits.png").is_file()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["wine"], "wine has no images"),
            (["digit"], "did you mean 'digits'"),
            (["digits", "--columns", "1000"], "1000 examples are too many"),
            (["digits", "--out", "/no/such/folder/sheet.png"], "no folder /no/such/folder"),
            (["digits", "--out", "sheet.xyz"], "xyz"),
            (["digits", "--out", "/"], "/ is a folder"),
        ],
    )
    def test_mistakes_get_one_line(self, run, arguments, message, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        result = run("datasets", "show", *arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert message in result.stderr
        assert list(tmp_path.iterdir()) == []
