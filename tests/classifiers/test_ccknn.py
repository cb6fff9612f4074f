"""The decision rules against loops written from the paper."""

from math import log

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_blobs

from ccml import CCKNNClassifier

UNIFORM = np.full(4, 0.25)


@pytest.fixture
def data():
    X, y = make_blobs([30, 20, 10, 3], 3, cluster_std=4.0, random_state=0)
    return X[:50], y[:50], X[50:], y[50:]


def nearest_of_class(q, X, y, c, k):
    """Squared distances, ascending."""
    return sorted(float(((q - x) ** 2).sum()) for x, label in zip(X, y, strict=True) if label == c)[
        :k
    ]


def sum_rule(q, X, y, k):
    """Eq. `ccknn`; the mean takes the place of the sum, for classes with fewer than k rows."""
    return {c: -np.mean(nearest_of_class(q, X, y, c, k)) for c in np.unique(y)}


def gaussian_rule(q, X, y, k, priors=None):
    """Algorithm 2: log N(D_ij | 0, sigma) summed over j, plus the log of the class's prior."""
    squared = {c: nearest_of_class(q, X, y, c, k) for c in np.unique(y)}
    distances = np.sqrt([d for nearest in squared.values() for d in nearest])
    variance = np.mean((distances - distances.mean()) ** 2)
    scores = {}
    for number, (c, nearest) in enumerate(squared.items()):
        prior = np.mean(y == c) if priors is None else priors[number]
        # a class with fewer than the others is judged by its mean, as if it had as many
        n_draws = max(map(len, squared.values()))
        scores[c] = n_draws * np.mean([-d / (2 * variance) for d in nearest]) + log(prior)
    return scores


@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_sum_rule_equals_the_loop(data, k):
    X, y, Q, _ = data
    model = CCKNNClassifier(k).fit(X, y)
    expected = [sum_rule(q, X, y, k) for q in Q]
    np.testing.assert_array_equal(model.predict(Q), [max(s, key=s.get) for s in expected])
    np.testing.assert_allclose(
        model.decision_function(Q), [list(s.values()) for s in expected], rtol=1e-10
    )


@pytest.mark.parametrize("k", [1, 2, 5, 40])
@pytest.mark.parametrize("priors", [None, [0.1, 0.2, 0.3, 0.4]])
def test_gaussian_rule_equals_the_loop(data, k, priors):
    X, y, Q, _ = data
    model = CCKNNClassifier(k, rule="gaussian", priors=priors).fit(X, y)
    expected = [gaussian_rule(q, X, y, k, priors) for q in Q]
    np.testing.assert_array_equal(model.predict(Q), [max(s, key=s.get) for s in expected])
    np.testing.assert_allclose(
        model.decision_function(Q), [list(s.values()) for s in expected], rtol=1e-9
    )


@pytest.mark.parametrize("priors", ["uniform", UNIFORM])
def test_gaussian_rule_with_equal_priors_decides_as_the_sum_rule(data, priors):
    X, y, Q, _ = data
    gaussian = CCKNNClassifier(5, rule="gaussian", priors=priors).fit(X, y)
    np.testing.assert_array_equal(gaussian.predict(Q), CCKNNClassifier(5).fit(X, y).predict(Q))


def test_probabilities_of_the_sum_rule_are_those_of_the_objective():
    """Eq. `org_cne` on a line: class means 1 and 4 give weights e^-1 and e^-4."""
    model = CCKNNClassifier(1).fit([[1.0], [-2.0]], ["near", "far"])
    expected = np.exp([-4.0, -1.0]) / np.exp([-4.0, -1.0]).sum()
    np.testing.assert_allclose(model.predict_proba([[0.0]]), [expected])


@pytest.mark.parametrize("rule", ["sum", "gaussian"])
@pytest.mark.parametrize("scale", [1e-8, 1, 1e8])
def test_probabilities_sum_to_one_and_agree_with_predict(data, rule, scale):
    X, y, Q, _ = data
    model = CCKNNClassifier(3, rule=rule).fit(X * scale, y)
    probabilities = model.predict_proba(Q * scale)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    best = probabilities.max(axis=1)
    chosen = probabilities[
        np.arange(len(Q)), np.searchsorted(model.classes_, model.predict(Q * scale))
    ]
    np.testing.assert_array_equal(chosen, best)


def test_binary_decision_function_is_one_number(data):
    X, y, Q, _ = data
    model = CCKNNClassifier(3).fit(X, y > 0)
    np.testing.assert_array_equal(model.predict(Q), model.decision_function(Q) > 0)


def test_a_frequent_class_has_no_more_votes():
    """KNN with k = 3 says "many"; CCKNN looks at the nearest of each class."""
    X, y = [[0.0], [2.0], [2.1], [2.2]], ["one", "many", "many", "many"]
    assert CCKNNClassifier(3).fit(X, y).predict([[0.9]]) == ["one"]


