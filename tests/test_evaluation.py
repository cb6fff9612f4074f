"""Error rates and retrieval figures against hand-worked cases and scikit-learn."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import ndcg_score
from sklearn.neighbors import KNeighborsClassifier

from ccml import CCKNNClassifier, evaluation

RETRIEVAL = {
    "ndcg": lambda *data: evaluation.ndcg(*data, k=7),
    "precision": lambda *data: evaluation.precision(*data, k=7),
    "r_precision": evaluation.r_precision,
    "map_at_r": evaluation.map_at_r,
}


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y, y_query = rng.integers(4, size=80), rng.integers(4, size=30)
    X, Q = rng.normal(size=(80, 3)), rng.normal(size=(30, 3))
    X[:, 0] += y
    Q[:, 0] += y_query
    return X, y, Q, y_query


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_knn_error_is_scikit_learns(data, k):
    X, y, Q, y_query = data
    model = KNeighborsClassifier(k).fit(X, y)
    assert evaluation.knn_error(*data, n_neighbors=k) == pytest.approx(1 - model.score(Q, y_query))


@pytest.mark.parametrize("k", [1, 3, 50])
def test_ccknn_error_is_the_classifiers(data, k):
    X, y, Q, y_query = data
    model = CCKNNClassifier(k).fit(X, y)
    assert evaluation.ccknn_error(*data, n_neighbors=k) == pytest.approx(
        1 - model.score(Q, y_query)
    )


def test_ndcg_by_hand():
    """Ranks 1 to 4 are relevant, not, not, relevant; the gallery has three relevant rows."""
    gallery, labels = [[1.0], [2.0], [3.0], [4.0], [9.0]], [1, 0, 0, 1, 1]
    dcg = 1 / np.log2(2) + 1 / np.log2(5)
    ideal = 1 / np.log2(2) + 1 / np.log2(3) + 1 / np.log2(4)
    assert evaluation.ndcg(gallery, labels, [[0.0]], [1], k=4) == pytest.approx(dcg / ideal)
    # At k = 2 the ideal has only two places.
    ideal = 1 / np.log2(2) + 1 / np.log2(3)
    assert evaluation.ndcg(gallery, labels, [[0.0]], [1], k=2) == pytest.approx(1 / ideal)


@pytest.mark.parametrize("k", [1, 5, 80])
def test_ndcg_is_scikit_learns(data, k):
    X, y, Q, y_query = data
    relevance = y_query[:, None] == y
    closeness = -((Q[:, None] - X) ** 2).sum(-1)
    assert evaluation.ndcg(*data, k=k) == pytest.approx(ndcg_score(relevance, closeness, k=k))


def test_the_others_against_loops(data):
    X, y, Q, y_query = data
    precisions, r_precisions, average_precisions = [], [], []
    for q, label in zip(Q, y_query, strict=True):
        order = np.argsort(((X - q) ** 2).sum(-1))
        relevant = [bool(y[row] == label) for row in order]
        r = sum(relevant)
        precisions.append(sum(relevant[:7]) / 7)
        r_precisions.append(sum(relevant[:r]) / r)
        average_precisions.append(
            sum(sum(relevant[: i + 1]) / (i + 1) for i in range(r) if relevant[i]) / r
        )
    assert evaluation.precision(*data, k=7) == pytest.approx(np.mean(precisions))
    assert evaluation.r_precision(*data) == pytest.approx(np.mean(r_precisions))
    assert evaluation.map_at_r(*data) == pytest.approx(np.mean(average_precisions))


@pytest.mark.parametrize("name", RETRIEVAL)
def test_leave_one_out_is_one_query_against_the_others(data, name):
    X, y, _, _ = data
    one_by_one = [
        RETRIEVAL[name](np.delete(X, i, 0), np.delete(y, i), X[i : i + 1], y[i : i + 1])
        for i in range(len(X))
    ]
    assert RETRIEVAL[name](X, y) == pytest.approx(np.mean(one_by_one))


@pytest.mark.parametrize("name", RETRIEVAL)
def test_perfect_and_hopeless(name):
    X, y = np.array([[0.0], [0.1], [5.0], [5.1]]).repeat(5, 0), np.array([0, 0, 1, 1]).repeat(5)
    Q = np.array([[0.0], [5.0]])
    assert RETRIEVAL[name](X, y, Q, [0, 1]) == pytest.approx(1)
    assert RETRIEVAL[name](X, y, Q, [1, 0]) == pytest.approx(0)


@pytest.mark.parametrize("name", RETRIEVAL)
def test_a_class_the_gallery_lacks_scores_nothing(name):
    X, y = np.arange(20.0)[:, None], np.repeat(["a", "c"], 10)
    assert RETRIEVAL[name](X, y, [[0.0]], ["b"]) == 0
    assert evaluation.knn_error(X, y, [[0.0]], ["b"]) == 1
    assert evaluation.ccknn_error(X, y, [[0.0]], ["b"]) == 1


@pytest.mark.parametrize("name", RETRIEVAL)
def test_invariance(data, name):
    X, y, Q, y_query = data
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    order = rng.permutation(len(y))
    names = np.array(["d", "b", "a", "c"])
    expected = RETRIEVAL[name](*data)
    assert RETRIEVAL[name](X @ rotation + 5, y, Q @ rotation + 5, y_query) == pytest.approx(
        expected
    )
    assert RETRIEVAL[name](X[order], y[order], Q, y_query) == pytest.approx(expected)
    assert RETRIEVAL[name](X, names[y], Q, names[y_query]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[0.0], [1.0]], [0, 1], [[0.0]]), {}, "queries and query_labels, or neither"),
        (([[0.0], [1.0]], [0, 1], [[0.0]], [0, 1]), {}, "Each query needs a label"),
        (([[0.0], [1.0]], [0, 1], np.empty((0, 1)), []), {}, "there has to be one"),
        (([[0.0], [1.0]], [0, 1]), {"k": 2}, "more than the 1 rows"),
        (([[0.0], [1.0]], [0, 1], [[0.0]], [0]), {"k": 0}, "k=0"),
        (([[0.0], [1.0]], [0, 1], [[0.0]], [0]), {"k": "3"}, "k='3'"),
        (([[0.0], [np.nan]], [0, 1], [[0.0]], [0]), {"k": 1}, "NaN"),
        (([[0.0], [1.0]], [0, 1], [[0.0]], [[0]]), {"k": 1}, r"labels of shape \(1, 1\)"),
        (([[0.0], [1.0]], [0, 1], [[0.0]], ["0"]), {"k": 1}, "Use one type of label"),
    ],
)
def test_bad_input(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        evaluation.ndcg(*arguments, **options)


FIGURES = [evaluation.knn_error, evaluation.ccknn_error, *RETRIEVAL.values()]


@pytest.mark.parametrize("figure", FIGURES, ids=["knn_error", "ccknn_error", *RETRIEVAL])
def test_dask_collections_give_the_same_but_lazily(data, figure):
    X, y, Q, y_query = data
    X[3] = X[70]
    y_query[4] = 9  # a class that the gallery doesn't have
    table, query_table = (
        dd.from_pandas(pd.DataFrame(rows, columns=list("abc")).assign(label=labels), npartitions=3)
        for rows, labels in ((X, y), (Q, y_query))
    )
    galleries = [
        (X, y),
        (da.from_array(X, (25, 2)), y),
        (da.from_array(X, (25, 2)), da.from_array(y, 30)),
        (table[list("abc")], table["label"]),
    ]
    queries = [
        (Q, y_query),
        (da.from_array(Q, (7, 3)), y_query),
        (da.from_array(Q, (7, 3)), da.from_array(y_query, 9)),
        (query_table[list("abc")], query_table["label"]),
    ]
    expected = figure(X, y, Q, y_query)
    for gallery in galleries:
        for asked in queries:
            if gallery is galleries[0] and asked is queries[0]:
                continue
            lazy = figure(*gallery, *asked)
            assert isinstance(lazy, da.Array)
            assert lazy.compute(scheduler="synchronous") == pytest.approx(expected)
    for gallery in galleries[1:]:
        lazy = figure(*gallery)  # leave-one-out
        assert lazy.compute(scheduler="synchronous") == pytest.approx(figure(X, y))


def test_a_lazy_figure_computes_no_rows(data):
    X, y, Q, y_query = data

    def fails(block):
        raise AssertionError("Computed.")

    rows = da.from_array(X, (25, 3)).map_blocks(fails, meta=X[:0])
    queries = da.from_array(Q, (25, 3)).map_blocks(fails, meta=Q[:0])
    for figure in FIGURES:
        for lazy in (figure(rows, y, queries, y_query), figure(X, y, queries, y_query)):
            with pytest.raises(AssertionError, match="Computed"):
                lazy.compute(scheduler="synchronous")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.arange(29), r"queries of shape \(30, 3\) and labels of shape \(29,\)"),
        (da.arange(30, chunks=10)[da.arange(30, chunks=10) > 3], "call to_dask_array"),
    ],
)
def test_lazy_queries_without_their_labels_are_refused(data, labels, message):
    X, y, Q, _ = data
    with pytest.raises(ValueError, match=message):
        evaluation.ccknn_error(X, y, da.from_array(Q, (7, 3)), labels)


def test_lazy_labels_of_another_kind_are_refused_when_they_are_met(data):
    X, y, Q, y_query = data
    lazy = evaluation.ccknn_error(X, y, da.from_array(Q, (7, 3)), y_query.astype(str))
    with pytest.raises(ValueError, match="Use one type of label"):
        lazy.compute(scheduler="synchronous")
