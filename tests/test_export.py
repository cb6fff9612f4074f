"""ONNX files: onnxruntime gives what the model gives, or there is no file."""

import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler
from sklearn.svm import SVC
from torch import nn

from ccml.classifiers import CCKNNClassifier, NBNNClassifier, NearestMeanClassifier
from ccml.embeddings import MLP, Conv
from ccml.export import export_onnx
from ccml.export._graph import Graph
from ccml.learners import CCML, ITML, KNCA, LMNN, NCA, NCMC, ConvNetClassifier, DrLIM
from ccml.preprocessing import Flatten, LocalContrastNormalization

X, Y = load_wine(return_X_y=True)
RNG = np.random.default_rng(0)
LABELS = np.arange(120) % 3
SHORT = {"max_epochs": 2, "random_state": 0}
SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler((-1, 2)),
    MinMaxScaler(clip=True),
    Normalizer(),
    PCA(5),
    PCA(5, whiten=True),
    TruncatedSVD(5),
    SimpleImputer(),
    "passthrough",
]


def images(*shape):
    """Three classes of images, each with more light in another place."""
    drawn = RNG.normal(size=(120, *shape)).astype(np.float32)
    drawn[..., :3] += LABELS.reshape(-1, *[1] * len(shape)).astype(np.float32)
    return drawn


def fitted(model, X=X, y=Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def embedded(path, X):
    session = onnxruntime.InferenceSession(path)
    (Z,) = session.run(["embedding"], {"X": np.asarray(X, dtype=np.float32)})
    assert Z.dtype == np.float32
    return Z


def assert_same(model, path, X, *, rtol=1e-4):
    """The file gives what the model gives for the very numbers that the file takes."""
    export_onnx(model, path)
    onnx.checker.check_model(path, full_check=True)
    taken = np.asarray(X, dtype=np.float32)
    wanted = model.transform(taken.astype(np.float64))
    for rows in (slice(1), slice(100)):
        found = embedded(path, taken[rows])
        assert found.shape == wanted[rows].shape
        assert abs(found - wanted[rows]).max() < rtol * abs(wanted).max()


@pytest.mark.parametrize("learner", [CCML, NCA, KNCA, LMNN, NCMC, DrLIM, ITML])
def test_linear_learners(learner, path):
    assert_same(fitted(learner(3, **SHORT)), path, X)


@pytest.mark.parametrize("learner", [CCML, NCA, KNCA, LMNN, DrLIM])
@pytest.mark.parametrize("embedding", [MLP((7,)), MLP((7, 6), activation="tanh")])
def test_networks(learner, embedding, path):
    assert_same(fitted(learner(3, embedding=embedding, **SHORT)), path, X)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize(
    ("shape", "embedding"),
    [
        ((12, 13), Conv(n_filters=3)),
        ((2, 8, 9), Conv(layers=1, n_filters=3)),
        ((144,), Conv(n_filters=3, image_shape=(12, 12), max_shift=2)),
        ((128,), Conv(layers=1, n_filters=3, image_shape=(2, 8, 8))),
        ((6, 5), MLP((7,))),
        ((2, 6, 5), MLP((7,))),
    ],
)
def test_images(shape, embedding, activation, path):
    spec = type(embedding)(**vars(embedding) | {"activation": activation})
    pictures = images(*shape)
    assert_same(fitted(CCML(4, embedding=spec, **SHORT), pictures, LABELS), path, pictures)


def test_the_input_says_what_it_takes(path):
    pictures = images(2, 8, 9)
    model = fitted(CCML(4, embedding=Conv(layers=1), **SHORT), pictures, LABELS)
    export_onnx(model, path)
    graph = onnx.load(path).graph
    (taken,), (given,) = graph.input, graph.output
    assert (taken.name, given.name) == ("X", "embedding")
    sizes = [
        [side.dim_param or side.dim_value for side in end.type.tensor_type.shape.dim]
        for end in (taken, given)
    ]
    assert sizes == [["n", 2, 8, 9], ["n", 4]]


def test_bytes_have_to_be_scaled(path):
    pictures = RNG.integers(0, 256, size=(120, 8, 8)).astype(np.uint8)
    model = fitted(CCML(4, embedding=Conv(layers=1), **SHORT), pictures, LABELS)
    export_onnx(model, path)
    np.testing.assert_allclose(
        embedded(path, pictures / 255), model.transform(pictures), rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("shape", [(8, 9), (2, 8, 9)])
@pytest.mark.parametrize(
    "steps",
    [
        [Flatten()],
        [Flatten(), StandardScaler(), PCA(9)],
        [LocalContrastNormalization(), Flatten()],
        [LocalContrastNormalization(sigma=0.7), Flatten(), StandardScaler()],
    ],
    ids=str,
)
def test_flat_images(shape, steps, path):
    pictures = images(*shape)
    pictures[3] = 7  # of which there is no contrast
    assert_same(fitted(make_pipeline(*steps, CCML(4, **SHORT)), pictures, LABELS), path, pictures)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 255.0])
