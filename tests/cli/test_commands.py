"""The commands on one's own data: what they print and write, and how they fail."""

import json
import os
import subprocess
import sys
from io import StringIO

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits, load_iris
from typer.testing import CliRunner

import ccml
from ccml.cli import app
from ccml.persistence import describe
from ccml.reading import read


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def iris(tmp_path):
    data = load_iris(as_frame=True)
    frame = data.data.rename(columns=lambda name: name.split(" (")[0].replace(" ", "_"))
    frame["species"] = data.target_names[data.target]
    frame.to_csv(tmp_path / "iris.csv", index=False)
    return frame


@pytest.fixture
def model(run, iris, tmp_path):
    result = run("fit", "iris.csv", "--target", "species", "-o", "iris.ccml")
    assert result.exit_code == 0, result.output
    return tmp_path / "iris.ccml"


@pytest.fixture
def mixed(tmp_path):
    rng = np.random.default_rng(0)
    kinds = rng.choice(["red", "green", "blue"], 120)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 10, 120) + 20 * (kinds == "red"),
            "city": np.where(kinds == "green", "Paris", "Rome"),
            "joined": pd.date_range("2020-01-01", periods=120).astype(str),
            "empty": np.nan,
            "kind": kinds,
        }
    )
    frame.loc[::7, "age"] = np.nan
    frame.loc[::9, "city"] = None
    frame.loc[3, "kind"] = None
    frame.to_parquet(tmp_path / "mixed.parquet")
    return frame


def table(text):
    return pd.read_csv(StringIO(text))


class TestFit:
    def test_it_says_what_it_read_and_how_good_it_is(self, run, iris, tmp_path):
        result = run("fit", "iris.csv", "--target", "species", "-o", "iris.ccml")
        assert result.exit_code == 0
        assert "150 rows of 4 columns" in result.stderr
        assert "setosa (50), versicolor (50), virginica (50)" in result.stderr
        assert "Error on 30 held-out rows" in result.stderr
        assert "KNN without a metric" in result.stderr
        assert result.stdout == ""
        assert ccml.load(tmp_path / "iris.ccml").predict(iris.iloc[:1, :4]).tolist() == ["setosa"]

    def test_json(self, run, iris):
        result = run("fit", "iris.csv", "--target", "species", "-o", "iris.ccml", "--json")
        found = json.loads(result.stdout)
        assert found["class_counts"] == {"setosa": 50, "versicolor": 50, "virginica": 50}
        assert set(found["errors"]) == {"plain", "knn", "ccknn"}
        assert result.stderr == ""

    def test_text_dates_and_gaps(self, run, mixed, tmp_path):
        result = run("fit", "mixed.parquet", "--target", "kind", "-o", "mixed.ccml")
        assert result.exit_code == 0, result.output
        assert "become numbers: city, joined" in result.stderr
        assert "the median of their column: age" in result.stderr
        assert "1 rows without 'kind' are left out" in result.stderr
        assert "'empty' has no values and is left out" in result.stderr
        again = run("predict", "mixed.ccml", "mixed.parquet", "--explain", "1")
        assert again.exit_code == 0, again.output
        found = table(again.stdout)
        assert len(found) == 120
        right = found[found["label"] == mixed["kind"]]
        assert len(right) > 90
        assert (
            right["label_rows"].map(json.loads).str[0] == right["row"]
        ).mean() > 0.95  # by its number in the file

    @pytest.mark.parametrize("learner", ["NCA", "LMNN", "NCMC", "ITML"])
    def test_other_learners(self, run, iris, learner):
        result = run("fit", "iris.csv", "--target", "species", "-o", "m.ccml", "--learner", learner)
        assert result.exit_code == 0, result.output
        assert learner in describe("m.ccml")["model"]

    def test_options(self, run, iris):
        arguments = ["--neighbors", 3, "--components", 2, "--embedding", "mlp", "--seed", 7]
        result = run("fit", "iris.csv", "--target", "species", "-o", "m.ccml", *arguments)
        assert result.exit_code == 0, result.output
        metric, classifier = ccml.load("m.ccml")[-2:]
        assert (metric.n_components, metric.random_state, classifier.n_neighbors) == (2, 7, 3)
        assert type(metric.embedding).__name__ == "MLP"

    def test_the_same_seed_gives_the_same_model(self, run, iris):
        for name in ("one.ccml", "two.ccml"):
            run("fit", "iris.csv", "--target", "species", "-o", name)
        one, two = (
            ccml.load(name).predict_proba(iris.iloc[:, :4]) for name in ("one.ccml", "two.ccml")
        )
        np.testing.assert_array_equal(one, two)

    def test_a_checkpoint_is_written_and_not_remembered(self, run, iris, tmp_path):
        arguments = ["--checkpoint", tmp_path / "check"]
        result = run("fit", "iris.csv", "--target", "species", "-o", "m.ccml", *arguments)
        assert result.exit_code == 0, result.output
        assert ccml.load("m.ccml")[-2].checkpoint is None
        assert "check" not in describe("m.ccml")["model"]

    def test_vectors(self, run, tmp_path):
        X, y = load_digits(return_X_y=True)
        np.savez(tmp_path / "digits.npz", X=X[:300], y=y[:300])
        assert run("fit", "digits.npz", "-o", "m.ccml").exit_code == 0
        result = run("evaluate", "m.ccml", "digits.npz", "--json")
        assert json.loads(result.stdout)["error"] < 0.05

    def test_few_rows(self, run, tmp_path):
        (tmp_path / "few.csv").write_text("x,y\n1,a\n2,a\n8,b\n9,b\n")
        result = run("fit", "few.csv", "--target", "y", "-o", "m.ccml")
        assert result.exit_code == 0, result.output
        assert "Too few rows" in result.stderr


