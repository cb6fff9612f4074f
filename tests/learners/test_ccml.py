"""CCML as an estimator: what it learns, and what it promises of parameters and failures."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from ccml import CCML, CCKNNClassifier
from ccml.datasets import make_sandwich
from ccml.evaluation import ccknn_error, knn_error
from ccml.learners._initialization import INITS, column_scale
from ccml.training import Rows


def quick(**parameters):
    """A learner that ends soon; whether it converged isn't the question."""
    return CCML(**({"max_epochs": 5, "random_state": 0} | parameters))


@pytest.mark.parametrize("objective", ["local", "per-class"])
@pytest.mark.parametrize("loss", ["expected-accuracy", "log-likelihood"])
@pytest.mark.parametrize("init", ["auto", "pca", "lda", "random", "identity"])
def test_it_finds_what_tells_the_classes_apart(striped, objective, loss, init):
    X, y = striped
    model = CCML(4, objective=objective, loss=loss, init=init, max_epochs=300, random_state=0)
    Z = model.fit(X[:300], y[:300]).transform(X)
    plain = ccknn_error(X[:300], y[:300], X[300:], y[300:])
    learned = ccknn_error(Z[:300], y[:300], Z[300:], y[300:])
    assert plain > 0.1
    assert learned < 0.05
    weights = np.linalg.norm(model.components_, axis=0)
    assert weights[:2].min() > weights[2:].max()


@pytest.mark.parametrize("k", [1, 4, 8])
def test_the_sandwich_is_taken_apart(k):
    X, y = make_sandwich(random_state=0)
    Z = CCML(
        2, n_neighbors=k, init="identity", validation_fraction=0, random_state=0
    ).fit_transform(X, y)
    assert knn_error(X, y, n_neighbors=1) > 0.9
    assert knn_error(Z, y, n_neighbors=1) == 0


def test_unscaled_columns_do_not_defeat_it():
    X, y = load_wine(return_X_y=True)
    model = make_pipeline(CCML(random_state=0), CCKNNClassifier()).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.93
    assert KNeighborsClassifier().fit(X[::2], y[::2]).score(X[1::2], y[1::2]) < 0.8


def test_column_scale_tells_units_from_information():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)
    signal_ = np.column_stack([y + 0.2 * rng.normal(size=300), rng.normal(size=300)])
    other_units = signal_ * [0.001, 1000]  # the noise is in a small unit
    np.testing.assert_allclose(
        column_scale(Rows(other_units, y), 5, rng) * other_units.std(axis=0), 1, rtol=1e-6
    )
    faint_noise = signal_ * [1, 0.01]  # already said to matter little
    scale = column_scale(Rows(faint_noise, y), 5, rng)
    assert scale[0] == scale[1]


@pytest.mark.parametrize("squared", [False, True])  # LDA is the better start, and PCA
def test_the_best_start_has_the_lower_leave_one_out_error(striped, squared):
    X, y = striped
    if squared:  # loud columns tell apart classes with equal means
        X = np.column_stack([np.where(y == 1, 30, 3)[:, None] * X[:, 2:5], X[:, :2]])
    X = X - X.mean(axis=0)
    starts = {name: INITS[name](Rows(X, y), 3, np.random.default_rng(0)) for name in INITS}
    errors = {name: ccknn_error(X @ starts[name].T, y) for name in ("lda", "pca", "best")}
    assert errors["lda"] != errors["pca"]
    assert errors["best"] == min(errors.values())


@pytest.mark.parametrize("init", ["pca", "lda"])
def test_initial_directions(striped, init):
    """PCA: uncorrelated, of falling variance. LDA: the first two tell three classes apart."""
    X, y = striped
    X = X - X.mean(axis=0)
    components = INITS[init](Rows(X, y), 8, np.random.default_rng(0))
    covariance = np.cov(X @ components.T, rowvar=False)
    np.testing.assert_allclose(covariance - np.diag(np.diag(covariance)), 0, atol=1e-8)
    assert (np.diff(np.diag(covariance)) <= 1e-8).all()
    if init == "lda":
        weights = np.abs(components[:2] * X.std(axis=0))
        assert weights[:, :2].max() > 3 * weights[:, 2:].max()


