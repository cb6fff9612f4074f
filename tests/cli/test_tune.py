"""``ccml fit --tune``: what it says, keeps and writes."""

import json

import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from ccml import tuning
from ccml.cli import app


@pytest.fixture
def fit(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    load_iris(as_frame=True).frame.to_csv("iris.csv", index=False)
    fixed = ["fit", "iris.csv", "--target", "target", "--learner", "ITML", "-o", "iris.ccml"]
    return lambda *more: CliRunner().invoke(app, [*fixed, *more])


def test_tune_says_what_it_found_and_info_tells(fit, tmp_path):
    result = fit("--tune", "0.03", "--neighbors", "3")
    assert result.exit_code == 0, result.output
    assert "trials, validation error" in result.stderr
    assert (tmp_path / "iris.ccml.study.db").exists()
    again = json.loads(fit("--tune", "0", "--neighbors", "3", "--json").stdout)["tuning"]
    assert again["trials"] >= 1
    assert f"Tuned: {again['trials']} trials" in result.stderr
    assert again["error"] <= again["given_error"]
    assert "n_neighbors" not in again["parameters"]
    about = json.loads(CliRunner().invoke(app, ["info", "iris.ccml", "--json"]).stdout)
    assert about["fit"]["tuning"] == again
    told = CliRunner().invoke(app, ["info", "iris.ccml"]).stdout
    assert f"tuned  {again['trials']} trials" in told
    for name, value in again["parameters"].items():
        assert f"{name} {value:.3g}" in told
        assert f"{name}={value}" in about["model"]


def test_another_search_in_the_file_is_one_line(fit):
    fit("--tune", "0")
    result = fit("--tune", "0", "--components", "2")
    assert result.exit_code == 1
    assert "other n_components. Delete it, or choose another -o" in result.stderr


def test_ctrl_c_says_that_the_trials_are_kept(fit, monkeypatch, tmp_path):
    def pressed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning.modelling, "errors_of", pressed)
    result = fit("--tune", "1")
    assert result.exit_code == 130
    assert "kept in iris.ccml.study.db, and the same command goes on" in result.stderr
    assert not (tmp_path / "iris.ccml").exists()
