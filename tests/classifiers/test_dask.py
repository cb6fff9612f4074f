"""Classifiers on dask collections: what they say in memory, but when it is asked for."""

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import ccml
from ccml import CCML, CCKNNClassifier, NBNNClassifier, NearestMeanClassifier
from ccml.neighbors import PartitionedIndex

METHODS = ["predict", "predict_proba", "decision_function"]
RULES = [("sum", None), ("gaussian", None), ("gaussian", [0.1, 0.2, 0.3, 0.4])]


@pytest.fixture
def data():
    X, y = make_blobs([60, 40, 20, 3], 3, cluster_std=4.0, random_state=0)
    return X[:90], np.array(["a", "b", "c", "dd"])[y[:90]], X[90:], y[90:]


@pytest.fixture(params=["synchronous", "threads"])
def scheduler(request):
    with dask.config.set(scheduler=request.param):
        yield request.param


def fails(block):
    raise AssertionError("Computed.")


def same(lazy, expected):
    """A lazy array of the type, the shape and the values of one in memory."""
    assert isinstance(lazy, da.Array)
    assert lazy.dtype == expected.dtype
    assert lazy.shape[1:] == expected.shape[1:]
    found = lazy.compute()
    assert found.dtype == expected.dtype
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("rule", "priors"), RULES)
@pytest.mark.parametrize("k", [1, 4, 200])
@pytest.mark.usefixtures("scheduler")
def test_a_partitioned_gallery_decides_as_one_in_memory(data, rule, priors, k):
    X, y, Q, _ = data
    model = CCKNNClassifier(k, rule=rule, priors=priors).fit(X, y)
    chunks = ((50, 0, 3, 37), (2, 1))
    lazy = CCKNNClassifier(k, rule=rule, priors=priors).fit(da.from_array(X, chunks), y)
    assert isinstance(lazy.index_, PartitionedIndex)
    np.testing.assert_array_equal(lazy.classes_, model.classes_)
    queries = da.from_array(Q, ((20, 0, len(Q) - 20), (1, 2)))
    for name in METHODS:
        expected = getattr(model, name)(Q)
        np.testing.assert_allclose(
            *((part == expected).astype(float) if expected.dtype.kind == "U" else part
              for part in (getattr(lazy, name)(Q), expected)),
            rtol=1e-12, atol=1e-15,
        )  # fmt: skip
        same(getattr(lazy, name)(queries), expected)  # dask gallery, dask queries
        same(getattr(model, name)(queries), expected)  # gallery in memory


