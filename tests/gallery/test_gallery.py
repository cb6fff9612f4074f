"""A gallery gives what loops over its items give, and keeps what it was given."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import ccml
from ccml import CCKNNClassifier
from ccml.gallery import GalleryError

K = 5


def squared_distances(model, queries, X):
    Z, Q = model.transform(X), model.transform(queries)
    return ((Q[:, None] - Z[None]) ** 2).sum(axis=2)


def test_search_is_that_of_a_loop(opened, model, data):
    X, y, queries = data
    gallery = opened()
    gallery.add(X, y, ids=range(80), payload=[{"row": row} for row in range(80)])
    found = gallery.search(queries, 7)
    for matches, distances in zip(found, squared_distances(model, queries, X), strict=True):
        nearest = np.argsort(distances)[:7]
        assert [match.id for match in matches] == nearest.tolist()
        assert [match.label for match in matches] == y[nearest].tolist()
        assert [match.payload["row"] for match in matches] == nearest.tolist()
        np.testing.assert_allclose(
            [match.distance for match in matches], distances[nearest], rtol=1e-5
        )


def test_filtered_search_is_that_of_a_loop(opened, model, data):
    X, y, queries = data
    gallery = opened()
    payload = [
        {"even": row % 2 == 0, "tags": [row % 3, "all"], "half": row / 2} for row in range(80)
    ]
    gallery.add(X, y, ids=range(80), payload=payload)
    allowed = {
        "label": (["bee", "dog"], np.isin(y, ["bee", "dog"])),
        "even": (True, np.arange(80) % 2 == 0),
        "tags": ([1, "none"], np.arange(80) % 3 == 1),
        "half": (7, np.arange(80) == 14),
    }
    for fields in (["label"], ["even"], ["tags"], ["half"], ["label", "even", "tags"]):
        may = np.all([allowed[field][1] for field in fields], axis=0)
        found = gallery.search(queries, 3, filter={field: allowed[field][0] for field in fields})
        for matches, distances in zip(found, squared_distances(model, queries, X), strict=True):
            nearest = np.argsort(np.where(may, distances, np.inf))[: min(3, may.sum())]
            assert [match.id for match in matches] == nearest.tolist()


@pytest.mark.parametrize("k", [1, K, 12])  # 12 is more than Milvus takes in a group
def test_decisions_are_those_of_the_classifier(opened, model, data, k):
    X, y, queries = data
    gallery = opened()
    gallery.add(X, y, ids=range(80))
    classifier = CCKNNClassifier(k).fit(model.transform(X), y)
    Q = model.transform(queries)
    assert gallery.classes.tolist() == classifier.classes_.tolist()
    assert gallery.classify(queries, k).tolist() == classifier.predict(Q).tolist()
    np.testing.assert_allclose(
        gallery.classify_proba(queries, k), classifier.predict_proba(Q), rtol=1e-4
    )
    ours, theirs = gallery.explain(queries, k), classifier.explain(Q)
    assert ours.classes.tolist() == theirs.classes.tolist()
    assert np.where(ours.rows == None, -1, ours.rows).tolist() == theirs.rows.tolist()  # noqa: E711
    for name in ("scores", "margins", "distances"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-4, atol=1e-5)


def test_equally_near_classes(opened):
    model = PCA(2).fit([[0.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    gallery = opened(model=model)
    gallery.add([[0.0, 0.0], [0.0, 2.0], [9.0, 9.0]], ["b", "a", "c"])
    assert gallery.classify([[0.0, 1.0], [5.0, 1.0]], 1).tolist() == ["a", "a"]


def test_k_is_that_of_the_models_classifier(opened, model, data):
    X, y, queries = data
    whole = make_pipeline(*(step for _, step in model.steps), CCKNNClassifier(3))
    whole.fit(X, y)
    gallery = opened(model=whole)
    gallery.add(X, y)
    assert gallery.classify(queries).tolist() == whole.predict(queries).tolist()


def test_new_classes_are_new_labels(opened, data):
    X, y, _ = data
    gallery = opened()
    gallery.add(X, y)
    far = np.full((3, 6), 50.0)
    assert "eel" not in gallery.classify(far)
    gallery.add(far, ["eel"] * 3)
    assert gallery.classify(far).tolist() == ["eel"] * 3
    assert gallery.classes.tolist() == ["ant", "bee", "cat", "dog", "eel"]


def test_labels_and_ids_keep_their_kind(opened, data):
    X, _, _ = data
    gallery = opened()
    assert gallery.add(X[:3], [1, "1", 2], ids=["1", 1, -(2**70)]) == ["1", 1, -(2**70)]
    assert gallery.classes.tolist() == [1, 2, "1"]
    assert gallery.classify(X[:3], 1).tolist() == [1, "1", 2]
    assert [matches[0].id for matches in gallery.search(X[:3], 1)] == ["1", 1, -(2**70)]
    assert gallery.remove([1]) == 1
    assert gallery.classes.tolist() == [1, 2]


def test_what_was_added_is_there_after_reopening(opened, data):
    X, y, queries = data
    with opened() as gallery:
        gallery.add(X, y, ids=range(80))
        before = gallery.search(queries, 3)
    again = opened()
    assert again.count() == 80
    assert again.search(queries, 3) == before


def test_the_same_rows_are_there_once(opened, data):
    X, y, _ = data
    gallery = opened()
    twins = np.concatenate([X, X[:1]]), [*y, y[0]]  # two rows that are equal are two items
    assert gallery.add(*twins) == gallery.add(*twins)
    assert gallery.count() == 81


def test_removing(opened, data):
    X, y, queries = data
    gallery = opened()
    gallery.add(X, y, ids=range(80))
    assert gallery.remove([60, 61, "60", 1000]) == 2
    assert gallery.count() == 78
    assert gallery.classes.tolist() == ["ant", "bee", "dog"]
    assert gallery.classify_proba(queries).shape == (25, 3)
    gallery.add(X[60:62], y[60:62], ids=[60, 61])
    assert gallery.classes.tolist() == ["ant", "bee", "cat", "dog"]


def test_updating(opened, data):
    X, y, _ = data
    gallery = opened()
    gallery.add(X, y, ids=range(80), payload=range(80))
    gallery.update([60, 61], y=["dog", "eel"])
    assert gallery.classes.tolist() == ["ant", "bee", "dog", "eel"]
    gallery.update([3], X=np.full((1, 6), 50.0))
    gallery.update([3], payload=["far"])
    (match,) = gallery.search(np.full((1, 6), 50.0), 1)[0]
    assert (match.id, match.label, match.payload) == (3, "ant", "far")
    assert match.distance < 1e-6
    assert gallery.count() == 80
    with pytest.raises(ValueError, match=r"no item 'x'. Use add"):
        gallery.update([3, "x"], y=["a", "b"])


def test_export_and_import(opened, data, tmp_path):
    X, y, queries = data
    gallery = opened()
    gallery.add(X, y, ids=[*range(79), "last"], payload=[{"a": [1, None]}] * 80)
    assert gallery.export_parquet(tmp_path / "items.parquet") == 80
    other = opened("other.db")
    assert other.import_parquet(tmp_path / "items.parquet") == 80
    assert other.import_parquet(tmp_path / "items.parquet") == 80
    assert other.count() == 80
    assert other.search(queries, 80) == gallery.search(queries, 80)
    another = opened("another.db", model=PCA(4).fit(X))
    with pytest.raises(GalleryError, match="another model, Pipeline"):
        another.import_parquet(tmp_path / "items.parquet")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(GalleryError, match="isn't what a gallery has exported"):
        another.import_parquet(tmp_path / "text.parquet")


def test_another_model_is_refused(opened, data, model, tmp_path):
    X, y, _ = data
    with opened() as gallery:
        gallery.add(X, y)
    with pytest.raises(GalleryError, match=r"of another model, Pipeline.*Open it with that one"):
        opened(model=PCA(4).fit(X))
    ccml.save(model, tmp_path / "model.ccml")
    assert opened(model=ccml.load(tmp_path / "model.ccml")).count() == 80


def test_two_galleries_in_a_file(opened, data):
    X, y, _ = data
    one, two = opened(name="one"), opened(name="two", model=PCA(2).fit(X))
    one.add(X, y)
    two.add(X[:9], y[:9])
    one.close()
    assert (two.count(), opened(name="one").count()) == (9, 80)


def test_large_galleries_are_searched_exactly(opened, model, monkeypatch):
    """Milvus Lite's index is another one then."""
    from ccml.gallery import _store

    monkeypatch.setattr(_store, "_UNSETTLED_ROWS", 100)
    monkeypatch.setattr(_store, "_LARGE", 300)
    rng = np.random.default_rng(2)
    X, queries = rng.normal(size=(450, 6)), rng.normal(size=(10, 6))
    gallery = opened()
    for begin in range(0, 450, 90):  # some are in segments, some aren't
        gallery.add(X[begin : begin + 90], ["a"] * 90, ids=range(begin, begin + 90))
    assert not gallery._store._is_flat
    distances = squared_distances(model, queries, X)
    for g in (gallery, None):
        if g is None:
            gallery.close()
            g = opened()
        found = [[match.id for match in matches] for matches in g.search(queries, 20)]
        assert found == np.argsort(distances, axis=1)[:, :20].tolist()


