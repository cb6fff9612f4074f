"""``ccml gallery``: what the commands print and write, and how they fail."""

import json
from io import StringIO

import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import ccml
from ccml.cli import app


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments, fails=False):
        result = CliRunner().invoke(app, ["gallery", *map(str, arguments)])
        assert result.exit_code == fails, result.output
        return result.stderr if fails else result.stdout

    return invoke


@pytest.fixture(autouse=True)
def iris(tmp_path):
    """A table with its ids, and a model as `ccml fit` writes it."""
    data = load_iris(as_frame=True)
    numbers = data.data.set_axis(["a", "b", "c", "d"], axis=1)
    model = make_pipeline(PCA(2), ccml.CCKNNClassifier(3)).fit(numbers.to_numpy(), data.target)
    columns = dict.fromkeys("abcd", "number")
    about = {"data": {"kind": "table", "shape": [4]}, "columns": columns, "target": "species"}
    about["data"]["rows"] = 150
    ccml.save(model, tmp_path / "iris.ccml", about={"fit": about})
    frame = numbers.assign(species=data.target_names[data.target], name=data.target.index + 1000)
    frame.to_csv(tmp_path / "iris.csv", index=False)
    numbers[::30].to_csv(tmp_path / "new.csv", index=False)
    return frame


def test_from_a_file_to_answers(run, iris):
    assert json.loads(run("add", "iris.ccml", "iris.csv", "--json")) == {"added": 150, "items": 150}
    run("add", "iris.ccml", "iris.csv")
    info = json.loads(run("info", "iris.ccml", "--json"))
    assert (info["items"], info["classes"]) == (150, ["setosa", "versicolor", "virginica"])
    assert "setosa, versicolor" in run("info", "iris.ccml")
    labels = json.loads(run("classify", "iris.ccml", "new.csv", "--json"))
    assert [row["label"] for row in labels] == iris["species"][::30].tolist()
    likely = pd.read_csv(StringIO(run("classify", "iris.ccml", "new.csv", "-k", 1, "--proba")))
    assert likely[["p_setosa", "p_versicolor", "p_virginica"]].sum(axis=1).round(6).eq(1).all()
    found = pd.read_csv(StringIO(run("search", "iris.ccml", "new.csv", "-k", 2)))
    assert found["id"][::2].tolist() == [f"iris.csv:{row}" for row in range(0, 150, 30)]
    assert found["distance"][::2].lt(1e-6).all()


def test_ids_payload_and_where(run):
    run("add", "iris.ccml", "iris.csv", "--ids", "name", "--payload", "name, a")
    where = ["--where", "label=setosa", "--where", "name=1003", "--where", "name=1004"]
    found = json.loads(run("search", "iris.ccml", "new.csv", *where, "--json"))
    assert {row["id"] for row in found} == {1003, 1004}
    assert {json.loads(row["payload"])["name"] for row in found} == {1003, 1004}
    assert (
        "Removed 2 items"
        in CliRunner()
        .invoke(app, ["gallery", "remove", "iris.ccml", "1003", "1004", "none"])
        .stderr
    )
    for option in ("--ids", "--payload"):
        assert "no column 'nam'" in run("add", "iris.ccml", "iris.csv", option, "nam", fails=True)
    assert "FIELD=VALUE" in run("search", "iris.ccml", "new.csv", "--where", "label", fails=True)


def test_export_and_import(run):
    run("add", "iris.ccml", "iris.csv")
    assert json.loads(run("export", "iris.ccml", "items.parquet", "--json"))["items"] == 150
    done = run("import", "iris.ccml", "items.parquet", "--uri", "copy.db", "--json")
    assert json.loads(done) == {"added": 150, "items": 150}
    assert "must end with .parquet" in run("export", "iris.ccml", "items.csv", fails=True)


@pytest.mark.parametrize(
    "command", [("search", "new.csv"), ("classify", "new.csv"), ("info",), ("remove", "x")]
)
def test_a_gallery_that_is_not_there_is_not_made(run, command, tmp_path):
    name, *rest = command
    assert "There is no gallery gallery.db" in run(name, "iris.ccml", *rest, fails=True)
    assert not (tmp_path / "gallery.db").exists()


def test_no_labels(run):
    assert "species" in run("add", "iris.ccml", "new.csv", fails=True)