class TestImages:
    @pytest.fixture
    def folder(self, tmp_path):
        digits = load_digits()
        for i, (image, label) in enumerate(zip(digits.images[:150], digits.target, strict=False)):
            place = tmp_path / "photos" / f"digit {label % 3}"
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray((15 * image).astype(np.uint8)).resize((12, 12)).save(place / f"{i}.png")
        return tmp_path / "photos"

    @pytest.mark.parametrize("embedding", ["auto", "linear"])
    def test_from_a_folder_to_a_search(self, run, folder, embedding):
        result = run("fit", folder, "-o", "m.ccml", "--embedding", embedding)
        assert result.exit_code == 0, result.output
        found = table(run("predict", "m.ccml", folder).stdout)
        assert (found["label"] == found["row"].str.split("/").str[0]).mean() > 0.9
        nearest = table(run("search", "m.ccml", folder, "-k", 2).stdout)
        assert nearest["row"][0] == nearest["query"][0]
        assert nearest["distance"][0] == 0
        other = table(
            run("search", "m.ccml", folder / "digit 1", "--gallery", folder, "-k", 1).stdout
        )
        assert ("digit 1/" + other["query"] == other["row"]).all()

    @pytest.mark.parametrize(("embedding", "white"), [("auto", 255), ("linear", 1)])
    def test_export(self, run, folder, embedding, white):
        """A network's input is from 0 to 1, and a matrix's as the files have it."""
        assert run("fit", folder, "-o", "m.ccml", "--embedding", embedding).exit_code == 0
        result = run("export", "m.ccml", "m.onnx")
        assert result.exit_code == 0, result.output
        images = read(folder).X
        session = onnxruntime.InferenceSession("m.onnx")
        (found,) = session.run(None, {"X": (images / white).astype(np.float32)})
        expected = ccml.load("m.ccml")[:-1].transform(images)
        np.testing.assert_allclose(found, expected, atol=1e-4 * abs(expected).max())

    def test_names_with_spaces_can_be_read(self, run, folder):
        assert run("fit", folder, "-o", "m.ccml", "--embedding", "linear").exit_code == 0
        found = table(run("predict", "m.ccml", folder, "--explain", 2).stdout)
        names = found["label_rows"].map(json.loads)
        assert (names.str[0] == found["row"]).mean() > 0.9
        as_json = json.loads(run("predict", "m.ccml", folder, "--explain", 2, "--json").stdout)
        assert [row["label_rows"] for row in as_json] == names.tolist()
        run("predict", "m.ccml", folder, "--explain", 2, "-o", "x.parquet")
        assert pd.read_parquet("x.parquet")["label_rows"].map(list).tolist() == names.tolist()

    def test_other_sizes(self, run, folder):
        assert run("fit", folder, "-o", "m.ccml").exit_code == 0
        result = run("predict", "m.ccml", folder, "--image-size", "10x10")
        assert result.exit_code == 1
        assert "made from images of shape (12, 12); these are of shape (10, 10)" in result.stderr


