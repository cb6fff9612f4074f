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
    errors: dict[str, list[float]] = {"NCA": [], "CCML": []}
    for seed in range(REPEATS):
        few = np.random.default_rng(seed).permutation(len(X))[:N_PEER]
        nca = NeighborhoodComponentsAnalysis(64, max_iter=50, random_state=seed)
        seconds["NCA"].append(_seconds(lambda nca=nca, few=few: nca.fit(X[few], y[few])))
        # The gallery is all 60,000 rows for both: the kinder choice for the peer.
        errors["NCA"].append(knn_error(nca.transform(X), y, nca.transform(X_test), y_test))
        ours = CCML(64, random_state=seed)
        seconds["CCML"].append(_seconds(lambda ours=ours: ours.fit(X, y)))
        errors["CCML"].append(ccknn_error(ours.transform(X), y, ours.transform(X_test), y_test))
    for name, rows in (("NCA", N_PEER), ("CCML", len(X))):
        print(
            f"{name:5} {rows:6,} rows  median {np.median(seconds[name]):6.1f} s  "
            f"test error {100 * np.mean(errors[name]):.2f} %"
        )
    ratio = np.median(np.divide(seconds["CCML"], seconds["NCA"]))
    print(f"CCML takes {ratio:.2f} of NCA's time (median of {REPEATS} runs in turns)")


def _seconds(call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
