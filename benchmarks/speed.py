"""How long it takes to learn a metric, beside scikit-learn's NCA."""

import time

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from ccml import CCML, datasets
from ccml.evaluation import ccknn_error, knn_error

N_PEER = 5000
REPEATS = 3


def run() -> None:
    """CCML on 60,000 rows of MNIST against scikit-learn's NCA (max_iter=50) on 5,000 of them.

    Both start from the same 331 principal components and learn 64 dimensions, in turns.
    """
    data = datasets.load("mnist")
    X, y = data.subset("train", "validation")
    X_test, y_test = data.subset("test")
    pca = PCA(0.99, svd_solver="full").fit(X.astype(np.float32))
    X, X_test = pca.transform(X.astype(np.float32)), pca.transform(X_test.astype(np.float32))
    seconds: dict[str, list[float]] = {"NCA": [], "CCML": []}
    errors: dict[str, list[tuple[float, float]]] = {"NCA": [], "CCML": []}
    for seed in range(REPEATS):
        few = np.random.default_rng(seed).permutation(len(X))[:N_PEER]
        nca = NeighborhoodComponentsAnalysis(64, max_iter=50, random_state=seed)
        seconds["NCA"].append(_seconds(lambda nca=nca, few=few: nca.fit(X[few], y[few])))
        # The gallery is all 60,000 rows for both: the kinder choice for the peer.
        errors["NCA"].append(_errors(nca, X, y, X_test, y_test))
        ours = CCML(64, random_state=seed)
        seconds["CCML"].append(_seconds(lambda ours=ours: ours.fit(X, y)))
        errors["CCML"].append(_errors(ours, X, y, X_test, y_test))
    for name, rows in (("NCA", N_PEER), ("CCML", len(X))):
        knn, ccknn = 100 * np.mean(errors[name], axis=0)
        print(
            f"{name:5} {rows:6,} rows  median {np.median(seconds[name]):6.1f} s  "
            f"test error KNN {knn:.2f} %, CCKNN {ccknn:.2f} %"
        )
    ratio = np.median(np.divide(seconds["CCML"], seconds["NCA"]))
    print(f"CCML takes {ratio:.2f} of NCA's time (median of {REPEATS} runs in turns)")


def _errors(metric, X, y, X_test, y_test) -> tuple[float, float]:
    rows = metric.transform(X), y, metric.transform(X_test), y_test
    return knn_error(*rows), ccknn_error(*rows)


def _seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
