"""The experiments' own arithmetic, on as little data as will do."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ccml import datasets
from ccml.experiments import sandwich, table1


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