def test_queries_in_memory_get_all_that_an_index_gives(data):
    X, y, Q, y_query = data
    model, lazy = CCKNNClassifier(4).fit(X, y), CCKNNClassifier(4).fit(da.from_array(X, 30), y)
    for mine, theirs in zip(lazy.explain(Q, 2), model.explain(Q, 2), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    labels = model.classes_[y_query]
    assert lazy.score(Q, labels) == model.score(Q, labels)
    assert lazy.score(da.from_array(Q, 5), da.from_array(labels, 5)) == model.score(Q, labels)


@pytest.mark.parametrize(
    "model",
    [
        CCKNNClassifier(3),
        CCKNNClassifier(3, rule="gaussian"),
        NearestMeanClassifier(),
        NearestMeanClassifier(2, random_state=0),
        NBNNClassifier(),
    ],
    ids=repr,
)
def test_nothing_is_computed_before_it_is_asked_for(data, model):
    X, y, *_ = data
    model.fit(X, y)
    queries = da.from_array(X, 30).map_blocks(fails, meta=X[:0])
    for name in METHODS:
        lazy = getattr(model, name)(queries)
        with pytest.raises(AssertionError, match="Computed"):
            lazy.compute()
        same(getattr(model, name)(da.from_array(X, 40)), getattr(model, name)(X))
    if isinstance(model, CCKNNClassifier):
        gallery = CCKNNClassifier(3).fit(queries, y)
        with pytest.raises(AssertionError, match="Computed"):
            gallery.predict(queries).compute()


def test_sets_of_descriptors(data):
    X, y, *_ = data
    items = X.reshape(30, 3, 3)
    model = NBNNClassifier().fit(items, y[::3])
    same(model.predict(da.from_array(items, 10)), model.predict(items))


def test_a_lazy_answer_is_of_the_model_as_it_was(data):
    X, y, Q, _ = data
    model = CCKNNClassifier(1).fit(X, y)
    expected, lazy = model.predict(Q), model.predict(da.from_array(Q, 10))
    model.set_params(n_neighbors=30).fit(X[::-1], y)
    np.testing.assert_array_equal(lazy.compute(), expected)


def test_dataframes_from_parquet(data, tmp_path):
    """Text labels, columns by their names, partitions that are empty once rows are chosen."""
    X, y, Q, _ = data
    table = pd.DataFrame(X, columns=["u", "v", "w"]).assign(kind=y, part=np.arange(len(X)) // 30)
    dd.from_pandas(table, npartitions=4).to_parquet(tmp_path / "gallery")
    rows = dd.read_parquet(tmp_path / "gallery")
    rows = rows[rows["part"] != 1]
    kept = table[table["part"] != 1]
    model = CCKNNClassifier(3).fit(kept[["u", "v", "w"]], kept["kind"])
    lazy = CCKNNClassifier(3).fit(rows[["u", "v", "w"]], rows["kind"])
    assert lazy.feature_names_in_.tolist() == ["u", "v", "w"]
    assert lazy.index_.rows.numblocks[0] == rows.npartitions  # though labels are few columns
    new = pd.DataFrame(Q, columns=["u", "v", "w"])
    queries = dd.from_pandas(new, npartitions=3)
    for name in METHODS:
        expected = getattr(model, name)(new)
        same(getattr(lazy, name)(queries), expected)
        same(getattr(model, name)(queries[queries["u"] > -1e9]), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        lazy.predict(queries.rename(columns={"u": "x"}))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(queries[["v", "u", "w"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        answer = lazy.predict(da.from_array(Q, 10))
    same(answer, model.predict(new))


def test_zarr(data, tmp_path):
    X, y, Q, _ = data
    da.from_array(X.astype(np.float32), (40, 3)).to_zarr(tmp_path / "rows.zarr")
    model = CCKNNClassifier(3).fit(X.astype(np.float32), y)
    lazy = CCKNNClassifier(3).fit(da.from_zarr(tmp_path / "rows.zarr"), y)
    same(lazy.predict_proba(da.from_array(Q, 10)), model.predict_proba(Q))


def test_partial_fit_adds_partitions_and_rows(data):
    X, y, Q, _ = data
    model = CCKNNClassifier(3).fit(X, y)
    lazy = CCKNNClassifier(3).partial_fit(da.from_array(X[:30], 10), y[:30])
    lazy.partial_fit(da.from_array(X[30:60], 20), da.from_array(y[30:60], 7))
    lazy.partial_fit(X[60:], y[60:])
    np.testing.assert_array_equal(lazy.classes_, model.classes_)
    np.testing.assert_array_equal(lazy.class_neighbors(Q)[1], model.class_neighbors(Q)[1])
    with pytest.raises(TypeError, match=r"rows in memory.*X.compute\(\)"):
        model.partial_fit(da.from_array(X, 30), y)
    with pytest.raises(ValueError, match="Use one type of label"):
        lazy.partial_fit(da.from_array(X, 30), np.arange(len(X)))


def test_a_metric_and_a_classifier_in_a_pipeline(data):
    """Rows too many to train on: the metric is learned on a part, the gallery is all of them."""
    X, y, Q, _ = data
    metric = CCML(2, random_state=0, max_epochs=3)
    with pytest.warns(match="hadn't converged"):
        metric.fit(X, y)
    gallery = metric.transform(da.from_array(X, 30))
    pipeline = make_pipeline(metric, CCKNNClassifier(3).fit(gallery, y))
    expected = CCKNNClassifier(3).fit(metric.transform(X), y).predict(metric.transform(Q))
    np.testing.assert_array_equal(pipeline.predict(Q), expected)
    same(pipeline.predict(da.from_array(Q, 10)), expected)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, X, y: m.predict(X[:, :2]), ValueError, "X has 2 features, but CCKNN"),
        (lambda m, X, y: m.predict(X[:, 0]), ValueError, "Expected 2D array, got 1D"),
        (lambda m, X, y: m.predict(X.to_delayed()[0, 0]), TypeError, "a dask Delayed; only arrays"),
        (lambda m, X, y: m.explain(X), TypeError, "needs its rows in memory"),
        (lambda m, X, y: m.class_neighbors(X), TypeError, "needs its rows in memory"),
        (lambda m, X, y: m.is_unknown(X.compute()), ValueError, "fitted on rows in memory"),
        (lambda m, X, y: m.fit(X, y[:-1]), ValueError, "rows need as many labels"),
        (lambda m, X, y: m.fit(X, ["a"] * len(y)), ValueError, "at least 2 classes"),
        (lambda m, X, y: m.fit(X, X[:, 0]), ValueError, "Unknown label type"),
        (lambda m, X, y: m.set_params(n_neighbors=0).predict(X), ValueError, "n_neighbors=0"),
        (lambda m, X, y: CCKNNClassifier().predict(X), NotFittedError, "not fitted yet"),
        (lambda m, X, y: NearestMeanClassifier().fit(X, y), TypeError, "rows in memory"),
        (lambda m, X, y: NBNNClassifier().fit(X, y), TypeError, "rows in memory"),
    ],
)
def test_mistakes_are_told_at_once(data, call, error, message):
    X, y, *_ = data
    rows = da.from_array(X, 30)
    model = CCKNNClassifier(3).fit(rows, y)
    with pytest.raises(error, match=message):
        call(model, rows, y)


def test_missing_numbers_are_refused_in_scikit_learns_words(data):
    X, y, Q, _ = data
    X[7, 1] = np.nan
    model = CCKNNClassifier(3).fit(da.from_array(X, 30), y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict(Q)


def test_it_can_be_pickled_but_not_kept_in_a_model_file(data, tmp_path):
    X, y, Q, _ = data
    da.from_array(X, (40, 3)).to_zarr(tmp_path / "rows.zarr")
    model = CCKNNClassifier(3).fit(da.from_zarr(tmp_path / "rows.zarr"), y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(Q), model.predict(Q))
    for kept in (model, make_pipeline(NearestMeanClassifier(), model)):
        with pytest.raises(
            ccml.persistence.ModelFileError, match="CCKNNClassifier is a dask collection"
        ):
            ccml.save(kept, tmp_path / "model.ccml")


def test_what_to_install_is_named(monkeypatch):
    rows = da.zeros((4, 2))
    monkeypatch.setitem(__import__("sys").modules, "dask.array", None)
    with pytest.raises(ImportError, match=r"pip install 'ccml\[dask\]'"):
        CCKNNClassifier().fit(rows, [0, 0, 1, 1])
