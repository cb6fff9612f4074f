"""How fast neighbours are found, beside scikit-learn and faiss."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier

from ccml import CCML, datasets
from ccml.neighbors import ClassIndex
from ccml.objectives import _local as local_objective

REPEATS = 5
K = 5


def run() -> None:
    """Neighbours of 10,000 MNIST queries among 60,000 rows; many classes; the search in training.

    All in one process on the same arrays, in turns; medians of 5. The peers: scikit-learn's
    KNeighborsClassifier, faiss's flat index, and one faiss flat index per class, which is how one
    would do class-conditional search with it. Labels and neighbours are compared, too.
    """
    X, y, Q, pixels, pixel_queries = mnist()
    side_by_side("MNIST, learned metric, 60 dimensions", X, Q, y)
    side_by_side("MNIST pixels, 784 dimensions", pixels, pixel_queries, y)
    noise = np.random.default_rng(0).random((70_000, 200), dtype=np.float32)
    side_by_side("uniform noise, 200 dimensions", noise[:60_000], noise[60_000:], y)
    many_classes()
    epoch_share(PCA(0.99, svd_solver="full").fit_transform(pixels), y)


def mnist() -> tuple[np.ndarray, ...]:
    """Rows, labels and queries in a learned metric, and rows and queries in pixels."""
    warnings.simplefilter("ignore", ConvergenceWarning)  # epochs are few on purpose
    data = datasets.load("mnist")
    (X, y), (Q, _) = data.subset("train", "validation"), data.subset("test")
    X, Q = X.astype(np.float32) / 255, Q.astype(np.float32) / 255
    pca = PCA(0.99, svd_solver="full").fit(X)
    metric = CCML(60, max_epochs=20, random_state=0).fit(pca.transform(X), y)
    embedded = [metric.transform(pca.transform(Z)).astype(np.float32) for Z in (X, Q)]
    return embedded[0], y, embedded[1], X, Q


def medians(*tasks: Callable[[], Any]) -> tuple[list[float], list[Any]]:
    """Seconds and results of tasks, run in turns."""
    times = np.empty((REPEATS, len(tasks)))
    for repeat in range(REPEATS):
        results = []
        for number, task in enumerate(tasks):
            start = time.perf_counter()
            results.append(task())
            times[repeat, number] = time.perf_counter() - start
    return np.median(times, axis=0).tolist(), results


def flat(X: np.ndarray) -> Any:
    import faiss  # pip install 'ccml[bench]'

    index = faiss.IndexFlatL2(X.shape[1])
    index.add(np.ascontiguousarray(X))
    return index


def side_by_side(title: str, X: np.ndarray, Q: np.ndarray, y: np.ndarray) -> None:
    start = time.perf_counter()
    index = ClassIndex(X, y)
    print(f"\n{title}: {len(Q):,} queries, {len(X):,} rows, index built in "
          f"{time.perf_counter() - start:.2f} s")  # fmt: skip
    classes = np.unique(y)
    everything, rows_of = flat(X), [np.flatnonzero(y == label) for label in classes]
    per_class = [flat(X[rows]) for rows in rows_of]
    knn = KNeighborsClassifier(K, n_jobs=-1).fit(X, y)
    index.predict(Q[:100], K)  # compiled, cached and paged in, as the peers' libraries are

    seconds, results = medians(
        lambda: index.predict(Q, K),
        lambda: index.nearest(Q, K),
        lambda: index.search(Q, K),
        lambda: knn.predict(Q),
        lambda: everything.search(Q, K),
        lambda: [part.search(Q, K) for part in per_class],
    )
    predict, nearest, search, sklearn, faiss_flat, faiss_per_class = seconds
    labels, found, lists, _, (_, flat_rows), parts = results
    means = np.stack([distances.mean(axis=1) for distances, _ in parts], axis=1)
    theirs = np.stack([rows[i] for rows, (_, i) in zip(rows_of, parts, strict=True)], axis=1)
    fastest = min(sklearn, faiss_flat, faiss_per_class)
    print(f"  scikit-learn {sklearn:.3f} s, faiss {faiss_flat:.3f} s, "
          f"faiss per class {faiss_per_class:.3f} s")  # fmt: skip
    print(f"  predict {predict:.3f} s: {fastest / predict:.1f} times the fastest peer; "
          f"{np.sum(labels != classes[means.argmin(axis=1)])} labels differ")  # fmt: skip
    print(f"  nearest {nearest:.3f} s: {faiss_flat / nearest:.1f} times faiss; "
          f"{differences(X, Q, found, flat_rows)}")  # fmt: skip
    print(f"  search  {search:.3f} s: {faiss_per_class / search:.1f} times faiss per class; "
          f"{differences(X, Q, lists, theirs)}", flush=True)  # fmt: skip


def differences(X: np.ndarray, Q: np.ndarray, ours: Any, theirs: np.ndarray) -> str:
    """Count neighbours that differ, and lists of the peer's that are better in float64."""
    queries = np.flatnonzero((ours.indices != theirs).reshape(len(Q), -1).any(axis=1))
    better = 0
    for i in queries:
        squared = np.square(Q[i].astype(np.float64) - X[theirs[i]]).sum(axis=-1)
        better += int((np.sort(squared, axis=-1) < ours.distances[i] * (1 - 1e-12)).sum())
    n_other = int(np.sum(ours.indices != theirs))
    return f"{n_other} of {theirs.size:,} neighbours differ, {better} of theirs are nearer"


