"""Learning from a stream beside learning from all rows at once."""

import numpy as np

from ccml import CCML, datasets
from ccml.embeddings import Conv
from ccml.evaluation import ccknn_error

CHUNK = 500
SEEDS = range(3)


def run() -> None:
    """CCKNN error after one pass over MNIST in chunks of 500, and after a fit of as many updates.

    Both take a step for every 100 rows. The fit may choose its rows and its neighbours among all
    60,000; the stream has its chunk and the 10,000 rows that it remembers.
    """
    data = datasets.load("mnist")
    (X, y), (X_test, y_test) = data.subset("train", "validation"), data.subset("test")
    for name, embedding in (("linear", "linear"), ("conv", Conv(2, image_shape=(28, 28)))):
        errors = []
        for seed in SEEDS:
            learner = CCML(embedding=embedding, batch_size=100, random_state=seed)
            streamed = _streamed(learner, X, y, seed)
            learner = CCML(embedding=embedding, batch_size=100, random_state=seed)
            fitted = learner.set_params(max_epochs=1, validation_fraction=0).fit(X, y)
            errors.append(
                [
                    100 * ccknn_error(model.transform(X), y, model.transform(X_test), y_test)
                    for model in (streamed, fitted)
                ]
            )
            print(f"{name:6} stream {errors[-1][0]:.2f} %, fit {errors[-1][1]:.2f} %", flush=True)
        streamed, fitted = np.mean(errors, axis=0)
        print(f"{name:6} mean: stream {streamed:.2f} %, fit {fitted:.2f} %", flush=True)


def _streamed(learner: CCML, X: np.ndarray, y: np.ndarray, seed: int) -> CCML:
    for chunk in np.random.default_rng(seed).permutation(len(X)).reshape(-1, CHUNK):
        learner.partial_fit(X[chunk], y[chunk])
    return learner