def test_class_neighbors_explain_the_decision(data):
    X, y, Q, _ = data
    model = CCKNNClassifier(4).fit(X, y)
    distances, rows = model.class_neighbors(Q)
    assert distances.shape == rows.shape == (len(Q), 4, 4)
    for i, q in enumerate(Q):
        for c in range(4):
            exists = rows[i, c] >= 0
            assert (y[rows[i, c, exists]] == c).all()
            np.testing.assert_allclose(
                distances[i, c, exists], nearest_of_class(q, X, y, c, 4), rtol=1e-9
            )
            assert np.isinf(distances[i, c, ~exists]).all()
    np.testing.assert_allclose(
        np.where(np.isfinite(distances), distances, 0).sum(-1) / np.isfinite(distances).sum(-1),
        -model.decision_function(Q),
    )
    assert model.class_neighbors(Q, 2)[0].shape == (len(Q), 4, 2)


@pytest.mark.parametrize("rule", ["sum", "gaussian"])
def test_adding_rows_equals_fitting_all(data, rule):
    X, y, Q, _ = data
    order = np.argsort(y, kind="stable")  # the classes come one after another
    X, y = X[order], np.array(["a", "b", "c", "the last"])[y[order]]
    grown = CCKNNClassifier(3, rule=rule)
    for start in range(0, len(X), 7):
        grown.partial_fit(X[start : start + 7], y[start : start + 7])
    whole = CCKNNClassifier(3, rule=rule).fit(X, y)
    np.testing.assert_array_equal(grown.classes_, whole.classes_)
    np.testing.assert_allclose(grown.predict_proba(Q), whole.predict_proba(Q), rtol=1e-9)
    np.testing.assert_array_equal(grown.class_neighbors(Q)[1], whole.class_neighbors(Q)[1])


def test_fit_forgets_what_was_there(data):
    X, y, Q, _ = data
    again = CCKNNClassifier(3).fit(X + 100, y).fit(X, y)
    np.testing.assert_array_equal(again.predict(Q), CCKNNClassifier(3).fit(X, y).predict(Q))


@pytest.mark.parametrize("rule", ["sum", "gaussian"])
def test_invariance(data, rule):
    X, y, Q, _ = data
    rng = np.random.default_rng(0)
    expected = CCKNNClassifier(3, rule=rule).fit(X, y).predict_proba(Q)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    order = rng.permutation(len(y))
    names = np.array(["a", "b", "c", "d"])
    for X_, y_, Q_ in [
        (X @ rotation, y, Q @ rotation),
        (X + 7, y, Q + 7),
        (X[order], y[order], Q),
        (X, names[y], Q),
    ]:
        found = CCKNNClassifier(3, rule=rule).fit(X_, y_).predict_proba(Q_)
        np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_one_query_gives_what_it_gives_among_many(data):
    """The Gaussian rule's variance is the query's own, not that of the batch."""
    X, y, Q, _ = data
    model = CCKNNClassifier(3, rule="gaussian").fit(X, y)
    one_by_one = np.concatenate([model.predict_proba(Q[i : i + 1]) for i in range(len(Q))])
    np.testing.assert_allclose(model.predict_proba(Q), one_by_one)


def test_good_on_wine():
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    assert CCKNNClassifier().fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.93


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, r"n_neighbors=0\) must be a whole number of at least 1"),
        ({"n_neighbors": -3}, "n_neighbors=-3"),
        ({"n_neighbors": 2.5}, "n_neighbors=2.5"),
        ({"rule": "gausian"}, "did you mean 'gaussian'"),
        ({"rule": "gaussian", "priors": "unifrom"}, "did you mean 'uniform'"),
        ({"rule": "gaussian", "priors": [0.5, 0.5]}, "4 positive numbers that sum to 1"),
        ({"rule": "gaussian", "priors": [0.5, 0.5, 0.5, 0.5]}, "sum to 1"),
        ({"rule": "gaussian", "priors": [0.5, 0.5, 0.0, 0.0]}, "positive"),
        ({"rule": "gaussian", "priors": [np.nan] * 4}, "positive"),
        ({"rule": "gaussian", "priors": {"a": 1.0}}, "4 positive numbers"),
        ({"priors": UNIFORM}, "needs rule='gaussian'"),
    ],
)
def test_bad_parameters(data, parameters, message):
    X, y, _, _ = data
    with pytest.raises(ValueError, match=message):
        CCKNNClassifier(**parameters).fit(X, y)


def test_labels_of_another_type_are_refused(data):
    X, y, _, _ = data
    model = CCKNNClassifier().fit(X, y)
    with pytest.raises(ValueError, match="Use one type of label"):
        model.partial_fit(X[:1], ["a"])
    assert model.index_.n_rows == len(X)


def test_a_failed_fit_leaves_nothing_behind(data):
    X, y, _, _ = data
    model = CCKNNClassifier(0)
    with pytest.raises(ValueError, match="n_neighbors"):
        model.fit(X, y)
    assert model.set_params(n_neighbors=1).partial_fit(X, y).index_.n_rows == len(X)