@pytest.mark.parametrize("sigma", [0.5, 1.591, 20])
def test_local_contrast(scale, sigma, path):
    pictures = scale * images(2, 8, 9) + 3 * scale
    pictures[3] = 7
    assert_same(LocalContrastNormalization(sigma).fit(pictures), path, pictures, rtol=1e-4)


def test_local_contrast_of_rows(path):
    rows = images(72)
    model = make_pipeline(LocalContrastNormalization(image_shape=(8, 9)), CCML(4, **SHORT))
    assert_same(fitted(model, rows, LABELS), path, rows)


def test_flat_bytes_are_not_scaled(path):
    pictures = RNG.integers(0, 256, size=(120, 6, 7)).astype(np.uint8)
    model = fitted(make_pipeline(Flatten(), CCML(4, **SHORT)), pictures, LABELS)
    export_onnx(model, path)
    np.testing.assert_allclose(
        embedded(path, pictures), model.transform(pictures), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("image_shape", [None, (8, 8)])
def test_convnet(image_shape, path):
    pictures = images(8, 8) if image_shape is None else images(64)
    model = ConvNetClassifier(4, layers=1, image_shape=image_shape, **SHORT)
    assert_same(fitted(model, pictures, LABELS), path, pictures)


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
@pytest.mark.parametrize("embedding", ["linear", MLP((7,))])
def test_pipelines(scaler, embedding, path):
    model = make_pipeline(scaler, CCML(3, embedding=embedding, **SHORT))
    shifted = X * 1.5 - 1  # so that some are outside of what MinMaxScaler has seen
    assert_same(fitted(model), path, shifted)


def test_long_pipeline(path):
    scaled = make_pipeline(StandardScaler(), None, PCA(0.99), Normalizer(), CCML(3, **SHORT))
    assert_same(fitted(scaled), path, X)


def test_without_a_learner(path):
    assert_same(fitted(make_pipeline(StandardScaler(), PCA(4))), path, X)
    assert_same(StandardScaler(with_mean=False, with_std=False).fit(X), path, X)


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
@pytest.mark.parametrize("scaler_first", [True, False])
def test_missing_values(strategy, scaler_first, path):
    holes = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
    steps = [SimpleImputer(strategy=strategy), StandardScaler()]
    model = make_pipeline(*(steps[::-1] if scaler_first else steps), CCML(3, **SHORT))
    assert_same(fitted(model, holes), path, holes)


def test_normalizer_leaves_zeros(path):
    model = fitted(make_pipeline(Normalizer(), CCML(3, **SHORT)))
    assert_same(model, path, np.vstack([np.zeros((1, 13)), X]))


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), CCML(3, **SHORT)),
        make_pipeline(MinMaxScaler(), CCML(3, **SHORT)),
        make_pipeline(PCA(0.999), CCML(3, **SHORT)),
        make_pipeline(SimpleImputer(), StandardScaler(), CCML(3, **SHORT)),
        CCML(3, embedding=MLP((7,)), **SHORT),
    ],
)
def test_columns_far_from_the_origin(model, path):
    """What float32 keeps of the rows is kept; 1e6 and its centre both have grains of 0.06."""
    far = StandardScaler().fit_transform(X) + 1e6 + np.arange(13) * 0.021
    assert_same(fitted(model, far), path, far)


def test_missing_values_far_from_the_origin(path):
    """Only what is filled in is rounded as an input of float32 is."""
    far = StandardScaler().fit_transform(X) + 1e6
    holes = np.where(RNG.random(X.shape) < 0.1, np.nan, far)
    model = fitted(make_pipeline(SimpleImputer(), StandardScaler(), CCML(3, **SHORT)), holes)
    assert_same(model, path, holes, rtol=0.05)


