"""How the settings of Table I were chosen: on validation rows only."""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ccml.datasets import Dataset
from ccml.evaluation import ccknn_error, knn_error
from ccml.experiments.table1 import Settings, load, pipeline
from ccml.learners import ConvNetClassifier

CANDIDATES: dict[str, list[Settings]] = {
    "Euclidean": [Settings(), Settings(pca=0.95), Settings(pca=0.9), Settings(pca=0.8)],
    "ITML": [
        Settings(),
        Settings(learner={"gamma": 0.03}),
        Settings(learner={"gamma": 0.3}),
    ],
    "NCMC": [
        Settings(),
        Settings(learner={"dropout": 0.2}),
        Settings(learner={"n_centroids": 3}),
        Settings(learner={"n_centroids": 10}),
    ],
    "LMNN": [
        Settings(),
        Settings(learner={"n_neighbors": 3}),
        Settings(learner={"dropout": 0.2}),
        Settings(learner={"push": 0.5}),
    ],
    "NCA": [
        Settings(),
        Settings(learner={"dropout": 0.2}),
        Settings(learner={"loss": "expected-accuracy"}),
    ],
    "CCML": [
        Settings(),
        Settings(learner={"dropout": 0.2}),
        Settings(learner={"loss": "expected-accuracy"}),
        Settings(learner={"objective": "per-class"}),
        Settings(learner={"n_neighbors": 3}),
        Settings(learner={"n_neighbors": 9}),
        Settings(learner={"learning_rate": 0.1}),
        Settings(learner={"weight_decay": 0.03}),
        Settings(learner={"init": "pca"}),
    ],
}
_TWENTY = {"validation_fraction": 0, "max_epochs": 20}
_NETWORK = Settings(pca=None, learner={"validation_fraction": 0, "n_components": 100})
NORB: dict[str, list[Settings]] = {  # early stopping would be on toys that are in training too
    "Euclidean": [Settings()],
    "ITML": [Settings()],
    "NCMC": [Settings(learner=_TWENTY), Settings(learner=_TWENTY | {"n_centroids": 20})],
    "LMNN": [Settings(learner=_TWENTY | {"max_epochs": 10})],
    "NCA": [Settings(learner=_TWENTY | {"weight_decay": decay}) for decay in (0.003, 0.1, 0.3)],
    "CCML": [
        Settings(learner=_TWENTY | {"max_epochs": 5}),
        Settings(learner=_TWENTY),
        Settings(learner=_TWENTY | {"dropout": 0.2}),
        Settings(learner=_TWENTY | {"dropout": 0.6}),
        Settings(learner=_TWENTY, pca=0.9),
        Settings(learner=_TWENTY | {"n_neighbors": 13}),
        *(Settings(learner=_TWENTY | {"weight_decay": decay}) for decay in (0.1, 0.3, 1.0)),
        Settings(learner=_TWENTY | {"weight_decay": 0.1, "n_neighbors": 2}),
        Settings(learner=_TWENTY | {"weight_decay": 0.1, "max_epochs": 40}),
        Settings(learner=_TWENTY | {"weight_decay": 0.1, "n_components": 30}),
    ],
    "ConvNet1": [_NETWORK],
    "ConvNet2": [_NETWORK],
    "ConvCCML1": [_NETWORK],
    "ConvCCML2": [
        _NETWORK,
        replace(_NETWORK, learner=_NETWORK.learner | {"weight_decay": 0.03}),
        replace(_NETWORK, learner=_NETWORK.learner | {"objective": "per-class"}),
    ],
    "ConvCCML2-shifts": [_NETWORK],
}
NEIGHBORS = (1, 3, 5, 9)


def run(names: tuple[str, ...] = ("wine", "isolet"), metrics: tuple[str, ...] = ()) -> None:
    """Compare settings; error in percent of KNN and of CCKNN with k = 1, 3, 5 and 9.

    ISOLET, MNIST and NORB: their validation rows (`Dataset.validation`). Wine has too few, so:
    10-fold cross-validation, with three other foldings (seeds 100 to 102) than those of Table I.

    For some only: ``python -m benchmarks.choose isolet,mnist LMNN,NCA``.
    """
    for name in names:
        data = load(name)
        splits = list(_splits(data))
        candidates = NORB if name == "norb" else CANDIDATES
        for metric in metrics or candidates:
            for settings in candidates[metric]:
                _compare(name, data, metric, settings, splits)


def _compare(name: str, data: Dataset, metric: str, settings: Settings, splits: list[Any]) -> None:
    errors, start = [], time.perf_counter()
    for seed, (X, y, X_valid, y_valid) in enumerate(splits):
        model = pipeline(name, data, metric, settings, seed).fit(X, y)
        if isinstance(model[-1], ConvNetClassifier):  # its own error, whatever k
            errors.append([1 - model.score(X_valid, y_valid)] * 2 * len(NEIGHBORS))
            continue
        rows = model.transform(X), y, model.transform(X_valid), y_valid
        errors.append(
            [rule(*rows, n_neighbors=k) for rule in (knn_error, ccknn_error) for k in NEIGHBORS]
        )
    means = 100 * np.mean(errors, axis=0)
    knn, ccknn = ("  ".join(f"{error:5.2f}" for error in part) for part in np.split(means, 2))
    changed = ", ".join(f"{key}={value!r}" for key, value in settings.learner.items())
    label = changed or (f"pca={settings.pca}" if metric == "Euclidean" else "defaults")
    seconds = time.perf_counter() - start
    print(
        f"{name:7} {metric:9} {label:28} KNN {knn}   CCKNN {ccknn}   {seconds:5.0f} s", flush=True
    )


def _splits(data: Dataset) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    if data.official_split:
        (X, y), (X_valid, y_valid) = data.subset("train"), data.subset("validation")
        yield X.astype(np.float32), y, X_valid.astype(np.float32), y_valid
        return
    for seed in range(100, 103):
        folds = StratifiedKFold(10, shuffle=True, random_state=seed)
        for train, valid in folds.split(data.X, data.y):
            yield data.X[train], data.y[train], data.X[valid], data.y[valid]


if __name__ == "__main__":  # python -m benchmarks.choose mnist LMNN,NCA
    run(*(tuple(argument.split(",")) for argument in sys.argv[1:]))
