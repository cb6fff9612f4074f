"""Whatever comes back of a grouping search, the neighbours are those of each class."""

import numpy as np
import pytest

from ccml import CCKNNClassifier
from ccml.gallery._store import Store

K = 3


@pytest.fixture
def gallery(opened, data):
    X, y, _ = data
    gallery = opened()
    gallery.add(X, y, ids=range(80))
    return gallery


@pytest.fixture
def calls(monkeypatch):
    """Searches that were made: for how many queries, and of groups or of a class or of neither."""
    made = []
    search = Store.search

    def counted(self, Z, limit, fields, where="", group_size=None):
        made.append((len(Z), "groups" if group_size else "class" if where else "all"))
        return search(self, Z, limit, fields, where, group_size)

    monkeypatch.setattr(Store, "search", counted)
    return made


def nearest(model, data, k=K):
    X, y, queries = data
    classifier = CCKNNClassifier(k).fit(model.transform(X), y)
    return classifier.class_neighbors(model.transform(queries))


def check(gallery, model, data, k=K):
    distances, rows = nearest(model, data, k)
    explanation = gallery.explain(data[2], k)
    order = np.argsort(explanation.classes, axis=1)[:, :, None]
    found = np.take_along_axis(explanation.rows, order, axis=1)
    assert np.where(found == None, -1, found).tolist() == rows.tolist()  # noqa: E711
    np.testing.assert_allclose(
        np.take_along_axis(explanation.distances, order, axis=1), distances, rtol=1e-4
    )


def test_full_groups_are_taken_in_one_search(opened, model, data, calls):
    """Milvus Lite looks at 30 items for three groups of three; of more, groups come back short."""
    X, y, queries = data
    few = np.r_[0:10, 30:40, 62:72]
    gallery = opened()
    gallery.add(X[few], y[few], ids=range(30))
    check(gallery, model, (X[few], y[few], queries))
    assert [(n, kind) for n, kind in calls if n] == [(25, "groups")]


def shortened(hits, rng):
    """Some groups as they may come back: without their ends, or not at all."""
    kept = [hit for hit in hits if rng.random() < 0.8]
    del hits[:]
    hits.extend(kept)
    return hits


@pytest.mark.parametrize("seed", range(3))
def test_short_groups(gallery, model, data, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    search = Store.search

    def short(self, Z, limit, fields, where="", group_size=None):
        for hits in search(self, Z, limit, fields, where, group_size):
            yield shortened(hits, rng) if group_size else hits

    monkeypatch.setattr(Store, "search", short)
    check(gallery, model, data)


def test_groups_that_never_come_are_asked_for_once(gallery, model, data, monkeypatch):
    asked = []
    search = Store.search

    def none(self, Z, limit, fields, where="", group_size=None):
        if group_size:
            asked.append(len(Z))
            return ([] for _ in Z)
        return search(self, Z, limit, fields, where, group_size)

    monkeypatch.setattr(Store, "search", none)
    check(gallery, model, data)
    check(gallery, model, data)
    assert asked == [25]


def test_most_queries_are_decided_by_the_nearest_items(opened, model, calls):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 60
    X = 20 * rng.normal(size=(60, 6))[y] + rng.normal(size=(300, 6))
    gallery = opened()
    gallery.add(X, y)
    calls.clear()
    assert gallery.classify(X, K).tolist() == y.tolist()
    assert calls[0] == (300, "all")
    assert sum(n for n, kind in calls if kind == "class") < 100  # of 300 x 60
