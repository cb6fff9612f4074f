"""A gallery in Milvus Lite beside the index in memory, and beside pymilvus without it."""

import json
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import FunctionTransformer

from benchmarks.dask_gallery import mixture
from benchmarks.search import medians
from ccml import CCML, Gallery, datasets
from ccml.gallery._keys import ITEM, LABEL, among, key_of
from ccml.neighbors import ClassIndex

N_TRAIN, N_TIMED, K = 10_000, 300, 5
SIZES, PART = (10_000, 100_000, 1_000_000), 50_000


def run() -> None:
    """Insert MNIST's 60,000 training rows, and search and classify its 10,000 test rows.

    CCML embeds them into 60 dimensions, learned on 10,000 of the rows. The gallery gets what is
    embedded, so that only the database and what is around it are timed. Labels of all test rows are
    compared with those of ClassIndex. pymilvus by itself searches the same collection by calls of
    the same size, and makes the same of the answers: items, or labels by a search for each class.
    """
    X, y, Q = mnist()
    model = FunctionTransformer().fit(X)  # they are embedded
    with TemporaryDirectory() as folder, Gallery(model, Path(folder) / "mnist.db") as gallery:
        start = time.perf_counter()
        gallery.add(X, y, range(len(X)))
        print(f"insertion of {len(X):,} items: {time.perf_counter() - start:.1f} s", flush=True)
        start = time.perf_counter()
        labels = gallery.classify(Q, K)
        seconds = time.perf_counter() - start
        same = int((labels == ClassIndex(X, y).predict(Q, K)).sum())
        print(f"classification of {len(Q):,}: {seconds:.1f} s, {same:,} labels as in memory")
        raw = Raw(gallery, np.unique(y).tolist())
        queries = Q[:N_TIMED]
        for name, ours, theirs in [
            ("search, k=10", lambda: gallery.search(queries, 10), lambda: raw.search(queries, 10)),
            ("classify", lambda: gallery.classify(queries, K), lambda: raw.classify(queries, K)),
        ]:
            times, results = medians(ours, theirs)
            assert list(results[0]) == list(results[1])
            rates = " and ".join(f"{N_TIMED / seconds:,.0f}" for seconds in times)
            overhead = 100 * (times[0] / times[1] - 1)
            print(f"{name}: {rates} queries/s by gallery and pymilvus, {overhead:+.0f} % time")


def grow() -> None:
    """Fill galleries with n x 64 float32 (200 Gaussians, ten classes) and classify 2,000 queries.

    As `dask` does in memory and in partitions; labels are compared with those in memory.
    """
    for n_rows in SIZES:
        draw = mixture()
        (Q, _), (X, y) = draw(2000), draw(n_rows)
        model = FunctionTransformer().fit(X[:1])  # they are embedded
        with TemporaryDirectory() as folder, Gallery(model, Path(folder) / "items.db") as gallery:
            start = time.perf_counter()
            for begin in range(0, n_rows, PART):
                part = slice(begin, begin + PART)
                gallery.add(X[part], y[part], range(n_rows)[part])
            added = time.perf_counter() - start
            start = time.perf_counter()
            labels = gallery.classify(Q, K)
            each = 1e3 * (time.perf_counter() - start) / len(Q)
            size = sum(f.stat().st_size for f in Path(folder).rglob("*") if f.is_file()) / n_rows
        same = int((labels == ClassIndex(X, y).predict(Q, K)).sum())
        print(
            f"{n_rows:9,} items  added in {added:6.1f} s, {size:.0f} bytes each; classify "
            f"{each:.2f} ms a query, {same:,} of {len(Q):,} labels as in memory",
            flush=True,
        )


def mnist() -> tuple[np.ndarray, ...]:
    """Rows, labels and queries, embedded."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # epochs are few on purpose
    data = datasets.load("mnist")
    (X, y), (Q, _) = data.subset("train", "validation"), data.subset("test")
    X, Q = X.astype(np.float32) / 255, Q.astype(np.float32) / 255
    chosen = np.random.default_rng(0).choice(len(X), N_TRAIN, replace=False)
    metric = CCML(60, max_epochs=3, random_state=0).fit(X[chosen], y[chosen])
    return metric.transform(X), y, metric.transform(Q)


class Raw:
    """What one would write with pymilvus for the same results."""

    def __init__(self, gallery: Gallery, classes: list[Any]) -> None:
        self.client = gallery._connection._client
        self.name, self.classes = gallery.name, classes

    def search(self, queries: np.ndarray, k: int) -> list[Any]:
        """Items as tuples, nearest first."""
        return [
            [_item(hit["entity"][ITEM], hit["distance"]) for hit in hits]
            for hits in self._hits(queries, k, [ITEM])
        ]

    def classify(self, queries: np.ndarray, k: int) -> list[Any]:
        """Labels by the sum rule."""
        sums = np.empty((len(queries), len(self.classes)))
        for code, label in enumerate(self.classes):
            where = among(LABEL, [key_of(label)])
            found = self._hits(queries, k, [], where)
            sums[:, code] = [sum(hits.distances) for hits in found]
        return [self.classes[code] for code in sums.argmin(axis=1)]

    def _hits(self, queries: np.ndarray, k: int, fields: list[str], where: str = "") -> Any:
        params = {"metric_type": "L2"}
        return self.client.search(
            self.name, queries, limit=k, filter=where, output_fields=fields, search_params=params
        )


def _item(text: str, distance: float) -> tuple[Any, ...]:
    item = json.loads(text)
    return item["id"], item["label"], distance, item["payload"]
