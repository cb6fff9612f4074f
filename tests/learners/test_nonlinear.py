"""Embeddings other than a matrix: images, modules of one's own, heads, the convolutional net."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from torch import nn

from ccml import CCML, KNCA, LMNN, NCA, NCMC, CCKNNClassifier, ConvCCML, ConvNetClassifier, DrLIM
from ccml.embeddings import MLP, Conv
from ccml.evaluation import ccknn_error
from ccml.training import Checkpoint, CheckpointError

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = (data.images[order] * 15.9375).round().astype(np.uint8)  # 16 is 255
    labels = data.target[order]
    return images[:900], labels[:900], images[900:], labels[900:]


def error_of(model, X, y, X_test, y_test):
    return ccknn_error(model.transform(X), y, model.transform(X_test), y_test)


def quick(**parameters):
    return CCML(8, max_epochs=3, random_state=0, **parameters)


def net(shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 8))


FORMS = {
    "mlp": MLP((32,)),
    "conv": Conv(1),
    "module": net((8, 8)),
    "function": net,
}


@pytest.mark.parametrize("embedding", FORMS.values(), ids=FORMS)
def test_every_form_learns(embedding, digits):
    X, y, X_test, _ = digits
    model = CCML(8, embedding=embedding, max_epochs=40, random_state=0).fit(X, y)
    assert error_of(model, *digits) < 0.06
    assert model.transform(X_test).shape == (len(X_test), 8)
    assert model.get_feature_names_out().tolist() == [f"ccml{i}" for i in range(8)]
    with pytest.raises(AttributeError, match="has no matrix"):
        model.get_mahalanobis_matrix()


@pytest.mark.parametrize("embedding", FORMS.values(), ids=FORMS)
def test_same_seed_same_bits_after_clone_and_pickle(embedding, digits):
    X, y, X_test, _ = digits
    model = quick(embedding=embedding).fit(X, y)
    again = clone(model).fit(X, y)
    assert again.transform(X_test).tobytes() == model.transform(X_test).tobytes()
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.transform(X_test).tobytes() == model.transform(X_test).tobytes()
    assert all(isinstance(value, np.ndarray) for value in model.weights_.values())


def test_the_given_module_is_not_changed(digits):
    module = net((8, 8))
    before = [parameter.clone() for parameter in module.parameters()]
    quick(embedding=module).fit(*digits[:2])
    assert all(map(torch.equal, before, module.parameters()))


@pytest.mark.parametrize("embedding", [Conv(1), net], ids=["conv", "function"])
def test_bytes_are_scaled(embedding, digits):
    X, y = digits[:2]
    by_bytes = quick(embedding=embedding).fit(X, y)
    by_floats = quick(embedding=embedding).fit(X * np.float32(1 / 255), y)
    assert by_bytes.transform(X).tobytes() == by_floats.transform(X * np.float32(1 / 255)).tobytes()


def test_the_output_of_a_network_has_the_precision_it_was_computed_in(digits):
    X, y = digits[:2]
    X = X.reshape(len(X), -1).astype(np.float64)
    assert quick(embedding=MLP((8,))).fit(X, y).transform(X).dtype == np.float32
    assert quick().fit(X, y).transform(X).dtype == np.float64


def test_bytes_and_floats_may_take_turns(digits):
    X, y = digits[:2]
    for model in (quick(embedding=Conv(1)).fit(X / 255, y), quick(embedding=MLP()).fit(X, y)):
        np.testing.assert_allclose(model.transform(X), model.transform(X / 255), atol=1e-4)


def test_a_function_that_always_returns_the_same_module(digits):
    X, y = digits[:2]
    module = net((8, 8))
    before = [parameter.clone() for parameter in module.parameters()]
    first = quick(embedding=lambda shape: module, validation_fraction=0).fit(X, y)
    expected = first.transform(X)
    quick(embedding=lambda shape: module, validation_fraction=0).fit(X, y % 3)
    assert all(map(torch.equal, before, module.parameters()))
    assert first.transform(X).tobytes() == expected.tobytes()


def test_frozen_parts_stay_as_they_are(digits):
    X, y = digits[:2]
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32))
    backbone.requires_grad_(False).eval()
    model = quick(embedding=nn.Sequential(backbone, nn.ReLU(), nn.Linear(32, 8))).fit(X, y)
    for name, value in backbone.state_dict().items():
        np.testing.assert_array_equal(model.weights_[f"net.0.{name}"], value.numpy())
    with pytest.raises(ValueError, match="no weights to train"):
        quick(embedding=nn.Sequential(nn.Flatten(), nn.Linear(64, 8).requires_grad_(False))).fit(
            X, y
        )


def test_a_last_layer_of_zeros_can_be_trained(digits):
    X, y = digits[:2]
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 8))
    nn.init.zeros_(module[-1].weight)
    assert np.isfinite(quick(embedding=module).fit(X, y).history_["loss"]).all()


def test_changing_the_embedding_of_a_fitted_learner(digits):
    X, y = digits[0].reshape(900, -1), digits[1]
    model = quick().fit(X, y)
    model.set_params(embedding=MLP((16,)))
    with pytest.raises(NotFittedError):
        model.transform(X)
    model.fit(X, y)
    assert not hasattr(model, "components_")
    model.set_params(embedding=MLP((17,)), warm_start=True)
    with pytest.raises(ValueError, match="another embedding or n_components"):
        model.fit(X, y)
    model.set_params(embedding=MLP((16,))).fit(X, y)
    with pytest.raises(ValueError, match="X has 60 features, but CCML is expecting 64"):
        model.fit(X[:, :60], y)
    model.set_params(embedding="linear").fit(X, y)
    assert not hasattr(model, "weights_")


def test_flat_rows_with_image_shape(digits):
    X, y = digits[:2]
    flat = ConvCCML(8, layers=1, image_shape=(8, 8), max_epochs=3, random_state=0)
    images = ConvCCML(8, layers=1, max_epochs=3, random_state=0)
    rows = X.reshape(len(X), -1)
    np.testing.assert_array_equal(flat.fit(rows, y).transform(rows), images.fit(X, y).transform(X))


def test_mlp_does_not_depend_on_units():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = rng.normal(size=(200, 4)) + 3 * y[:, None]
    units = np.array([1e-6, 1.0, 1e3, 1e7])
    rescaled = X * units + 1e8 * units
    models = [quick(embedding=MLP((16,))).fit(rows, y) for rows in (X, rescaled)]
    errors = [error_of(models[0], X, y, X, y), error_of(models[1], rescaled, y, rescaled, y)]
    assert errors[1] == pytest.approx(errors[0], abs=0.01)
    thousand = quick(embedding=MLP((16,))).fit(1024 * X, y)
    np.testing.assert_allclose(
        thousand.transform(1024 * X), models[0].transform(X), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("learner", [NCA, KNCA, LMNN, DrLIM], ids=lambda kind: kind.__name__)
def test_other_learners_take_embeddings(learner, digits):
    X, y = digits[:2]
    model = learner(8, embedding=MLP((32,)), max_epochs=15, random_state=0)
    assert error_of(model.fit(X, y), *digits) < 0.12


def test_ncmc_is_linear(digits):
    with pytest.raises(ValueError, match="embedding"):
        NCMC(embedding=MLP()).fit(*digits[:2])


def test_weight_decay_on_the_last_layer_or_all(digits):
    """Without validation rows, so that the last weights are the best."""
    X, y = digits[:2]

    def norms(**parameters):
        model = quick(embedding=MLP((32,)), validation_fraction=0, **parameters)
        weights = model.fit(X, y).weights_
        return [np.linalg.norm(weights[f"net.{layer}.weight"]) for layer in (1, 3)]

    start = norms(learning_rate=1e-9)
    last = norms(weight_decay=100.0)
    both = norms(weight_decay=100.0, decayed_layers="all")
    assert last[1] < 0.9 * start[1]
    assert last[0] > 0.9 * start[0]
    assert both[0] < 0.9 * start[0]


@pytest.mark.parametrize("embedding", ["linear", MLP((64,))], ids=["linear", "mlp"])
def test_a_head_on_ready_made_embeddings(embedding):
    """Vectors whose loud directions have nothing to do with the classes."""
    rng = np.random.default_rng(0)
    y = np.arange(800) % 8
    vectors = rng.normal(size=(8, 40))[y] + rng.normal(size=(800, 40))
    vectors[:, :10] = 15 * rng.normal(size=(800, 10))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    some, rest = slice(0, 400), slice(400, None)
    model = make_pipeline(CCML(16, embedding=embedding, random_state=0), CCKNNClassifier())
    plain = CCKNNClassifier().fit(vectors[some], y[some]).score(vectors[rest], y[rest])
    assert model.fit(vectors[some], y[some]).score(vectors[rest], y[rest]) > plain + 0.2


class TestConvNet:
    def test_it_classifies_and_its_hidden_layer_is_a_metric(self, digits):
        X, y, X_test, y_test = digits
        names = np.array([f"digit {i}" for i in range(10)])
        model = ConvNetClassifier(16, layers=1, max_epochs=60, random_state=0).fit(X, names[y])
        assert model.score(X_test, names[y_test]) > 0.9
        p = model.predict_proba(X_test)
        assert p.shape == (len(X_test), 10)
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
        assert (model.classes_[p.argmax(axis=1)] == model.predict(X_test)).all()
        assert model.transform(X_test).shape == (len(X_test), 16)
        assert error_of(model, *digits) < 0.08
        loaded = pickle.loads(pickle.dumps(model))
        assert loaded.predict_proba(X_test).tobytes() == p.tobytes()

    def test_weights_of_rows(self, digits):
        X, y = digits[:2]
        model = ConvNetClassifier(16, layers=1, max_epochs=20, random_state=0)
        model.fit(X, y, sample_weight=np.where(y == 3, 1e-6, 1.0))
        assert (model.predict(X) == 3).mean() < 0.03

    def test_its_network_is_that_of_conv_ccml(self, digits):
        X, y = digits[:2]
        parameters = {"layers": 1, "max_epochs": 1, "random_state": 0}
        shapes = [
            {name: value.shape for name, value in model.fit(X, y).weights_.items()}
            for model in (ConvCCML(8, **parameters), ConvNetClassifier(8, **parameters))
        ]
        extra = {"softmax.linear.weight": (10, 8), "softmax.linear.bias": (10,)}
        assert shapes[1] == shapes[0] | extra


class TestCheckpoint:
    def test_more_epochs_go_on_where_it_ended(self, digits, tmp_path):
        X, y = digits[:2]
        model = quick(embedding=MLP((16,)), checkpoint=tmp_path / "run")
        model.fit(X, y)
        model.set_params(max_epochs=6).fit(X, y)
        whole = quick(embedding=MLP((16,))).set_params(max_epochs=6).fit(X, y)
        np.testing.assert_array_equal(model.history_["loss"], whole.history_["loss"])
        assert model.transform(X).tobytes() == whole.transform(X).tobytes()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"n_neighbors": 3}, "n_neighbors was 5 and is 3"),
            ({"embedding": MLP((17,))}, r"hidden=\(16,\).* and is .*hidden=\(17,\)"),
            ({"n_components": 9}, "shapes of the weights was .*8, 16.* and is .*9, 16"),
            ({"random_state": 1}, "seed of random_state was"),
        ],
    )
    def test_another_run_is_refused(self, change, message, digits, tmp_path):
        X, y = digits[:2]
        model = quick(embedding=MLP((16,)), checkpoint=tmp_path / "run").fit(X, y)
        before = (tmp_path / "run").read_bytes()
        with pytest.raises(CheckpointError, match=message):
            model.set_params(**change).fit(X, y)
        assert (tmp_path / "run").read_bytes() == before

    def test_another_start_is_refused(self, digits, tmp_path):
        X, y = digits[0].reshape(900, -1), digits[1]
        start = np.random.default_rng(0).normal(size=(20, 64))
        model = CCML(20, init=start, max_epochs=1, checkpoint=tmp_path / "run", random_state=0)
        model.fit(X, y)
        other = start.copy()
        other[10, 20:40] *= 50
        with pytest.raises(CheckpointError, match="init was"):
            model.set_params(init=other).fit(X, y)
        with pytest.raises(ValueError, match="both checkpoint and warm_start"):
            model.set_params(warm_start=True).fit(X, y)

    def test_another_activation_is_refused(self, digits, tmp_path):
        X, y = digits[:2]
        for activation in (nn.ReLU(), nn.Tanh()):
            layers = [nn.Linear(64, 64) for _ in range(9)]  # a description longer than a message
            module = nn.Sequential(nn.Flatten(), *layers, activation, nn.Linear(64, 8))
            model = quick(embedding=module, checkpoint=tmp_path / "run")
            if isinstance(activation, nn.ReLU):
                model.fit(X, y)
        with pytest.raises(CheckpointError, match=r"network was .*ReLU.* and is .*Tanh"):
            model.fit(X, y)

    def test_a_full_disk_does_not_end_the_run(self, digits, tmp_path, monkeypatch):
        X, y = digits[:2]
        model = quick(embedding=MLP((8,)), checkpoint=tmp_path / "run", checkpoint_seconds=0)
        save, calls = Checkpoint.save, []

        def fail_later(self, state):
            calls.append(1)
            if len(calls) > 3:
                raise CheckpointError("checkpoint='run' can't be written: disk full.")
            save(self, state)

        monkeypatch.setattr(Checkpoint, "save", fail_later)
        with pytest.warns(RuntimeWarning, match="disk full. Training goes on"):
            model.fit(X, y)
        assert model.n_iter_ == 3

    def test_other_data_is_refused(self, digits, tmp_path):
        X, y = digits[:2]
        model = quick(checkpoint=tmp_path / "run").fit(X.reshape(900, -1), y)
        with pytest.raises(CheckpointError, match="data was"):
            model.fit(255.0 - X.reshape(900, -1), y)

    def test_a_module_of_another_architecture_is_refused(self, digits, tmp_path):
        X, y = digits[:2]
        wide = nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.Linear(9, 8))
        quick(embedding=net((8, 8)), checkpoint=tmp_path / "run").fit(X, y)
        with pytest.raises(CheckpointError, match="shapes of the weights"):
            quick(embedding=wide, checkpoint=tmp_path / "run").fit(X, y)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"checkpoint": "nowhere/run"}, "a folder that exists"),
            ({"checkpoint": "."}, "path of a file"),
            ({"checkpoint": 3}, "path of a file"),
            ({"checkpoint": "run", "random_state": None}, "needs a random_state"),
            ({"checkpoint": "run", "checkpoint_seconds": -1}, "checkpoint_seconds=-1"),
        ],
    )
    def test_bad_parameters(self, parameters, message, digits):
        with pytest.raises(ValueError, match=message):
            quick().set_params(**parameters).fit(digits[0].reshape(900, -1), digits[1])


def test_divergence_keeps_good_weights_and_says_what_to_change(digits):
    X, y = digits[:2]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = quick(embedding=Conv(1), learning_rate=1e30).fit(X, y)
    messages = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert len(messages) == 1
    assert "diverged" in messages[0]
    assert "lower learning_rate=1e+30" in messages[0]
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize(
    ("parameters", "shape", "message"),
    [
        ({"embedding": Conv()}, (64,), r"flat rows and image_shape="),
        ({"embedding": Conv()}, (8, 8), "at least 12 x 12 pixels; .* are 8 x 8"),
        ({"embedding": Conv(1, image_shape=(9, 9))}, (64,), "81 numbers; .* 64 numbers"),
        ({"embedding": nn.Identity()}, (8, 8), r"to \(2, 8, 8\); it has to give one vector"),
        ({"embedding": nn.Linear(7, 8)}, (64,), r"can't map inputs of shape \(n, 64\)"),
        ({"embedding": nn.Linear(64, 9)}, (64,), "n_components=8, but the embedding gives 9"),
        ({"embedding": 3}, (64,), "embedding=3 must be 'linear'"),
        ({"embedding": MLP(), "init": "pca"}, (64,), "init='pca'.* is for embedding='linear'"),
        ({"embedding": MLP(), "batch_size": 1}, (64,), "batch_size=1"),
        ({"embedding": MLP(), "batch_size": 3}, (64,), "can't hold two rows of two classes"),
        ({"embedding": MLP(), "decayed_layers": "first"}, (64,), "decayed_layers='first'"),
        ({}, (8, 8), "Found array with dim 3"),
    ],
)
def test_what_cannot_be_learned_is_explained(parameters, shape, message, digits):
    X, y = digits[:2]
    with pytest.raises(ValueError, match=message):
        quick().set_params(**parameters).fit(X.reshape(len(X), *shape).astype(float), y)


def test_one_class_and_other_shapes_are_refused(digits):
    X, y, X_test, _ = digits
    with pytest.raises(ValueError, match="at least 2 classes"):
        quick(embedding=Conv(1)).fit(X, np.zeros(len(X)))
    model = quick(embedding=Conv(1)).fit(X, y)
    with pytest.raises(ValueError, match=r"fitted on inputs of shape \(8, 8\)"):
        model.transform(X_test[:, :, :7])
    with pytest.raises(ValueError, match="NaN"):
        model.transform(np.where(X_test > 100, np.nan, X_test))
