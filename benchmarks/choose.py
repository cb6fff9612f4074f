"""How the defaults and the settings of Table I were chosen: on validation rows only."""

from collections.abc import Iterator

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from ccml import CCML, datasets
from ccml.evaluation import ccknn_error, knn_error

CANDIDATES: list[dict[str, object]] = [
    {},
    {"loss": "expected-accuracy"},
    {"objective": "per-class"},
    {"n_neighbors": 3},
    {"n_neighbors": 9},
    {"learning_rate": 0.1},
    {"weight_decay": 0.03},
    {"init": "pca"},
]
NEIGHBORS = (3, 5, 9)
SEEDS = 3


def run(names: tuple[str, ...] = ("wine", "digits", "isolet")) -> None:
    """Change one parameter at a time; error in percent with k = 3, 5 and 9, mean of three seeds.

    ISOLET and digits: their validation rows (`Dataset.validation`). Wine has too few, so: 10-fold
    cross-validation with other folds (seeds 100 to 102) than those of Table I.
    """
    for name in names:
        splits = list(_splits(name))
        for candidate in CANDIDATES:
            errors = []
            for number, (X, y, X_valid, y_valid) in enumerate(splits):
                metric = CCML(**candidate, random_state=number).fit(X, y)
                rows = metric.transform(X), y, metric.transform(X_valid), y_valid
                errors.append(
                    [ccknn_error(*rows, n_neighbors=k) for k in NEIGHBORS]
                    + [knn_error(*rows, n_neighbors=k) for k in NEIGHBORS]
                )
            text = "  ".join(f"{100 * error:5.2f}" for error in np.mean(errors, axis=0))
            changed = ", ".join(f"{key}={value!r}" for key, value in candidate.items())
            print(f"{name:7} {changed or 'defaults':27} CCKNN, KNN: {text}", flush=True)


def _splits(name: str) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    data = datasets.load(name)
    if name == "wine":
        for seed in range(100, 100 + SEEDS):
            folds = StratifiedKFold(10, shuffle=True, random_state=seed)
            for train, valid in folds.split(data.X, data.y):
                scaler = StandardScaler().fit(data.X[train])
                X, X_valid = scaler.transform(data.X[train]), scaler.transform(data.X[valid])
                yield X, data.y[train], X_valid, data.y[valid]
        return
    (X, y), (X_valid, y_valid) = data.subset("train"), data.subset("validation")
    pca = PCA(0.99, svd_solver="full").fit(X.astype(np.float32))
    X, X_valid = pca.transform(X.astype(np.float32)), pca.transform(X_valid.astype(np.float32))
    yield from ((X, y, X_valid, y_valid) for _ in range(SEEDS))
