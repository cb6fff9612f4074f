"""A cell's arithmetic, against scikit-learn and against the library's own measures."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ccml import CCML, datasets, evaluation
from ccml.experiments import protocol
from ccml.experiments.cells import SHOWN, Cell, Outcome, compute, errors_by_k
from ccml.experiments.protocol import Fold, Settings
from ccml.preprocessing import LocalContrastNormalization


def cell_of(dataset, row, seed=0, **changes):
    return Cell(dataset, row, seed, replace(protocol.settings_of(dataset, row), **changes))


def test_wine_is_tested_by_ten_folds():
    cell = cell_of("wine", "Euclidean", seed=3)
    wine, wrong = datasets.load("wine"), np.zeros(178, dtype=bool)
    for train, test in StratifiedKFold(10, shuffle=True, random_state=3).split(wine.X, wine.y):
        model = make_pipeline(StandardScaler(), PCA(0.99), KNeighborsClassifier(cell.settings.knn))
        model.fit(wine.X[train], wine.y[train])
        wrong[test] = model.predict(wine.X[test]) != wine.y[test]
    outcome = compute(cell)
    np.testing.assert_array_equal(outcome.wrong[0], wrong)
    assert outcome.errors[0] == pytest.approx(100 * wrong.mean())
    assert len(outcome.ndcg) == 0  # ten galleries have no curve


@pytest.fixture(scope="module")
def on_digits():
    cell = cell_of("digits", "Euclidean")
    data = datasets.load("digits")
    pca = PCA(0.99, svd_solver="full")
    train, test = data.subset("train", "validation"), data.subset("test")
    rows = pca.fit_transform(train[0]), train[1], pca.transform(test[0]), test[1]
    return cell, compute(cell), data, rows


def test_errors_are_those_of_evaluation(on_digits):
    cell, outcome, _, rows = on_digits
    knn = evaluation.knn_error(*rows, n_neighbors=cell.settings.knn)
    ccknn = evaluation.ccknn_error(*rows, n_neighbors=cell.settings.ccknn)
    assert outcome.errors == pytest.approx([100 * knn, 100 * ccknn])


@pytest.mark.parametrize("k", [1, 2, 10, 100])
def test_curves_are_those_of_evaluation(on_digits, k):
    _, outcome, _, rows = on_digits
    assert outcome.ndcg[k - 1] == pytest.approx(evaluation.ndcg(*rows, k=k))
    assert outcome.precision[k - 1] == pytest.approx(evaluation.precision(*rows, k=k))


def test_curves_where_a_class_has_fewer_than_k_rows():
    rng = np.random.default_rng(0)
    data = datasets.load("digits")
    fold = Fold(rng.choice(data.train, 150, replace=False), data.test[:50])
    from ccml.experiments.cells import _fitted

    space = _fitted(cell_of("digits", "Euclidean", pca=0.999), data, fold)
    embedded = space.index.rows, data.y[fold.train], space.queries, data.y[fold.test]
    ndcg, _ = space.curves()
    assert ndcg[99] == pytest.approx(evaluation.ndcg(*embedded, k=100))


def test_nearest_are_rows_of_the_data_set(on_digits):
    _, outcome, data, rows = on_digits
    assert outcome.nearest.shape == (len(data.test), SHOWN)
    known = set(data.train) | set(data.validation)
    assert set(outcome.nearest.ravel().tolist()) <= known
    distances = ((rows[0] - rows[2][0]) ** 2).sum(axis=1)
    train = np.concatenate([data.train, data.validation])
    np.testing.assert_array_equal(outcome.nearest[0], train[np.argsort(distances)[:SHOWN]])


def test_each_rule_may_have_its_own_number_of_components():
    both = compute(cell_of("digits", "Euclidean-best-PCA", pca=20, pca_ccknn=5))
    other = compute(cell_of("digits", "Euclidean-best-PCA", pca=5))
    assert both.about["n_components"] == [20, 5]
    assert both.errors[1] == other.errors[1]
    assert both.errors[0] != other.errors[0]


def test_an_outcome_survives_its_file(on_digits, tmp_path):
    _, outcome, _, _ = on_digits
    outcome.save(tmp_path / "new" / "outcome.npz")
    again = Outcome.load(tmp_path / "new" / "outcome.npz")
    for name in ("wrong", "ndcg", "precision", "nearest"):
        np.testing.assert_array_equal(getattr(again, name), getattr(outcome, name))
    assert again.about == outcome.about
    assert set(again.about) >= {"seconds", "commit", "machine"}


class TestKey:
    def key(self, dataset="wine", row="CCML", seed=0, **changes):
        return cell_of(dataset, row, seed, **changes).key(protocol.load(dataset))

    def test_is_the_same_for_the_same(self):
        assert self.key() == self.key()

    def test_is_another_for_whatever_changes_the_outcome(self):
        keys = [
            self.key(),
            self.key(seed=1),
            self.key(row="NCA"),
            self.key(row="CCML-accuracy"),
            self.key(row="CCML-per-class"),
            self.key(knn=7),
            self.key(pca=0.5),
            self.key(learner={"n_components": 3}),
            self.key(dataset="digits"),
        ]
        assert len(set(keys)) == len(keys)

    def test_two_names_for_the_same_thing_are_one(self):
        assert self.key(row="CCML-log") == self.key(row="CCML")


def test_every_row_has_settings_that_its_learner_takes():
    for name in protocol.NAMES:
        data = datasets.load("digits")  # whose images stand for all
        for row in protocol.rows_of(name):
            protocol.pipeline(name, data, row, protocol.settings_of(name, row), seed=0)
    assert set(protocol.rows_of("mnist")) == set(protocol.ROWS) - {"CCML-heard"}
    assert set(protocol.rows_of("norb")) == set(protocol.ROWS) - {"CCML-heard", "CCML-shifts"}
    assert not set(protocol.rows_of("wine")) & set(protocol.NETWORKS)


def test_validation_errors_for_every_k():
    data = datasets.load("digits")
    cell = Cell("digits", "Euclidean", 0, Settings())
    knn, ccknn = errors_by_k(cell, data, Fold(data.train, data.validation), (1, 3))
    assert knn[0] == ccknn[0]  # with k = 1 the rules are the same
    assert len(knn) == len(ccknn) == 2


class TestNorb:
    """From the loader through contrast and PCA to the errors, on very few toys."""

    @pytest.fixture
    def toys(self, monkeypatch):
        toys = datasets.make_toy_norb(n_instances=2, n_elevations=2, n_azimuths=4, n_lightings=1)

        def load(name):
            if name == "norb":
                raise FileNotFoundError("NORB isn't here")
            assert name == "norb-stand-in"
            return toys

        monkeypatch.setattr(datasets, "load", load)
        protocol.load.cache_clear()
        yield toys
        protocol.load.cache_clear()

    def test_euclidean_is_what_scikit_learn_gives(self, toys):
        cell = cell_of("norb", "Euclidean")
        outcome = compute(cell)
        assert outcome.about["stand_in"]
        assert cell.key(toys)
        knn = KNeighborsClassifier(cell.settings.knn)
        lcn = LocalContrastNormalization(image_shape=(2, 32, 32))
        model = make_pipeline(lcn, PCA(0.99, svd_solver="full"), knn)
        model.fit(*toys.subset("train", "validation"))
        assert outcome.errors[0] == pytest.approx(100 * (1 - model.score(*toys.subset("test"))))

    @pytest.mark.parametrize("row", ["CCML", "ConvNet-1", "ConvCCML-2"])
    def test_learners(self, toys, row):
        epochs = []
        learner = protocol.settings_of("norb", row).learner | {"max_epochs": 2}
        outcome = compute(cell_of("norb", row, learner=learner), epochs.append)
        assert epochs == [1, 2]
        assert outcome.wrong.shape == (2, len(toys.test))
        assert "hadn't converged" in " ".join(outcome.about["notes"])

    def test_some_of_its_files_are_no_reason_for_a_stand_in(self, monkeypatch):
        def incomplete(name):
            raise OSError("one is missing")

        protocol.load.cache_clear()
        monkeypatch.setattr(datasets, "load", incomplete)
        with pytest.raises(OSError, match="one is missing"):
            protocol.load("norb")


def test_shifted_copies_are_learned_from_and_compared_with(monkeypatch):
    data = datasets.load("digits")
    train = np.concatenate([data.train, data.validation])
    learned_from = []
    fit = CCML.fit

    def noted(self, X, y):
        learned_from.append(len(X))
        return fit(self, X, y)

    monkeypatch.setattr(CCML, "fit", noted)
    settings = Settings(learner={"max_epochs": 2, "validation_fraction": 0})
    outcome = compute(Cell("digits", "CCML-shifts", 0, settings))
    assert learned_from == [5 * len(train)]
    assert np.isin(outcome.nearest, train).all()  # a copy goes by the number of its row
    assert (data.y[outcome.nearest] == data.y[data.test][:, None]).mean() > 0.95