def many_classes() -> None:
    """10,000 classes of 20 rows: prediction against a loop over the classes."""
    rng = np.random.default_rng(0)
    spectrum = (1 / np.sqrt(np.arange(1, 65))).astype(np.float32)
    y = np.repeat(np.arange(10_000), 20)
    centres = 2 * rng.normal(size=(10_000, 64)) * spectrum
    X = (centres[y] + rng.normal(size=(len(y), 64)) * spectrum).astype(np.float32)
    Q = (X[rng.integers(len(X), size=1000)] + 0.3 * rng.normal(size=(1000, 64)) * spectrum).astype(
        np.float32
    )
    index, per_class = ClassIndex(X, y), [flat(rows) for rows in np.split(X, 10_000)]

    def loop() -> Any:
        return np.stack([part.search(Q, K)[0].mean(axis=1) for part in per_class], axis=1)

    (ours, lists, theirs), (labels, _, means) = medians(
        lambda: index.predict(Q, K), lambda: index.class_distances(Q, K), loop
    )
    print(f"\n10,000 classes of 20 rows, 1,000 queries: predict {ours:.3f} s, all class distances "
          f"{lists:.3f} s, a loop over faiss indexes {theirs:.3f} s: {theirs / ours:.0f} and "
          f"{theirs / lists:.1f} times; {np.sum(labels != means.argmin(axis=1))} labels differ",
          flush=True)  # fmt: skip


def epoch_share(X: np.ndarray, y: np.ndarray) -> None:
    """Share of a training epoch that the search takes, with batches of 5,000."""
    searching, marks = [0.0], []
    search = local_objective.search_pool

    def timed(*args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        found = search(*args, **options)
        searching[0] += time.perf_counter() - start
        return found

    local_objective.search_pool = timed
    metric = CCML(
        60,
        batch_size=5000,
        max_epochs=REPEATS + 1,
        random_state=0,
        callbacks=[lambda *_: marks.append((time.perf_counter(), searching[0]))],
    )
    metric.fit(X, y)
    local_objective.search_pool = search
    epochs, shares = np.diff(np.array(marks), axis=0).T
    print(f"\nTraining with batches of 5,000: an epoch takes {np.median(epochs):.2f} s, of which "
          f"the search has {np.median(shares / epochs):.0%}", flush=True)  # fmt: skip