def test_given_priors_refuse_a_new_class_before_it_is_added(data):
    X, y, Q, _ = data
    model = CCKNNClassifier(rule="gaussian", priors=UNIFORM).fit(X, y)
    before = model.predict_proba(Q)
    with pytest.raises(ValueError, match="5 positive numbers"):
        model.partial_fit(X[:1], [17])
    np.testing.assert_array_equal(model.predict_proba(Q), before)


def test_bad_rows_leave_the_model_as_it_was(data):
    X, y, Q, _ = data
    model = CCKNNClassifier().fit(X, y)
    before = model.predict_proba(Q)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit([[0.0, np.nan, 0.0]], [0])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit([[0.0]], [0])
    np.testing.assert_array_equal(model.predict_proba(Q), before)


class TestExplain:
    @pytest.mark.parametrize("rule", ["sum", "gaussian"])
    def test_it_says_what_the_other_methods_say(self, rule):
        X, y = make_blobs([12, 30, 3], 4, cluster_std=4, random_state=0)
        queries = make_blobs(50, 4, cluster_std=8, random_state=1)[0]
        model = CCKNNClassifier(4, rule=rule).fit(X, y)
        explanation = model.explain(queries)
        np.testing.assert_array_equal(explanation.classes[:, 0], model.predict(queries))
        scores = model.decision_function(queries)
        np.testing.assert_array_equal(explanation.scores, -np.sort(-scores, axis=1))
        np.testing.assert_allclose(
            explanation.margins, explanation.scores[:, 0] - explanation.scores[:, 1]
        )
        distances, rows = model.class_neighbors(queries)
        for q, order in enumerate(explanation.classes):
            np.testing.assert_array_equal(explanation.rows[q], rows[q][order])
            np.testing.assert_array_equal(explanation.distances[q], distances[q][order])
        assert (explanation.rows[:, :, 3] == -1).any()  # a class of three rows

    def test_a_tie_is_a_margin_of_0(self):
        model = CCKNNClassifier(1).fit([[0.0], [2.0]], ["left", "right"])
        explanation = model.explain([[1.0]])
        assert explanation.margins.tolist() == [0]
        assert explanation.classes.tolist() == [["left", "right"]]

    def test_one_class(self):
        model = CCKNNClassifier(1).partial_fit([[0.0], [2.0]], ["only", "only"])
        assert model.explain([[1.0]]).margins.tolist() == [0]

    def test_more_rows_than_decide(self):
        model = CCKNNClassifier(1).fit([[0.0], [1.0], [5.0]], [0, 0, 1])
        assert model.explain([[0.2]], k=2).rows.tolist() == [[[0, 1], [2, -1]]]


class TestUnknown:
    def by_loops(self, X, y, queries, k, quantile):
        def distance(query, rows, labels):
            means = []
            for label in np.unique(labels):
                squares = np.sort(((rows[labels == label] - query) ** 2).sum(axis=1))[:k]
                means.append(squares.mean())
            return min(means)

        others = [np.delete(np.arange(len(X)), i) for i in range(len(X))]
        known = [distance(X[i], X[rest], y[rest]) for i, rest in enumerate(others)]
        threshold = np.quantile(known, quantile)
        return np.array([distance(query, X, y) > threshold for query in queries])

    @pytest.mark.parametrize("rule", ["sum", "gaussian"])
    @pytest.mark.parametrize("quantile", [0, 0.5, 0.9, 1])
    def test_against_loops(self, rule, quantile):
        X, y = make_blobs([12, 30, 1], 3, random_state=0)
        queries = np.concatenate([X + 0.3, make_blobs(40, 3, cluster_std=9, random_state=1)[0]])
        found = CCKNNClassifier(3, rule=rule).fit(X, y).is_unknown(queries, quantile)
        np.testing.assert_array_equal(found, self.by_loops(X, y, queries, 3, quantile))

    def test_about_that_fraction_of_like_rows_is_known(self):
        X, y = make_blobs(4000, 2, random_state=0)
        model = CCKNNClassifier().fit(X[:2000], y[:2000])
        assert model.is_unknown(X[2000:], 0.9).mean() == pytest.approx(0.1, abs=0.03)

    @pytest.mark.parametrize("quantile", [-0.1, 1.1, "most", None, float("nan")])
    def test_refused(self, quantile):
        model = CCKNNClassifier().fit([[0.0], [1.0]], [0, 1])
        with pytest.raises(ValueError, match="quantile"):
            model.is_unknown([[0.0]], quantile)

    def test_a_single_row_has_nothing_to_compare_with(self):
        model = CCKNNClassifier(1).partial_fit([[0.0]], ["only"])
        with pytest.raises(ValueError, match="at least two rows"):
            model.is_unknown([[1.0]])
