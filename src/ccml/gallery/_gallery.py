"""A lasting collection of items that a model has embedded."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ccml._validation import check_count, check_number
from ccml.classifiers import CCKNNClassifier, Explanation
from ccml.gallery import _parquet
from ccml.gallery._connection import Connection, GalleryError
from ccml.gallery._items import (
    Item,
    as_array,
    check_distinct,
    check_lengths,
    checked_id,
    checked_label,
    checked_payload,
    made_ids,
    plain,
    row_of,
    vectors_of,
)  # fmt: skip
from ccml.gallery._keys import ITEM, VECTOR, expression_of, key_of
from ccml.gallery._model import embed, embedding_of, fingerprint, is_same
from ccml.gallery._rule import ClassSearch
from ccml.gallery._store import MOST_HITS, Store
from ccml.neighbors import mean_distances

_N_NEIGHBORS = 5


class Match(NamedTuple):
    """An item that was found, and its squared distance from the query."""

    id: str | int
    label: str | int
    distance: float
    payload: Any


class Gallery:
    """Items with labels, embedded by a model and kept in Milvus: a file, a server or a cluster.

    Where `CCKNNClassifier` holds its rows in memory, a gallery keeps them in a database, with an id
    and whatever belongs to each. New items and classes come in at any time. Vectors are stored
    embedded, so that the database's Euclidean distance is the learned metric.

    It needs ``pip install 'ccml[gallery]'``.

    Parameters
    ----------
    model : estimator
        A fitted learner, or a pipeline with one. A classifier at its end is left out. A gallery
        that was made with a model that embeds otherwise is refused.
    uri : str or path
        A path that ends with ``.db`` is a gallery of Milvus Lite, which runs in this process; one
        process can have it open. ``http://host:19530`` is a server or a cluster.
    name : str
        What the gallery is called, where there are several at ``uri``.
    token : str
        Of a server that wants one, such as "user:password".
    timeout : float
        Seconds that a server has for an answer.
    index : mapping, optional
        Milvus' index to make for a new gallery, such as ``{"index_type": "HNSW", "M": 16,
        "efConstruction": 200}``. By default it is an exact one.
    search_params : mapping, optional
        What such an index wants to know in a search, such as ``{"ef": 100}``.

    Notes
    -----
    Vectors and distances are float32. With an exact index, the default, neighbours and decisions
    are those of `CCKNNClassifier` but for distances that differ only by rounding.

    Searches may run in several threads at once, but not beside changes of a gallery in a file.

    Examples
    --------
    >>> import ccml, tempfile
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ccml.CCML(n_components=2, random_state=0).fit(X, y)
    >>> folder = tempfile.TemporaryDirectory()
    >>> gallery = ccml.Gallery(model, f"{folder.name}/iris.db")
    >>> ids = gallery.add(X[:149], y[:149], payload=[{"row": row} for row in range(149)])
    >>> gallery.count(), gallery.classes
    (149, array([0, 1, 2]))
    >>> gallery.classify(X[[0, 75, 149]])
    array([0, 1, 2])
    >>> match = gallery.search(X[149:], k=1, filter={"label": 1})[0][0]
    >>> match.label, match.payload
    (1, {'row': 70})
    >>> gallery.close()
    >>> folder.cleanup()
    """

    def __init__(
        self,
        model: Any,
        uri: str | PathLike[str] = "gallery.db",
        *,
        name: str = "gallery",
        token: str = "",
        timeout: float = 30.0,
        index: Mapping[str, Any] | None = None,
        search_params: Mapping[str, Any] | None = None,
    ) -> None:
        if not (isinstance(name, str) and re.fullmatch("[A-Za-z](_?[A-Za-z0-9]){0,100}", name)):
            raise ValueError(
                f"Gallery(name={name!r}) must be made of letters and digits, a letter first, with "
                "single _ between them."
            )
        if index is not None and "index_type" not in index:
            raise ValueError(f"Gallery(index={index!r}) must have an 'index_type', such as 'HNSW'.")
        timeout = check_number("Gallery", "timeout", timeout, above=0)
        self.uri, self.name = fspath(uri), name
        self._embedding = embedding_of(model)
        self._k = model[-1].n_neighbors if _ends_with_ccknn(model) else _N_NEIGHBORS
        self._model: dict[str, Any] = {
            "model": " ".join(repr(self._embedding).split())[:500],
            "fingerprint": fingerprint(self._embedding),
        }
        self._width = max(self._model["fingerprint"]["width"], 2)
        self._connection = Connection(self.uri, token=token, timeout=timeout)
        try:
            self._store = Store(self._connection, name, index, search_params or {})
            self._check_model()
            self._store.prepare(self._width)
        except BaseException:
            self._connection.close()
            raise
        self._known: set[str] = set()  # keys of labels that are in the database for sure
        self._by_class = ClassSearch(self._store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the database; another process can open a file from now on."""
        if self._connection.is_last:
            self._store.put_away()
        self._connection.close()

    @property
    def model(self) -> str:
        """What embeds, in a line."""
        return str(self._model["model"])

    def count(self) -> int:
        """Return how many items there are."""
        return self._store.count()

    @property
    def classes(self) -> NDArray[Any]:
        """The labels of the items, sorted."""
        return as_array(self._classes())

    def add(
        self,
        X: Any,
        y: Iterable[Any],
        ids: Iterable[Any] | None = None,
        payload: Sequence[Any] | None = None,
    ) -> list[str | int]:
        """Embed rows and keep them. When this returns, they are in the database.

        It is interrupted without harm: do it again with the same ids, and nothing is there twice.

        Parameters
        ----------
        X : array-like or DataFrame
            Rows as the model's ``transform`` takes them.
        y : array-like of shape (n_samples,)
            Their labels, text or whole numbers. New ones are new classes.
        ids : sequence of str or int, optional
            An item whose id is there is replaced. By default an id is made from the item itself,
            so that the same rows have the same ids.
        payload : sequence, optional
            What belongs to each item: anything that JSON can hold, up to 64 kB.

        Returns
        -------
        list
            The ids.
        """
        Z = embed(self._embedding, X)
        labels = [checked_label(label) for label in plain(y)]
        payloads = [None] * len(Z) if payload is None else [checked_payload(p) for p in payload]
        check_lengths(len(Z), y=labels, payload=payloads)
        names = (
            made_ids(Z, labels, payloads) if ids is None else [checked_id(i) for i in plain(ids)]
        )
        check_lengths(len(Z), ids=names)
        self._write([Item(*item) for item in zip(names, labels, payloads, strict=True)], Z)
        return names

    def remove(self, ids: Iterable[Any]) -> int:
        """Remove items by their ids; return how many of them there were."""
        keys = [key_of(checked_id(i)) for i in plain(ids)]
        rows = self._store.rows(list(dict.fromkeys(keys)), [ITEM])
        self._store.delete([row["key"] for row in rows])
        self._check_used(Item.of(row[ITEM]).label for row in rows)
        return len(rows)

    def update(
        self,
        ids: Iterable[Any],
        *,
        X: Any = None,
        y: Iterable[Any] | None = None,
        payload: Sequence[Any] | None = None,
    ) -> None:
        """Change items that are there: what isn't given stays as it is.

        Parameters
        ----------
        ids : sequence of str or int
        X : array-like or DataFrame, optional
        y : array-like of shape (n_samples,), optional
        payload : sequence, optional
        """
        names = [checked_id(i) for i in plain(ids)]
        check_distinct(names)
        found = {row["key"]: row for row in self._store.rows([*map(key_of, names)], [ITEM, VECTOR])}
        missing = next((name for name in names if key_of(name) not in found), None)
        if missing is not None:
            raise ValueError(f"Gallery.update: there is no item {missing!r}. Use add for new ones.")
        rows = [found[key_of(name)] for name in names]
        items = [Item.of(row[ITEM]) for row in rows]
        before = [item.label for item in items]
        Z = vectors_of(rows) if X is None else embed(self._embedding, X)
        check_lengths(len(names), X=Z)
        if y is not None:
            labels = [checked_label(label) for label in plain(y)]
            check_lengths(len(names), y=labels)
            items = [item._replace(label=label) for item, label in zip(items, labels, strict=True)]
        if payload is not None:
            payloads = [checked_payload(new) for new in payload]
            check_lengths(len(names), payload=payloads)
            items = [item._replace(payload=new) for item, new in zip(items, payloads, strict=True)]
        self._write(items, Z)
        self._check_used({*before} - {item.label for item in items})

    def search(
        self, X: Any, k: int = 10, *, filter: Mapping[str, Any] | None = None
    ) -> list[list[Match]]:
        """Find the nearest items of each row.

        Parameters
        ----------
        X : array-like or DataFrame
        k : int
            How many, if there are as many.
        filter : mapping, optional
            What items have to have: ``{"label": "cat", "colour": ["red", "blue"]}`` means the label
            "cat", and a payload whose ``colour`` is one of the two, or is a list with one of them.

        Returns
        -------
        list of list of Match
            For each row, the nearest first.
        """
        k = self._check_k(k)
        where = expression_of(filter)
        found = self._store.search(embed(self._embedding, X), k, [ITEM], where)
        return [[_match(hit["entity"][ITEM], hit["distance"]) for hit in hits] for hits in found]

    def classify(self, X: Any, k: int | None = None) -> NDArray[Any]:
        """Return the class of each row, as `CCKNNClassifier` with the sum rule decides.

        Parameters
        ----------
        X : array-like or DataFrame
        k : int, optional
            Items per class that count; by default as many as the model's classifier takes, or 5.
        """
        classes, keys, Z, k = self._question(X, k)
        codes = [*self._by_class.predict(Z, keys, k)]
        return as_array(classes)[np.concatenate([*codes, np.empty(0, dtype=np.intp)])]

    def classify_proba(self, X: Any, k: int | None = None) -> NDArray[np.float64]:
        """Return the probabilities of the classes, in the order of `classes`."""
        _, keys, Z, k = self._question(X, k)
        blocks = [mean_distances(distances) for distances, _ in self._by_class.nearest(Z, keys, k)]
        return softmax(-np.concatenate([*blocks, np.empty((0, len(keys)))]), axis=1)

    def explain(self, X: Any, k: int | None = None) -> Explanation:
        """Return what decisions rest on; its ``rows`` are the ids of items, and None for none."""
        classes, keys, Z, k = self._question(X, k)
        blocks = [*self._by_class.nearest(Z, keys, k, ITEM)]
        nothing = np.empty((0, len(keys), k))
        distances = np.concatenate([nothing, *(distances for distances, _ in blocks)])
        texts = np.concatenate([nothing.astype(object), *(texts for _, texts in blocks)])
        ids = np.array([None if t is None else Item.of(t).id for t in texts.flat] + [None], object)
        return Explanation.ranked(
            as_array(classes), -mean_distances(distances), distances, ids[:-1].reshape(texts.shape)
        )

    def export_parquet(self, path: str | PathLike[str]) -> int:
        """Write all items to a Parquet file, and return how many there are.

        Its columns ``id``, ``label`` and ``payload`` are JSON, so that 1 and "1" stay apart;
        ``vector`` is what the model has made of an item.
        """
        return _parquet.write(path, self._model, self._width, self._store.all_rows())

    def import_parquet(self, path: str | PathLike[str]) -> int:
        """Add the items of a file that `export_parquet` has written; return how many they are.

        The file has to be of the same model. Items whose ids are there are replaced.
        """
        n_items = 0
        for items, Z in _parquet.read(path, self._is_mine):
            self._write(items, Z)
            n_items += len(items)
        return n_items

    def _write(self, items: Sequence[Item], Z: NDArray[np.float32]) -> None:
        check_distinct([item.id for item in items])
        rows = [row_of(item, z) for item, z in zip(items, Z, strict=True)]
        # Labels first: a process that is killed in between leaves a label without items, which
        # does no harm; an item whose class nobody knows would.
        new = {key_of(item.label): item.label for item in items}
        new = {key: label for key, label in new.items() if key not in self._known}
        self._store.upsert_labels(new.values())
        self._known |= new.keys()
        self._store.upsert(rows)

    def _check_used(self, labels: Iterable[Any]) -> None:
        """Mark labels that no item has any more.

        They aren't removed: somebody else may be adding an item with one at this moment. Whether a
        marked label is used is looked up when it matters.
        """
        gone = [label for label in Counter(labels) if not self._store.has_label(label)]
        self._store.upsert_labels(gone, may_be_unused=True)
        self._known -= {key_of(label) for label in gone}

    def _classes(self) -> list[Any]:
        labels = [
            row["label"]
            for row in self._store.labels()
            if not row["may_be_unused"] or self._store.has_label(row["label"])
        ]
        return sorted(labels, key=lambda label: (type(label).__name__, label))

    def _question(
        self, X: Any, k: int | None
    ) -> tuple[list[Any], list[str], NDArray[np.float32], int]:
        """Check what is asked; return the classes and their keys, the embedded rows, and k."""
        k = self._check_k(self._k if k is None else k)
        classes = self._classes()
        if not classes:
            raise GalleryError(f"The gallery {self.uri} has no items yet. Use add.")
        return classes, [*map(key_of, classes)], embed(self._embedding, X), k

    def _check_k(self, k: Any) -> int:
        k = check_count("Gallery", "k", k)
        if k > MOST_HITS:
            raise ValueError(f"Gallery(k={k}) is more than Milvus gives; at most {MOST_HITS}.")
        return k

    def _is_mine(self, model: dict[str, Any]) -> bool:
        return is_same(self._model["fingerprint"], model["fingerprint"])

    def _check_model(self) -> None:
        kept = self._store.model(self._model)
        if not self._is_mine(kept):
            raise GalleryError(
                f"The gallery {self.name!r} at {self.uri} is of another model, {kept['model']}. "
                "Open it with that one, or keep this one's items at another uri or name."
            )


def _ends_with_ccknn(model: Any) -> bool:
    return hasattr(model, "steps") and isinstance(model.steps[-1][1], CCKNNClassifier)


def _match(text: str, distance: float) -> Match:
    item = Item.of(text)
    return Match(item.id, item.label, distance, item.payload)
