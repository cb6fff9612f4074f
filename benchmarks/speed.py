"""How long it takes to learn a metric, beside scikit-learn's NCA."""

import time
import warnings
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NeighborhoodComponentsAnalysis

from ccml import CCML, datasets
from ccml.evaluation import ccknn_error, knn_error

N_PEER = 5000
REPEATS = 3
EPOCHS = 10


def run() -> None:
    """CCML on 60,000 rows of MNIST against scikit-learn's NCA (max_iter=50) on 5,000 of them.

    Both see the same 331 principal components, in turns. NCA mostly ends by its own tolerance,
    before its 50 iterations; CCML gets 10 epochs. Last, CCML once until it ends by itself.
    """
    data = datasets.load("mnist")
    (X, y), (X_test, y_test) = data.subset("train", "validation"), data.subset("test")
    # Of pixels from 0 to 255 NCA makes nothing: every softmax is saturated and it stops at once.
    X, X_test = X.astype(np.float32) / 255, X_test.astype(np.float32) / 255
    pca = PCA(0.99, svd_solver="full").fit(X)
    X, X_test = pca.transform(X), pca.transform(X_test)

    def measure(label: str, metric: Any, rows: Any = slice(None)) -> float:
        start = time.perf_counter()
        metric.fit(X[rows], y[rows])
        seconds = time.perf_counter() - start
        # The gallery is all 60,000 rows for both: the kinder choice for the peer.
        embedded = metric.transform(X), y, metric.transform(X_test), y_test
        knn, ccknn = 100 * knn_error(*embedded), 100 * ccknn_error(*embedded)
        print(
            f"{label:24} {seconds:6.1f} s  {metric.n_iter_:3} iterations or epochs  "
            f"test error KNN {knn:.2f} %, CCKNN {ccknn:.2f} %",
            flush=True,
        )
        return seconds

    # How long each may take is part of the task.
    warnings.simplefilter("ignore", ConvergenceWarning)
    ratios = []
    for seed in range(REPEATS):
        few = np.random.default_rng(seed).permutation(len(X))[:N_PEER]
        nca = NeighborhoodComponentsAnalysis(max_iter=50, random_state=seed)
        theirs = measure("NCA, 5,000 rows", nca, few)
        ours = measure("CCML, 60,000 rows", CCML(max_epochs=EPOCHS, random_state=seed))
        ratios.append(ours / theirs)
    measure("CCML, 60,000, to the end", CCML(random_state=0))
    print(f"CCML with {EPOCHS} epochs takes {np.median(ratios):.2f} of NCA's time (median)")
