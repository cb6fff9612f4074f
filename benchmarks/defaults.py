"""How good the defaults are, beside what people would use instead."""

import time
from collections.abc import Iterator

import numpy as np
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ccml import CCML, CCKNNClassifier, datasets


def run() -> None:
    """All defaults, test error in percent, mean over the splits, all models on the same ones.

    digits: 5 random halves. ISOLET: the official split. wine, unscaled: 10-fold cross-validation.
    """
    for name in ("digits", "isolet", "wine"):
        scaler = [] if name == "wine" else [StandardScaler()]
        models = {
            "KNN": [KNeighborsClassifier()],
            "NCA + KNN": [NeighborhoodComponentsAnalysis(random_state=0), KNeighborsClassifier()],
            "CCML + CCKNN": [CCML(random_state=0), CCKNNClassifier()],
        }
        for label, steps in models.items():
            start, errors = time.perf_counter(), []
            for X, y, X_test, y_test in _splits(name):
                model = make_pipeline(*scaler, *steps).fit(X, y)
                errors.append(100 * (1 - model.score(X_test, y_test)))
            seconds = (time.perf_counter() - start) / len(errors)
            print(f"{name:7} {label:13} {np.mean(errors):5.2f} %  {seconds:6.1f} s", flush=True)


def _splits(name: str) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    data = datasets.load(name)
    if data.official_split:
        yield *data.subset("train", "validation"), *data.subset("test")
        return
    splitter = (
        StratifiedShuffleSplit(5, test_size=0.5, random_state=0)
        if name == "digits"
        else StratifiedKFold(10, shuffle=True, random_state=0)
    )
    for train, test in splitter.split(data.X, data.y):
        yield data.X[train], data.y[train], data.X[test], data.y[test]
