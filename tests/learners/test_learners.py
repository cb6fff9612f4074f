"""What each of the other learners learns, and what it promises of its own parameters.

What all learners promise is in tests/test_estimators.py, what training promises in test_ccml.py.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from ccml import ITML, KNCA, LMNN, NCA, NCMC, DrLIM, NearestMeanClassifier, objectives
from ccml.evaluation import knn_error
from ccml.learners._bregman import Constraints, project
from ccml.learners._itml import _draw

LEARNERS = {
    "NCA": NCA(random_state=0),
    "NCA, expected accuracy": NCA(loss="expected-accuracy", random_state=0),
    "NCA, full batch": NCA(batch_size=400, learning_rate=0.1, random_state=0),
    "KNCA": KNCA(n_neighbors=3, random_state=0),
    "KNCA, all": KNCA(n_neighbors=3, selection="all", random_state=0),
    "LMNN": LMNN(n_neighbors=3, random_state=0),
    "NCMC": NCMC(random_state=0),
    "NCMC, 3 centroids": NCMC(n_centroids=3, random_state=0),
    "DrLIM": DrLIM(random_state=0),
    "ITML": ITML(random_state=0),
}
every_learner = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS)


@every_learner
def test_it_finds_what_tells_the_classes_apart(striped, learner):
    X, y = striped
    Z = learner.fit(X[:300], y[:300]).transform(X)
    assert knn_error(X[:300], y[:300], X[300:], y[300:]) > 0.1
    assert knn_error(Z[:300], y[:300], Z[300:], y[300:]) < 0.05
    weights = np.linalg.norm(learner.components_, axis=0)
    assert weights[:2].min() > weights[2:].max()


@every_learner
def test_unscaled_columns_do_not_defeat_it(learner):
    X, y = load_wine(return_X_y=True)
    Z = learner.fit(X[::2], y[::2]).transform(X)
    assert knn_error(X[::2], y[::2], X[1::2], y[1::2]) > 0.2
    assert knn_error(Z[::2], y[::2], Z[1::2], y[1::2]) < 0.07


@every_learner
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_same_seed_same_bits(striped, learner):
    learner = clone(learner).set_params(max_epochs=3)
    first, second = (learner.fit(*striped).components_.tobytes() for _ in range(2))
    assert first == second


@every_learner
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_of_weight_zero_are_left_out(striped, learner):
    X, y = striped
    learner = clone(learner).set_params(max_epochs=3)
    if "validation_fraction" in learner.get_params():
        learner.set_params(validation_fraction=0)
    weight = (np.arange(len(y)) % 4 > 0).astype(float)
    with_weights = learner.fit(X, y, weight).components_
    without = learner.fit(X[weight > 0], y[weight > 0]).components_
    np.testing.assert_array_equal(with_weights, without)
    uneven = learner.fit(X, y, np.where(y == 0, 10.0, 1.0)).components_
    assert not np.allclose(uneven, learner.fit(X, y).components_)


@every_learner
def test_no_warning_callbacks_and_history(striped, learner, capsys):
    epochs = []
    learner = clone(learner)
    learner.set_params(callbacks=[lambda epoch, loss, error: epochs.append(loss)], verbose=True)
    learner.fit(*striped)
    assert epochs == learner.history_["loss"].tolist()
    assert len(epochs) == learner.n_iter_
    assert type(learner).__name__ in capsys.readouterr().out


def test_nca_reaches_the_accuracy_and_objective_of_scikit_learn():
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = X[:1000] / 16, X[1000:] / 16, y[:1000], y[1000:]

    def expected_accuracy(metric):
        Z = metric.transform(X)
        weights = np.exp(-((Z[:, None] - Z) ** 2).sum(axis=2))
        np.fill_diagonal(weights, 0)
        same = y[:, None] == y
        return np.mean((weights * same).sum(axis=1) / weights.sum(axis=1))

    ours = NCA(32, loss="expected-accuracy", validation_fraction=0, random_state=0).fit(X, y)
    theirs = NeighborhoodComponentsAnalysis(32, random_state=0).fit(X, y)
    assert expected_accuracy(ours) > expected_accuracy(theirs) - 0.005
    our_error, their_error = (
        knn_error(metric.transform(X), y, metric.transform(X_test), y_test)
        for metric in (ours, theirs)
    )
    assert our_error <= their_error + 0.005


def test_lmnn_without_impostors_and_with_classes_no_larger_than_k():
    X, y = make_blobs([3, 3, 2], 4, cluster_std=0.01, random_state=0)
    Z = LMNN(n_neighbors=3, random_state=0).fit(X, y).transform(X)
    assert np.isfinite(Z).all()
    assert knn_error(Z, y, n_neighbors=1) == 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_dropout_hides_the_columns_of_the_centroids_too(striped, monkeypatch):
    seen = []

    def watch(embeddings, labels, centroids, *rest, **options):
        seen.append((embeddings.detach(), centroids.detach()))
        return nearest_mean(embeddings, labels, centroids, *rest, **options)

    nearest_mean = objectives.nearest_mean
    monkeypatch.setattr(objectives, "nearest_mean", watch)
    X, y = striped
    start = np.eye(8)
    NCMC(init=start, dropout=0.5, max_epochs=1, learning_rate=1e-9, random_state=0).fit(X, y)
    for embeddings, centroids in seen:  # with the identity, a hidden column is near zero
        hidden = embeddings.abs().amax(0) < 1e-4
        assert ((centroids.abs().amax(0) < 1e-4) == hidden).all()
    assert any((embeddings.abs().amax(0) < 1e-4).any() for embeddings, _ in seen)


def test_ncmc_is_what_the_nearest_mean_classifier_needs():
    X, y = load_iris(return_X_y=True)
    metric = NCMC(2, random_state=0).fit(X[::2], y[::2])
    plain = NearestMeanClassifier().fit(X[::2], y[::2]).score(X[1::2], y[1::2])
    Z = metric.transform(X)
    learned = NearestMeanClassifier().fit(Z[::2], y[::2]).score(Z[1::2], y[1::2])
    assert learned > plain + 0.02


class TestITML:
    def test_constraints_hold_where_they_can(self):
        """Without slack to speak of, and pairs that a metric exists for."""
        rng = np.random.default_rng(0)
        differences = rng.normal(size=(30, 12))
        similar = np.arange(30) < 15
        differences[~similar, :6] *= 0.1  # near along the first axes, far along the others
        differences[similar, 6:] *= 0.1
        bounds = np.where(similar, 1.0, 4.0)
        M = np.eye(12)
        rounds = project(M, Constraints(differences, similar, bounds), gamma=1e6)
        for _ in range(2000):
            missed, _change = next(rounds)
        distances = np.einsum("nd,de,ne->n", differences, M, differences)
        assert missed < 1e-3
        assert (distances[similar] < 1.001).all()
        assert (distances[~similar] > 3.99).all()
        assert np.linalg.eigvalsh(M).min() > 0

    def test_a_projection_meets_its_constraint(self):
        """One pair, no slack: afterwards its distance is the bound, in the rank-one closed form."""
        v = np.array([[3.0, 4.0]])
        M = np.eye(2)
        next(project(M, Constraints(v, np.array([True]), np.array([5.0])), gamma=1e12))
        u = v[0] / 5
        np.testing.assert_allclose(M, np.eye(2) - (1 - 5 / 25) * np.outer(u, u), rtol=1e-9)

    @pytest.mark.parametrize("gamma", [0.01, 1.0, 100.0])
    @pytest.mark.parametrize("prior", ["identity", "covariance"])
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_the_matrix_is_always_positive_semidefinite(self, striped, gamma, prior):
        model = ITML(gamma=gamma, prior=prior, random_state=0).fit(*striped)
        M = model.get_mahalanobis_matrix()
        np.testing.assert_allclose(M, M.T)
        assert np.linalg.eigvalsh(M).min() > 0

    @pytest.mark.parametrize("gamma", [0.1, 1e3, 1e9])
    def test_every_round_leaves_the_matrix_positive_definite(self, gamma):
        """Even of constraints that contradict each other: nearly equal rows that should be far."""
        rng = np.random.default_rng(0)
        differences = rng.normal(size=(60, 6))
        similar = np.arange(60) % 2 == 0
        differences[~similar] *= 1e-3
        bounds = np.where(similar, 0.1, 10.0)
        M = np.eye(6)
        rounds = project(M, Constraints(differences, similar, bounds), gamma)
        for _ in range(50):
            next(rounds)
            np.testing.assert_array_equal(M, M.T)
            assert np.linalg.eigvalsh(M).min() > 0

    def test_rows_that_nearly_all_coincide(self):
        X = np.zeros((100, 3))
        X[0] = 1
        Z = ITML(random_state=0).fit(X, np.arange(100) % 2).transform(X)
        assert np.isfinite(Z).all()

    def test_columns_without_variance_count_little_under_the_covariance_prior(self, striped):
        X, y = striped
        X = np.column_stack([X, np.ones(len(X))])
        weights = np.abs(ITML(prior="covariance", random_state=0).fit(X, y).components_).max(axis=0)
        assert weights[-1] <= weights[:-1].max()

    @pytest.mark.parametrize("heavy", [False, True])
    def test_half_of_the_pairs_are_similar(self, heavy):
        """Also of classes of two rows and of one, and where a row has most of the weight."""
        classes = np.repeat(np.arange(20), [2] * 10 + [1] * 10)
        weight = np.where(np.arange(30) == 0, 1000.0, 1.0) if heavy else None
        pairs, similar = _draw(classes, 1000, weight, np.random.default_rng(0))
        assert (pairs[:, 0] != pairs[:, 1]).all()
        np.testing.assert_array_equal(classes[pairs[:, 0]] == classes[pairs[:, 1]], similar)
        assert similar.sum() == 500
        assert len(pairs) == 1000
        if heavy:  # nearly all draws of a first row are that one
            assert np.mean(pairs[:, 0] == 0) > 0.9

    def test_a_weak_gamma_keeps_the_prior(self, striped):
        prior = np.diag(np.arange(1.0, 9.0))
        model = ITML(gamma=1e-9, prior=prior, random_state=0).fit(*striped)
        np.testing.assert_allclose(model.get_mahalanobis_matrix(), prior, rtol=1e-3, atol=1e-3)
        whitened = ITML(gamma=1e-9, prior="covariance", random_state=0).fit_transform(*striped)
        np.testing.assert_allclose(np.cov(whitened, rowvar=False), np.eye(8), atol=0.05)

    def test_fewer_components_are_the_leading_ones(self, striped):
        X, y = striped
        X = np.column_stack([X, np.zeros(len(X))])
        full, few = (ITML(n, random_state=0).fit(X, y) for n in (None, 2))
        np.testing.assert_allclose(few.components_, full.components_[:2])
        deviations = full.transform(X).std(axis=0)
        assert (np.diff(deviations) <= 1e-12).all()
        assert knn_error(few.transform(X), y) < 0.05

    def test_pairs_instead_of_labels(self, striped):
        X, y = striped
        pairs = np.random.default_rng(0).integers(300, size=(4000, 2))
        similar = y[pairs[:, 0]] == y[pairs[:, 1]]
        Z = ITML(random_state=0).fit_pairs(X, pairs, similar).transform(X)
        assert knn_error(Z[:300], y[:300], Z[300:], y[300:]) < 0.05

    @pytest.mark.parametrize(
        ("pairs", "similar", "message"),
        [
            ([(0, 400)], [True], r"from 0 to 399, .*got shape \(1, 2\)"),
            ([(0, -1)], [True], "from 0 to 399"),
            ([(0.0, 1.0)], [True], "pairs of indices"),
            ([0, 1], [True], r"got shape \(2,\)"),
            (np.empty((0, 2), int), [], "pairs of indices"),
            ([(0, 1)], [True, False], "each of the 1 pairs"),
            ([(0, 1)], [1], "True or False"),
        ],
    )
    def test_bad_pairs(self, striped, pairs, similar, message):
        with pytest.raises(ValueError, match=message):
            ITML().fit_pairs(striped[0], pairs, similar)

    def test_the_compiled_rounds_are_the_plain_ones(self, striped, monkeypatch):
        results = []
        for switch in ("1", "0"):
            monkeypatch.setenv("CCML_NUMBA", switch)
            results.append(ITML(n_constraints=200, random_state=0).fit(*striped).components_)
        np.testing.assert_allclose(*results, rtol=1e-9, atol=1e-12)

    def test_says_when_it_has_not_converged(self, striped):
        with pytest.warns(ConvergenceWarning, match="hadn't converged after max_epochs=1; raise"):
            ITML(max_epochs=1).fit(*striped)

    def test_ctrl_c_keeps_the_metric_so_far(self, striped):
        def stop(epoch, loss, error):
            if epoch == 2:
                raise KeyboardInterrupt

        with pytest.warns(ConvergenceWarning, match="was interrupted after 2 epochs"):
            model = ITML(callbacks=[stop], tol=1e-9).fit(*striped)
        assert np.isfinite(model.components_).all()

    def test_bounds_are_in_the_units_of_the_rows(self, striped):
        X, y = striped
        near, far = ITML(prior="identity", random_state=0).fit(X, y).bounds_
        distances = ((X[:, None] - X) ** 2).sum(axis=2)
        below = [np.mean(distances < bound) for bound in (near, far)]
        np.testing.assert_allclose(below, [0.05, 0.95], atol=0.02)


BAD_PARAMETERS = [
    (NCA(loss="log"), r"NCA\(loss='log'\) is not an option"),
    (NCA(n_components=9), r"NCA\(n_components=9\) can't exceed the number of features, 8"),
    (KNCA(selection="most"), r"KNCA\(selection='most'\)"),
    (KNCA(n_neighbors=0), r"KNCA\(n_neighbors=0\).*at least 1"),
    (LMNN(margin=0), r"LMNN\(margin=0\).*above 0"),
    (LMNN(push=1.5), r"LMNN\(push=1.5\).*at least 0 and at most 1"),
    (NCMC(n_centroids=0), r"NCMC\(n_centroids=0\)"),
    (NCMC(loss="x"), r"NCMC\(loss='x'\)"),
    (DrLIM(margin=-1), r"DrLIM\(margin=-1\)"),
    (ITML(n_components=9), r"ITML\(n_components=9\) can't exceed"),
    (ITML(gamma=0), r"ITML\(gamma=0\).*above 0"),
    (ITML(tol=0), r"ITML\(tol=0\)"),
    (ITML(n_constraints=1), r"ITML\(n_constraints=1\).*at least 2"),
    (ITML(n_constraints="many"), r"ITML\(n_constraints='many'\)"),
    (ITML(prior="covarience"), "did you mean 'covariance'"),
    (ITML(prior=np.eye(3)), r"array of shape \(8, 8\); got shape \(3, 3\)"),
    (ITML(prior=-np.eye(8)), "positive definite"),
    (ITML(prior=np.triu(np.ones((8, 8)))), "symmetric"),
    (ITML(max_epochs=0), r"ITML\(max_epochs=0\)"),
    (ITML(callbacks=print), "must be a list of functions"),
]


@pytest.mark.parametrize(("learner", "message"), BAD_PARAMETERS, ids=lambda p: str(p)[:40])
def test_bad_parameters(striped, learner, message):
    with pytest.raises(ValueError, match=message):
        learner.fit(*striped)