@pytest.mark.parametrize("classifier", [CCKNNClassifier, NBNNClassifier, NearestMeanClassifier])
def test_classifier_is_left_out(classifier, path):
    model = fitted(make_pipeline(StandardScaler(), CCML(3, **SHORT), classifier()))
    export_onnx(model, path)
    np.testing.assert_allclose(embedded(path, X), model[:-1].transform(X), rtol=1e-3, atol=1e-4)


def test_fitted_on_a_table(path):
    table = pd.DataFrame(X).add_prefix("column ")
    model = make_pipeline(StandardScaler(), CCML(3, **SHORT)).set_output(transform="pandas")
    export_onnx(fitted(model, table), path)
    wanted = model.transform(table).to_numpy()
    np.testing.assert_allclose(embedded(path, X), wanted, rtol=1e-3, atol=1e-4)


class Gated(nn.Module):
    """A network of the user's own."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(13, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))

    def forward(self, x):
        z = self.layers(x)
        return z * z.sigmoid()


class Wilful(nn.Module):
    """A network that isn't one graph."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(13, 3)

    def forward(self, x):
        return self.linear(x) if float(x.sum()) > 0 else -self.linear(x)


def test_own_network(path):
    model = make_pipeline(StandardScaler(), CCML(embedding=Gated(), **SHORT))
    assert_same(fitted(model), path, X)


def test_own_network_that_torch_cannot_follow(path):
    model = fitted(CCML(embedding=Wilful(), **SHORT))
    with pytest.raises(ValueError, match=r"can't write CCML: torch can't export .* Wilful \(\w"):
        export_onnx(model, path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (FunctionTransformer(), "'functiontransformer', FunctionTransformer: it isn't one of"),
        (SelectKBest(k=5), "'selectkbest', SelectKBest"),
        (Normalizer("l1"), "'normalizer', Normalizer: norm='l1' isn't 'l2'"),
        (SimpleImputer(missing_values=0), "'simpleimputer', SimpleImputer: it has to be for NaN"),
        (SimpleImputer(add_indicator=True), "'simpleimputer', SimpleImputer: it has to be"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_refused_steps(step, message, path):
    holes = X.copy()
    if isinstance(step, SimpleImputer):
        holes[::7, 0] = step.missing_values
    model = fitted(make_pipeline(step, CCML(3, **SHORT)), holes)
    with pytest.raises(ValueError, match=rf"can't write the step {message}.*such as model\[1:\]"):
        export_onnx(model, path)
    assert list(path.parent.iterdir()) == []


def test_columns_without_a_value_are_refused(path):
    empty = X.copy()
    empty[:, 3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = SimpleImputer().fit(empty)
    with pytest.raises(ValueError, match="keep_empty_features=True"):
        export_onnx(model, path)
    assert_same(SimpleImputer(keep_empty_features=True).fit(empty), path, empty)


def test_other_classifiers_are_refused(path):
    model = fitted(make_pipeline(CCML(3, **SHORT), SVC()))
    with pytest.raises(ValueError, match=r"'svc', SVC.*leave it out if it is the last"):
        export_onnx(model, path)


@pytest.mark.parametrize("model", [CCKNNClassifier(), make_pipeline("passthrough")])
def test_nothing_to_export(model, path):
    with pytest.raises(ValueError, match="has no step that maps rows"):
        export_onnx(fitted(model), path)


@pytest.mark.parametrize(
    "model",
    [
        CCML(),
        ITML(),
        ConvNetClassifier(),
        Normalizer(),
        make_pipeline(StandardScaler(), CCML()),
        make_pipeline(StandardScaler().fit(X), CCML()),
    ],
    ids=str,
)
def test_not_fitted(model, path):
    with pytest.raises(NotFittedError):
        export_onnx(model, path)


def test_what_is_there_stays_when_the_file_would_be_wrong(path, monkeypatch):
    path.write_bytes(b"the last one")
    model = fitted(make_pipeline(StandardScaler(), CCML(3, **SHORT)))
    monkeypatch.setattr(Graph, "centred", lambda graph, x, *_: x)
    with pytest.raises(ValueError, match="doesn't give what the model's transform gives"):
        export_onnx(model, path)
    assert [file.read_bytes() for file in path.parent.iterdir()] == [b"the last one"]


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "onnxscript"])
def test_missing_package(package, path, monkeypatch):
    model = fitted(CCML(embedding=Gated(), **SHORT))
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"package {package}: pip install 'ccml\[onnx\]'"):
        export_onnx(model, path)
    assert not path.exists()
