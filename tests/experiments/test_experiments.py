"""The experiments' own arithmetic, on as little data as will do."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from ccml import datasets
from ccml.cli import app
from ccml.experiments import sandwich, table1
from ccml.preprocessing import LocalContrastNormalization


def test_euclidean_on_wine_is_what_scikit_learn_gives(monkeypatch):
    monkeypatch.setattr(table1, "SEEDS", {"wine": [3]})
    (cell,) = table1.run(["wine"], ["Euclidean"])
    wine = datasets.load("wine")
    errors = []
    for train, test in StratifiedKFold(10, shuffle=True, random_state=3).split(wine.X, wine.y):
        settings = table1.SETTINGS["wine"]["Euclidean"]
        knn = KNeighborsClassifier(settings.knn)
        model = make_pipeline(StandardScaler(), PCA(settings.pca), knn)
        model.fit(wine.X[train], wine.y[train])
        errors.append(100 * (1 - model.score(wine.X[test], wine.y[test])))
    assert cell.mean[0] == pytest.approx(np.mean(errors))


def test_every_cell_has_settings_and_seeds():
    for name, metrics in table1.PAPER.items():
        is_image = name in {"mnist", "norb"}
        expected = set(table1.METRICS) - (set() if is_image else set(table1.NETWORKS))
        assert set(table1.SETTINGS[name]) == set(metrics) == expected
        assert len(table1.SEEDS[name]) > 0


class TestNorb:
    """From the loader through contrast and PCA to the table, on very few toys."""

    @pytest.fixture
    def toys(self, monkeypatch):
        toys = datasets.make_toy_norb(n_instances=2, n_elevations=2, n_azimuths=4, n_lightings=1)

        def load(name):
            if name == "norb":
                raise FileNotFoundError("NORB isn't here")
            assert name == "norb-stand-in"
            return toys

        monkeypatch.setattr(datasets, "load", load)
        monkeypatch.setattr(table1, "SEEDS", {"norb": [0]})
        return toys

    def test_euclidean_is_what_scikit_learn_gives(self, toys):
        (cell,) = table1.run(["norb"], ["Euclidean"])
        assert cell.stand_in
        knn = KNeighborsClassifier(table1.SETTINGS["norb"]["Euclidean"].knn)
        lcn = LocalContrastNormalization(image_shape=(2, 32, 32))
        model = make_pipeline(lcn, PCA(0.99, svd_solver="full"), knn)
        model.fit(*toys.subset("train", "validation"))
        assert cell.mean[0] == pytest.approx(100 * (1 - model.score(*toys.subset("test"))))

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("metric", ["CCML", "ConvNet1", "ConvCCML2"])
    def test_learners(self, toys, metric, monkeypatch):
        settings = table1.SETTINGS["norb"][metric]
        few = replace(settings, learner=settings.learner | {"max_epochs": 2})
        monkeypatch.setitem(table1.SETTINGS["norb"], metric, few)
        (cell,) = table1.run(["norb"], [metric])
        assert ((cell.errors >= 0) & (cell.errors <= 100)).all()

    def test_the_printed_table_says_so(self, toys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        arguments = ["reproduce", "table1", "--datasets", "norb", "--metrics", "Euclidean"]
        assert "norb (stand-in)" in CliRunner().invoke(app, arguments).output

    def test_some_of_its_files_are_no_reason_for_a_stand_in(self, monkeypatch):
        def incomplete(name):
            raise OSError("one is missing")

        monkeypatch.setattr(datasets, "load", incomplete)
        with pytest.raises(OSError, match="one is missing"):
            table1.load("norb")


def test_unknown_data_set_is_named_before_anything_runs():
    with pytest.raises(ValueError, match="did you mean 'isolet'"):
        next(table1.run(["wine", "isolett"]))
    with pytest.raises(ValueError, match="did you mean 'LMNN'"):
        next(table1.run(["wine"], ["CCML", "LMMN"]))
    with pytest.raises(ValueError, match="ConvCCML2 is for images; wine has none"):
        next(table1.run(["mnist", "wine"], ["CCML", "ConvCCML2"]))


def test_sandwich_embeddings_repair_the_neighbours(tmp_path):
    errors = sandwich.figure(tmp_path / "new" / "sandwich.png")
    assert errors.pop("input space") > 0.9
    assert max(errors.values()) == 0
    assert list(errors) == [*(f"CCML, k = {k}" for k in (1, 2, 4, 6, 8)), "NCA"]
    assert (tmp_path / "new" / "sandwich.png").stat().st_size > 20_000