class TestUse:
    def test_predict(self, run, model, iris):
        found = table(run("predict", model, "iris.csv", "--proba").stdout)
        assert (found["label"] == iris["species"]).mean() > 0.95
        np.testing.assert_allclose(found.filter(like="p_").sum(axis=1), 1)
        assert list(found)[2:] == ["p_setosa", "p_versicolor", "p_virginica"]

    def test_explain(self, run, model):
        found = table(run("predict", model, "iris.csv", "--explain", "3").stdout)
        for name in ("label_rows", "label_distances", "runner_up_rows", "runner_up_distances"):
            assert found[name].map(json.loads).map(len).eq(3).all()
        assert (found["label"] != found["runner_up"]).all()
        assert (found["margin"] >= 0).all()

    def test_reject(self, run, model, iris, tmp_path):
        strange = iris.iloc[:2, :4].copy()
        strange.iloc[1] = 1000
        strange.to_csv(tmp_path / "strange.csv", index=False)
        found = table(run("predict", model, "strange.csv", "--reject", "1").stdout)
        assert found["label"].tolist() == ["setosa", "unknown"]
        assert found["rejected"].tolist() == [False, True]

    def test_a_class_called_unknown_is_not_rejected(self, run, iris, tmp_path):
        named = iris.assign(species=iris["species"].replace("setosa", "unknown"))
        pd.concat([named, named.iloc[:1].assign(sepal_width=1000)]).to_csv("u.csv", index=False)
        named.to_csv("named.csv", index=False)
        assert run("fit", "named.csv", "--target", "species", "-o", "m.ccml").exit_code == 0
        found = table(run("predict", "m.ccml", "u.csv", "--reject", "1").stdout)
        assert found["rejected"].tolist() == [False] * 150 + [True]
        assert (found["label"][:50] == "unknown").all()

    @pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "json"])
    def test_to_a_file(self, run, model, suffix, tmp_path):
        result = run("predict", model, "iris.csv", "-o", f"labels.{suffix}")
        assert result.exit_code == 0, result.output
        readers = {"csv": pd.read_csv, "parquet": pd.read_parquet, "json": pd.read_json}
        reader = readers.get(suffix, lambda path: pd.read_csv(path, sep="\t"))
        assert len(reader(tmp_path / f"labels.{suffix}")) == 150

    def test_json(self, run, model):
        found = json.loads(run("predict", model, "iris.csv", "--json").stdout)
        assert found[0] == {"row": 0, "label": "setosa"}

    def test_columns_in_another_order_and_more_of_them(self, run, model, iris, tmp_path):
        shuffled = iris[["species", *reversed(iris.columns[:4])]].assign(extra=1)
        shuffled.to_csv(tmp_path / "other.csv", index=False)
        result = run("predict", model, "other.csv")
        assert result.stdout == run("predict", model, "iris.csv").stdout
        assert "what the model doesn't know isn't used: 'extra'" in result.stderr

    def test_a_column_is_missing(self, run, model, iris, tmp_path):
        iris.rename(columns={"sepal_length": "sepal_lenght"}).to_csv(
            tmp_path / "o.csv", index=False
        )
        result = run("predict", model, "o.csv")
        assert result.exit_code == 1
        assert "no column 'sepal_length'" in result.stderr
        assert "did you mean 'sepal_lenght'" in result.stderr

    def test_a_column_of_numbers_that_is_text_now(self, run, mixed, tmp_path):
        run("fit", "mixed.parquet", "--target", "kind", "-o", "mixed.ccml")
        mixed.assign(age=mixed["age"].astype(str) + " years").to_csv(
            tmp_path / "t.csv", index=False
        )
        result = run("predict", "mixed.ccml", "t.csv")
        assert result.exit_code == 1
        assert "'age' has to be of numbers" in result.stderr

    def test_dates_in_another_format(self, run, mixed, tmp_path):
        run("fit", "mixed.parquet", "--target", "kind", "-o", "mixed.ccml")
        joined = pd.to_datetime(mixed["joined"]).dt.strftime("%d.%m.%Y")
        mixed.assign(joined=joined).to_csv(tmp_path / "t.csv", index=False)
        result = run("predict", "mixed.ccml", "t.csv")
        assert result.exit_code == 1
        assert "'joined' has to be of dates like 2020-12-31" in result.stderr
        assert "it has '01.01.2020'" in result.stderr

    def test_a_model_that_fit_did_not_make(self, run, iris, tmp_path):
        plain = ccml.CCKNNClassifier().fit(iris.iloc[:, :4].to_numpy(), iris["species"])
        ccml.save(plain, "plain.ccml", about={"data": "irises"})
        assert "CCKNNClassifier()" in run("info", "plain.ccml").stdout
        for command in ("predict", "evaluate", "add", "search"):
            result = run(command, "plain.ccml", "iris.csv")
            assert result.exit_code == 1
            assert "wasn't made by `ccml fit`" in result.stderr

    def test_numbers_among_text_labels(self, run, iris, tmp_path):
        frame = iris.assign(species=np.where(iris["species"] == "setosa", "1", iris["species"]))
        frame.to_csv(tmp_path / "mixed.csv", index=False)
        run("fit", "mixed.csv", "--target", "species", "-o", "m.ccml")
        frame[frame["species"] == "1"].to_csv(tmp_path / "ones.csv", index=False)
        assert json.loads(run("evaluate", "m.ccml", "ones.csv", "--json").stdout)["error"] == 0
        assert run("add", "m.ccml", "ones.csv").exit_code == 0
        found = run("search", "m.ccml", "ones.csv", "-o", "found.parquet")
        assert found.exit_code == 0, found.output

    def test_rejected_numbers(self, run, iris, tmp_path):
        codes = iris.assign(species=iris["species"].factorize()[0])
        codes.to_csv(tmp_path / "codes.csv", index=False)
        run("fit", "codes.csv", "--target", "species", "-o", "m.ccml")
        result = run("predict", "m.ccml", "codes.csv", "--reject", "0.5", "-o", "x.parquet")
        assert result.exit_code == 0, result.output
        assert set(pd.read_parquet("x.parquet")["label"]) == {"0", "1", "2", "unknown"}

    def test_evaluate(self, run, model):
        result = run("evaluate", model, "iris.csv")
        assert result.exit_code == 0, result.output
        for word in ("error", "precision@10", "ndcg@10", "calibration_error", "virginica"):
            assert word in result.stdout
        found = json.loads(run("evaluate", model, "iris.csv", "--json", "-k", 5).stdout)
        assert np.sum(found["confusion"]) == 150
        assert 1 - np.trace(found["confusion"]) / 150 == pytest.approx(found["error"])
        assert "precision@5" in found

    def test_embed(self, run, model, iris):
        assert run("embed", model, "iris.csv", "-o", "z.npy").exit_code == 0
        assert run("embed", model, "iris.csv", "-o", "z.parquet").exit_code == 0
        Z = ccml.load(model)[:-1].transform(iris.iloc[:, :4])
        np.testing.assert_array_equal(np.load("z.npy"), Z)
        np.testing.assert_array_equal(pd.read_parquet("z.parquet").drop(columns="row"), Z)

    def test_search(self, run, model, iris):
        found = table(run("search", model, "iris.csv", "-k", 3).stdout)
        assert found["rank"].tolist()[:4] == [1, 2, 3, 1]
        assert (found["label"].to_numpy() == iris["species"].to_numpy()[found["row"]]).all()

    def test_info(self, run, model):
        result = run("info", model)
        for words in ("iris.csv, 150 rows (table)", "setosa (50)", "species", "scikit-learn"):
            assert words in result.stdout
        assert json.loads(run("info", model, "--json").stdout)["fit"]["data"]["rows"] == 150

    def test_export(self, run, model, iris):
        result = run("export", model, "iris.onnx")
        assert result.exit_code == 0, result.output
        session = onnxruntime.InferenceSession("iris.onnx")
        X = iris.iloc[:, :4].to_numpy(dtype=np.float32)
        expected = ccml.load(model)[:-1].transform(iris.iloc[:, :4])
        np.testing.assert_allclose(session.run(None, {"X": X})[0], expected, atol=1e-3)

    def test_a_new_class_without_training(self, run, model, iris, tmp_path):
        new = iris.iloc[:10, :4] + 30
        new.assign(species="giant").to_csv(tmp_path / "giants.csv", index=False)
        assert run("add", model, "giants.csv", "-o", "more.ccml").exit_code == 0
        found = table(run("predict", "more.ccml", "giants.csv", "--explain", "1").stdout)
        assert (found["label"] == "giant").all()
        assert found["label_rows"][4] == '["giants.csv:4"]'
        assert describe("more.ccml")["fit"]["class_counts"]["giant"] == 10
        assert "giant" not in describe(model)["fit"]["class_counts"]
        assert run("add", model, "giants.csv").exit_code == 0
        assert describe(model)["fit"]["class_counts"]["giant"] == 10


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["fit", "no.csv", "--target", "y", "-o", "m.ccml"], "no file or folder no.csv"),
            (["fit", "iris.csv", "--target", "specie", "-o", "m.ccml"], "did you mean 'species'?"),
            (["fit", "iris.csv", "-o", "m.ccml"], "Give --target for a table, --labels"),
            (["fit", "iris.csv", "--target", "sepal_width", "-o", "m.ccml"], "are no classes"),
            (["fit", "one.csv", "--target", "y", "-o", "m.ccml"], "have the same label, 'a'"),
            (["fit", "gap.csv", "--target", "y", "-o", "m.ccml"], "There is no column with values"),
            (["fit", "semi.csv", "--target", "y", "-o", "m.ccml"], "Use --delimiter ';'"),
            (["fit", "iris.csv", "--target", "species", "-o", "no/m.ccml"], "no folder no"),
            (["fit", "iris.csv", "--target", "species", "-o", "m.ccml", "--learner", "CMML"],
             "did you mean 'CCML'?"),
            (["fit", "iris.csv", "--target", "species", "-o", "m.ccml", "--embedding", "conv"],
             "needs images; these are table"),
            (["fit", "iris.csv", "--target", "species", "-o", "m.ccml", "--neighbors", "0"],
             "Error: --neighbors 0 must be"),
            (["fit", "empty", "-o", "m.ccml"], "empty has no images"),
            (["fit", "iris.csv", "--image-size", "big", "--target", "species", "-o", "m.ccml"],
             "must be HEIGHTxWIDTH"),
            (["predict", "iris.csv", "iris.csv"], "isn't a model that ccml has saved"),
            (["predict", "iris.ccml", "gap.csv"], "no column 'sepal_length'"),
            (["predict", "iris.ccml", "vectors.npy"], "made from table; these are vectors"),
            (["predict", "iris.ccml", "iris.csv", "--reject", "2"], "--reject 2.0 must be"),
            (["fit", "vectors.npy", "--target", "y", "-o", "m.ccml"], "--target isn't for a file"),
            (["predict", "iris.ccml", "iris.csv", "-o", "x.doc"], "must end with one of"),
            (["embed", "iris.ccml", "iris.csv", "-o", "x.csv"], "must end with .npy or .parquet"),
            (["evaluate", "iris.ccml", "gap.csv", "--target", "y"], "no column 'sepal_length'"),
            (["info", "no.ccml"], "no.ccml: No such file"),
            (["info", "empty"], "empty: Is a directory"),
            (["fit", "iris.csv", "--target", "species", "-o", "m.ccml", "--seed", "-1"],
             "Error: --seed -1 must be a whole number of at least 0"),
            (["fit", "iris.csv", "--target", "species", "-o", "m.ccml", "--device", "abacus"],
             "Error: --device 'abacus' isn't a device"),
            (["fit", "iris.csv", "--target", "species", "-o", "m.ccml", "--delimiter", "::"],
             "Error: --delimiter '::' must be one character"),
            (["fit", "iris.csv", "--target", "species", "-o", "empty"], "empty is a folder"),
            (["fit", "iris.csv", "--target", "species", "-o", "iris.csv"], "is what is read here"),
            (["fit", "iris.csv", "--target", "species", "-o", "/dev/null"], "can be replaced"),
            (["fit", "lists.parquet", "--target", "y", "-o", "m.ccml"], "the column 'x' of list<"),
            (["export", "iris.ccml", "iris.ccml"], "is what is read here"),
            (["predict", "iris.ccml", "iris.csv", "-o", "iris.csv"], "is what is read here"),
            (["predict", "iris.ccml", "iris.csv", "-o", "empty"], "empty is a folder"),
            (["add", "iris.ccml", "vectors.npy"], "There are no labels"),
        ],
    )  # fmt: skip
    def test_one_line_and_nothing_written(self, run, model, arguments, message, tmp_path):
        (tmp_path / "one.csv").write_text("x,y\n1,a\n2,a\n")
        (tmp_path / "gap.csv").write_text("x,y\n,a\n,b\n")
        (tmp_path / "semi.csv").write_text("x;y\n1;a\n2;b\n")
        (tmp_path / "empty").mkdir()
        pd.DataFrame({"x": [[1, 2], [3, 4]], "y": list("ab")}).to_parquet("lists.parquet")
        np.save(tmp_path / "vectors.npy", np.zeros((3, 4)))
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        result = run(*arguments)
        assert result.exit_code == 1, result.output
        assert result.stderr.splitlines()[-1].startswith("Error: ")
        assert message in result.stderr
        assert result.stdout == ""
        assert "Traceback" not in result.output
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before

    def test_what_nobody_has_foreseen_is_one_line_too(self, run, model, monkeypatch):
        def fail(*arguments, **options):
            raise TypeError("two\nlines")

        monkeypatch.setattr("ccml.modelling.predict", fail)
        result = run("predict", model, "iris.csv")
        assert result.exit_code == 1
        assert result.stderr == "Error: TypeError: two lines (`ccml --debug` shows where)\n"

    def test_the_name_of_a_folder_is_no_parameter(self, run, tmp_path):
        (tmp_path / "target=1").mkdir()
        (tmp_path / "target=1" / "data.csv").write_text("x,y\n")
        result = run("fit", "target=1/data.csv", "-o", "m.ccml")
        assert result.stderr == "Error: target=1/data.csv has no rows.\n"

    def test_debug_shows_where(self, run, monkeypatch):
        monkeypatch.setattr("ccml.cli._console._State.debug", False)
        result = run("--debug", "info", "no.ccml")
        assert isinstance(result.exception, FileNotFoundError)

    def test_a_full_disk(self, run, model, monkeypatch):
        kept = model.read_bytes()

        def full(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        for arguments in (
            ["fit", "iris.csv", "--target", "species", "-o", model],
            ["predict", model, "iris.csv", "-o", "labels.csv"],
            ["embed", model, "iris.csv", "-o", "z.npy"],
            ["add", model, "iris.csv"],
            ["export", model, "iris.onnx"],
        ):
            result = run(*arguments)
            assert result.exit_code == 1
            assert "No space left on device" in result.stderr
        assert model.read_bytes() == kept
        assert sorted(path.name for path in model.parent.iterdir()) == ["iris.ccml", "iris.csv"]

    def test_ctrl_c(self, run, iris, monkeypatch, tmp_path):
        def interrupt(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr("ccml.training._loop.pools", interrupt)
        result = run("fit", "iris.csv", "--target", "species", "-o", "m.ccml")
        assert result.exit_code == 130
        assert result.stderr.splitlines()[-1].startswith("Interrupted")
        assert not (tmp_path / "m.ccml").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "iris.csv", "--target", "species", "-o", "m.ccml", "--learner", "ITML"],
        ["predict", "iris.ccml", "iris.csv", "--explain", "2", "--reject", "0.9", "--proba"],
        ["predict", "iris.ccml", "iris.csv", "-o", "x.csv"],
        ["search", "iris.ccml", "iris.csv"],
        ["search", "iris.ccml", "iris.csv", "-o", "x.parquet"],
        ["embed", "iris.ccml", "iris.csv", "-o", "x.npy"],
        ["evaluate", "iris.ccml", "iris.csv"],
        ["info", "iris.ccml"],
        ["add", "iris.ccml", "iris.csv"],
        ["export", "iris.ccml", "x.onnx"],
        ["datasets", "list"],
        ["datasets", "where"],
        ["datasets", "fetch", "wine"],
        ["datasets", "show", "digits"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_json_is_one_line(run, model, arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("\n")
    json.loads(*result.stdout.splitlines())


def test_a_tab_as_one_types_it(run, iris, tmp_path):
    iris.to_csv(tmp_path / "tabs.csv", index=False, sep="\t")
    fit = ["fit", "tabs.csv", "--target", "species", "--learner", "ITML", "-o", "m.ccml"]
    assert r"Use --delimiter '\t'" in run(*fit).stderr
    assert run(*fit, "--delimiter", r"\t").exit_code == 0


def test_threads(tmp_path, iris):
    code = (
        "import os, sys; from ccml.cli import app; import ccml.cli._fit as f\n"
        "sys.argv = ['ccml', 'fit', 'iris.csv', '--target', 'species', '-o', 'm.ccml',"
        " '--threads', '1']\n"
        "try: app()\nexcept SystemExit: pass\n"
        "import torch; print(torch.get_num_threads(), os.environ['NUMBA_NUM_THREADS'])"
    )
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert result.stdout.splitlines()[-1] == "1 1", result.stderr


def test_help_imports_nothing_heavy():
    heavy = "{'numpy', 'torch', 'pandas'}"
    code = f"import sys; import ccml.cli; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]"


class TestDatasets:
    def test_list_where_fetch(self, run, monkeypatch, tmp_path):
        monkeypatch.setenv("CCML_DATA", str(tmp_path))
        found = json.loads(run("datasets", "list", "--json").stdout)
        assert found["wine"] is True
        assert {"isolet", "mnist", "norb"} <= set(found)
        assert "wine           here" in run("datasets", "list").stdout
        assert run("datasets", "where").stdout.splitlines()[0] == str(tmp_path)
        assert "178 rows of 13 features" in run("datasets", "fetch", "wine").stdout
        assert json.loads(run("datasets", "fetch", "wine", "--json").stdout)["rows"] == 178