def test_embeddings_of_one_number(opened, data):
    X, y, queries = data
    model = PCA(1).fit(X)
    gallery = opened(model=model)
    gallery.add(X, y)
    expected = CCKNNClassifier(K).fit(model.transform(X), y).predict(model.transform(queries))
    assert gallery.classify(queries, K).tolist() == expected.tolist()


def test_no_rows(opened, data):
    X, y, _ = data
    gallery = opened()
    with pytest.raises(GalleryError, match=r"no items yet\. Use add"):
        gallery.classify(X)
    assert gallery.search(X[:2]) == [[], []]
    assert gallery.classes.tolist() == []
    gallery.add(X, y)
    assert gallery.remove([]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": ["a"]}, "2 items, but y of length 1"),
        ({"ids": ["a"]}, "2 items, but ids of length 1"),
        ({"ids": ["a", "a"]}, "the id 'a' more than once"),
        ({"ids": [1.5, 2]}, "ids that are text or whole numbers; got 1.5"),
        ({"y": ["a", None]}, "labels that are text or whole numbers; got None"),
        ({"payload": [{"a": float("nan")}, 1]}, "can't keep the payload .*Use what JSON"),
        ({"payload": [{"a": object()}, 1]}, "can't keep the payload .*Use what JSON"),
        ({"payload": ["x" * 70_000, 1]}, "70,0.. characters .*keep large things elsewhere"),
        ({"X": [[1.0] * 6, [1e300] * 6]}, "finite numbers"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_written(opened, arguments, message):
    gallery = opened()
    with pytest.raises(ValueError, match=message):
        gallery.add(**{"X": np.ones((2, 6)), "y": ["a", "b"], **arguments})
    assert gallery.count() == 0
    assert gallery.classes.tolist() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"uri": "gallery.sqlite"}, "ends with .db"),
        ({"uri": "no/folder/gallery.db"}, "There is no folder"),
        ({"name": "a b"}, "letters and digits"),
        ({"name": "a__labels"}, "letters and digits"),
        ({"timeout": 0}, "timeout"),
        ({"index": {"nlist": 3}}, "index_type"),
        ({"model": CCKNNClassifier(1).fit([[0.0], [1.0]], [0, 1])}, "no step that maps rows"),
    ],
)
def test_options(opened, options, message):
    with pytest.raises(ValueError, match=message):
        opened(**options)


def test_something_else_in_its_place(opened, tmp_path):
    (tmp_path / "gallery.db").write_text("SQLite format 3")
    with pytest.raises(GalleryError, match="can't be opened as a gallery"):
        opened()


def test_a_closed_gallery_says_so(opened):
    gallery = opened()
    gallery.close()
    gallery.close()
    with pytest.raises(GalleryError, match=r"is closed\. Open it again"):
        gallery.count()


@pytest.mark.parametrize("k", [0, 1.5, 20_000])
def test_k(opened, data, k):
    with pytest.raises(ValueError, match="k="):
        opened().search(data[2], k)


def test_one_process_at_a_time(opened, tmp_path):
    opened()
    code = (
        "from sklearn.decomposition import PCA\nfrom ccml import Gallery\n"
        f"Gallery(PCA(2).fit([[0, 1], [1, 0], [2, 2]]), {str(tmp_path / 'gallery.db')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "is open in another process. Close it there" in done.stderr.splitlines()[-1]


def test_without_the_packages():
    code = "import sys; sys.modules['pymilvus'] = None\nimport ccml\nccml.Gallery"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'ccml[gallery]'" in done.stderr.splitlines()[-1]