@pytest.mark.parametrize("init", ["pca", "lda"])
@pytest.mark.parametrize("n_rows", [30, 2500])
def test_initial_directions_of_very_wide_data(init, n_rows):
    """No covariance of the columns fits into memory; the directions are those of the rows."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 3
    X = 0.1 * rng.normal(size=(n_rows, 2100))
    X[:, :3] += 3 * np.eye(3)[y]
    X -= X.mean(axis=0)
    components = INITS[init](Rows(X, y), 40, rng)
    assert components.shape == (40, 2100)
    assert np.isfinite(components).all()
    assert (np.linalg.norm(components, axis=1) > 0).all()
    Z = X @ components[:2].T
    assert ccknn_error(Z, y) == 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
class TestPromises:
    def test_transform_is_the_map_and_distances_are_mahalanobis(self, striped):
        X, y = striped
        model = quick(n_components=3).fit(X, y)
        Z = model.transform(X[:2])
        assert model.components_.shape == (3, 8)
        np.testing.assert_allclose(Z, X[:2] @ model.components_.T)
        difference = X[0] - X[1]
        M = model.get_mahalanobis_matrix()
        assert difference @ M @ difference == pytest.approx(((Z[0] - Z[1]) ** 2).sum())

    def test_feature_names(self, striped):
        model = quick(n_components=2).fit(*striped)
        assert model.get_feature_names_out().tolist() == ["ccml0", "ccml1"]
        frame = model.set_output(transform="pandas").transform(striped[0])
        assert frame.columns.tolist() == ["ccml0", "ccml1"]

    def test_history(self, striped):
        model = quick().fit(*striped)
        assert model.n_iter_ == 5
        assert {name: len(values) for name, values in model.history_.items()} == {
            "loss": 5,
            "validation_error": 5,
        }
        assert model.history_["loss"][-1] < model.history_["loss"][0]

    def test_same_seed_same_bits(self, striped):
        first, second = (quick().fit(*striped).components_ for _ in range(2))
        assert first.tobytes() == second.tobytes()
        other = quick(random_state=1).fit(*striped).components_
        assert first.tobytes() != other.tobytes()

    def test_dropout_is_repeatable_and_changes_what_is_learned(self, striped):
        first, second = (quick(dropout=0.3).fit(*striped).components_ for _ in range(2))
        assert first.tobytes() == second.tobytes()
        assert not np.allclose(first, quick().fit(*striped).components_)

    def test_same_bits_in_another_process(self, striped, tmp_path):
        np.savez(tmp_path / "data.npz", X=striped[0], y=striped[1])
        code = textwrap.dedent("""
            import numpy as np, sys, warnings
            from ccml import CCML
            warnings.simplefilter("ignore")
            data = np.load(sys.argv[1])
            model = CCML(max_epochs=5, random_state=0).fit(data["X"], data["y"])
            sys.stdout.write(model.components_.tobytes().hex())
        """)
        output = subprocess.run(
            [sys.executable, "-c", code, tmp_path / "data.npz"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert output == quick().fit(*striped).components_.tobytes().hex()

    def test_row_order_and_label_names_matter_only_to_the_shuffle(self, striped):
        X, y = striped
        order = np.random.default_rng(0).permutation(len(y))
        expected = CCML(random_state=0, validation_fraction=0, batch_size=400).fit(X, y)
        shuffled = CCML(random_state=0, validation_fraction=0, batch_size=400)
        shuffled.fit(X[order], np.array(["x", "a", "m"])[y[order]])
        # One batch of all rows: the same objective, up to rounding in float32.
        M, N = expected.get_mahalanobis_matrix(), shuffled.get_mahalanobis_matrix()
        assert np.linalg.norm(M - N) < 0.05 * np.linalg.norm(M)

    def test_translation_is_immaterial(self, striped):
        X, y = striped
        np.testing.assert_allclose(
            quick().fit(X + 100, y).components_, quick().fit(X, y).components_, rtol=1e-3, atol=1e-5
        )

    def test_scale_is_immaterial(self, striped):
        X, y = striped
        ours, theirs = quick().fit(X, y), quick().fit(1000 * X, y)
        np.testing.assert_allclose(ours.components_, 1000 * theirs.components_, rtol=1e-5)

    def test_weights(self, striped):
        X, y = striped
        plain = quick().fit(X, y).components_
        np.testing.assert_array_equal(quick().fit(X, y, np.ones(len(y))).components_, plain)
        np.testing.assert_allclose(
            quick().fit(X, y, np.full(len(y), 7.0)).components_, plain, rtol=1e-3, atol=1e-5
        )
        weight = (np.arange(len(y)) % 4 > 0).astype(float)
        np.testing.assert_array_equal(
            quick().fit(X, y, weight).components_,
            quick().fit(X[weight > 0], y[weight > 0]).components_,
        )
        uneven = quick().fit(X, y, np.where(y == 0, 10.0, 1.0)).components_
        assert not np.allclose(uneven, plain)

    def test_a_constant_column_gets_no_weight(self, striped):
        X, y = striped
        X = np.column_stack([X, np.full(len(X), 3.0)])
        assert (quick().fit(X, y).components_[:, -1] == 0).all()

    def test_weights_decide_between_conflicting_rows(self):
        """Two halves of the rows want opposite axes; the weights say which half counts."""
        rng = np.random.default_rng(0)
        y = np.arange(400) % 2
        X = rng.normal(size=(400, 2))
        X[:200, 0] += 4 * y[:200]
        X[200:, 1] += 4 * y[200:]
        X[200:, 0] += 20  # apart from the first half
        ratios = []
        for half in (0, 1):
            weight = np.where(np.arange(400) // 200 == half, 1.0, 1e-4)
            model = quick(max_epochs=100, learning_rate=0.1, init="identity", validation_fraction=0)
            along_x, along_y = np.linalg.norm(model.fit(X, y, weight).components_, axis=0)
            ratios.append(along_x / along_y)
        assert ratios[0] > 2 * ratios[1]

    def test_warm_start_goes_on(self, striped):
        X, y = striped
        model = quick(warm_start=True, max_epochs=10).fit(X, y)
        components = model.components_
        model.set_params(max_epochs=1, learning_rate=1e-9).fit(X, y)
        np.testing.assert_allclose(model.components_, components, rtol=1e-5)

    def test_init_from_an_array_is_used_up_to_scale(self, striped):
        start = np.random.default_rng(0).normal(size=(3, 8))
        model = quick(init=start, learning_rate=1e-9, max_epochs=1).fit(*striped)
        ratio = model.components_ / start
        np.testing.assert_allclose(ratio, ratio.mean(), rtol=1e-5)

    def test_callbacks_are_called(self, striped):
        epochs = []
        model = quick(callbacks=[lambda epoch, loss, error: epochs.append(epoch)]).fit(*striped)
        assert epochs == list(range(1, model.n_iter_ + 1))

    def test_verbose_draws_a_bar(self, striped, capsys):
        quick(verbose=True).fit(*striped)
        assert "CCML" in capsys.readouterr().out
        quick().fit(*striped)
        assert capsys.readouterr().out == ""

    def test_float32_stays_float32(self, striped):
        X, y = striped
        model = quick().fit(X.astype(np.float32), y)
        assert model.components_.dtype == model.transform(X.astype(np.float32)).dtype == np.float32

    def test_more_classes_than_a_batch_holds(self):
        X, y = make_blobs(600, 5, centers=200, random_state=0)
        model = quick(batch_size=32, objective="per-class").fit(X, y)
        assert np.isfinite(model.components_).all()


def test_warns_when_it_has_not_converged(striped):
    with pytest.warns(
        ConvergenceWarning, match="hadn't converged after 2 epochs; raise max_epochs=2"
    ):
        quick(max_epochs=2).fit(*striped)


def test_no_warning_when_it_has(striped):
    CCML(random_state=0).fit(*striped)  # warnings are errors here


def test_divergence_says_what_to_change(striped):
    with pytest.warns(ConvergenceWarning, match="diverged after .* lower learning_rate=1e"):
        model = quick(learning_rate=1e30).fit(*striped)
    assert np.isfinite(model.components_).all()


def test_ctrl_c_keeps_the_best_so_far(tmp_path):
    """A real signal to a real process in the middle of an endless fit."""
    code = textwrap.dedent("""
        import sys, warnings
        import numpy as np
        from ccml import CCML
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(2000, 10)), rng.integers(5, size=2000)
        def ready(epoch, loss, error):
            if epoch == 2:
                print("ready", flush=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = CCML(max_epochs=10**6, n_epochs_no_change=10**6, callbacks=[ready]).fit(X, y)
        print(caught[0].category.__name__, caught[0].message)
        print(model.transform(X).shape, model.n_iter_ >= 2)
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert "ConvergenceWarning CCML was interrupted after" in output, errors
    assert "(2000, 10) True" in output


BAD_PARAMETERS = [
    ({"n_components": 9}, r"n_components=9\) can't exceed the number of features, 8"),
    ({"n_components": 0}, "n_components=0.*at least 1"),
    ({"n_components": -2}, "n_components=-2"),
    ({"n_components": 2.5}, "n_components=2.5"),
    ({"n_neighbors": 0}, "n_neighbors=0.*at least 1"),
    ({"n_neighbors": "five"}, "n_neighbors='five'"),
    ({"objective": "perclass"}, "did you mean 'per-class'"),
    ({"loss": "loglikelihood"}, "did you mean 'log-likelihood'"),
    ({"embedding": "linaer"}, "did you mean 'linear'"),
    ({"init": "pac"}, "did you mean 'pca'"),
    ({"init": np.ones((2, 3))}, r"shape \(2, 3\).*\(n_components, n_features\) = \(2, 8\)"),
    ({"init": np.ones((2, 8)), "n_components": 3}, r"\(n_components, n_features\) = \(3, 8\)"),
    ({"init": np.full((2, 8), np.nan)}, "finite and not all zero"),
    ({"init": np.zeros((2, 8))}, "finite and not all zero"),
    ({"init": None}, "starts from an array of shape"),
    ({"init": 3}, "starts from an array of shape"),
    ({"batch_size": np.ones(3)}, "batch_size=array"),
    ({"device": None}, "device=None"),
    ({"device": "meta"}, "device='meta'"),
    ({"callbacks": print}, "must be a list of functions"),
    ({"batch_size": 1}, "batch_size=1.*at least 2"),
    ({"batch_size": "large"}, "batch_size='large'"),
    ({"max_epochs": 0}, "max_epochs=0"),
    ({"learning_rate": 0}, "learning_rate=0.*above 0"),
    ({"learning_rate": -0.1}, "learning_rate=-0.1"),
    ({"learning_rate": np.nan}, "learning_rate=nan"),
    ({"weight_decay": -1}, "weight_decay=-1.*at least 0"),
    ({"dropout": 1.0}, "dropout=1.0.*at least 0 and below 1"),
    ({"validation_fraction": 1.0}, "validation_fraction=1.0.*below 1"),
    ({"validation_fraction": -0.1}, "validation_fraction=-0.1"),
    ({"n_epochs_no_change": 0}, "n_epochs_no_change=0"),
    ({"device": "cuda:99"}, r"device='cuda:99'\) isn't a device.*Use device='cpu'"),
    ({"device": "gpu"}, "device='gpu'.*Use device='cpu'"),
    ({"callbacks": ["print"]}, "must be a list of functions"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS, ids=str)
def test_bad_parameters(striped, parameters, message):
    with pytest.raises(ValueError, match=message):
        CCML(**parameters).fit(*striped)


@pytest.mark.parametrize(
    ("y", "weight", "message"),
    [
        (np.zeros(12), None, r"needs at least 2 classes to tell apart; y has 1 class"),
        (np.arange(12), None, "every class here has 1. Give more samples per class"),
        (np.arange(12) % 2, -np.ones(12), "Negative values in data passed to `sample_weight`"),
        (np.arange(12) % 2, np.zeros(12), "at least one non-zero number"),
        (np.arange(12) % 2, np.ones(5), "sample_weight.shape"),
        (np.arange(12) % 2, np.full(12, np.nan), "sample_weight contains NaN"),
    ],
)
def test_bad_labels_and_weights(y, weight, message):
    X = np.random.default_rng(0).normal(size=(12, 3))
    with pytest.raises(ValueError, match=message):
        CCML().fit(X, y, weight)


def test_y_is_required():
    with pytest.raises(ValueError, match="requires y to be passed"):
        CCML().fit(np.ones((3, 2)), None)


def test_warm_start_on_other_columns_is_refused(striped):
    X, y = striped
    with pytest.warns(ConvergenceWarning):
        model = quick(warm_start=True).fit(X, y)
    with pytest.raises(
        ValueError, match=r"warm_start=...\) starts from an array of shape \(8, 8\)"
    ):
        model.fit(X[:, :5], y)
