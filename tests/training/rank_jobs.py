"""What each process of test_ranks.py does: ``torchrun ... rank_jobs.py FOLDER JOB...``.

A process alone does the same with all rows; the results are to be equal.
"""

import os
import pickle
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits, load_wine
from torch import nn

from ccml import CCML, learners
from ccml.embeddings import MLP, Conv
from ccml.training import joined
from ccml.training._ranks import Share

RANK, SIZE = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def digits(n=300):
    """Images sorted by class, so that a share of them lacks some."""
    X, y = (array[:n] for array in load_digits(return_X_y=True))
    order = np.argsort(y, kind="stable")
    return X[order].reshape(-1, 8, 8), y[order]


def mine(cut, *arrays):
    """Rows of this process: before or from ``cut`` on; all if it is alone."""
    return [array if SIZE == 1 else array[[slice(cut), slice(cut, None)][RANK]] for array in arrays]


class InDouble(nn.Module):
    """Computes in float64, and dies where it is told to."""

    def __init__(self, net):
        super().__init__()
        self.net = net.double()
        self.n_calls = 0

    def forward(self, x):
        self.n_calls += self.training
        if os.environ.get("DIES") == f"{RANK} {self.n_calls}":
            os.kill(os.getpid(), signal.SIGKILL)
        return self.net(x.double())


def linear(shape):
    torch.manual_seed(RANK)  # whatever the others draw, all start from what the first has
    return InDouble(nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 4, bias=False)))


def conv(shape):
    torch.manual_seed(RANK)
    return InDouble(Conv(layers=1, n_filters=4).build(shape, 4))


def fitted(model, *data, **parameters):
    model = model.set_params(random_state=0, **parameters).fit(*data)
    state = [model.components_] if hasattr(model, "components_") else list(model.weights_.values())
    return {"weights": state, **model.history_}


def fifty_steps(embedding):
    """An epoch is a step: the batch has all rows."""
    X, y = digits()
    return fitted(
        CCML(embedding=embedding, batch_size=300, max_epochs=50, n_epochs_no_change=50),
        *mine(110, X, y),
        validation_fraction=0,
    )


def fifty_steps_linear():
    return fifty_steps(linear)


def fifty_steps_conv():
    return fifty_steps(conv)


def batches_weights_and_validation():
    """Labels of another type, of which the second process alone has some."""
    X, y = digits()
    weight = np.random.default_rng(0).integers(3, size=len(y))
    parameters = {"objective": "per-class", "batch_size": 50, "max_epochs": 5, "dropout": 0.2}
    model = CCML(embedding=linear, validation_fraction=0.3, **parameters)
    return fitted(model, *mine(200, X, y.astype(str), weight))


def few_rows_in_one():
    """Most batches have no row of the second process."""
    X, y = digits()
    return fitted(CCML(embedding=conv, batch_size=30, max_epochs=3), *mine(297, X, y))


def same_rows_in_both():
    X, y = load_wine(return_X_y=True)
    return fitted(CCML(3, max_epochs=3), X, y)


def starts():
    """Before any step to speak of: from moments of all rows."""
    X, y = load_wine(return_X_y=True)
    X, y = mine(70, np.column_stack([X, np.ones(len(X))]), y)
    once = {"max_epochs": 1, "learning_rate": 1e-9}
    models = [CCML(3, init=init, **once) for init in ("lda", "pca", "best", "random")]
    return [fitted(model, X, y) for model in [*models, CCML(3, embedding=MLP((5,)), **once)]]


def other_learners():
    X, y = digits()
    images, rows = mine(140, X, y), mine(140, X.reshape(len(X), -1), y)
    few = {"max_epochs": 2}
    return [
        fitted(learners.NCA(3, **few), *rows),
        fitted(learners.KNCA(3, **few), *rows),
        fitted(learners.LMNN(3, **few), *rows),
        fitted(learners.DrLIM(3, **few), *rows),
        fitted(learners.ConvNetClassifier(layers=1, **few), *images),
    ]


def gradients():
    """Of a mean over the processes of something in which each point meets every other."""
    own = np.array([3, 0] if RANK == 0 else [4, 1, 2])
    start = torch.linspace(-1, 2, 10, dtype=torch.float64).reshape(5, 2)
    with joined("cpu") as ranks:
        z = start[own].clone().requires_grad_()
        points = Share(ranks, own, 5).points(z)
        of_process = (points @ points.T).sin().pow(2)[ranks.rank :: 2].sum()
        of_process.backward()
    return {"own": own, "points": points.detach(), "gradient": z.grad / SIZE}


def running_statistics():
    """Batch normalisation: the statistics that are kept are the mean of the processes'."""
    X, y = digits()
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 4))
    return fitted(CCML(embedding=net, max_epochs=2), *mine(150, X, y))


def resumed():
    """A network that draws at random, stopped after two epochs, and one that wasn't."""
    X, y = digits()
    net = Conv(layers=1, n_filters=4, max_shift=1)
    data = mine(120, X, y)
    path = {"checkpoint": Path(sys.argv[1]) / "resumed.ckpt"}
    fitted(CCML(4, embedding=net), *data, max_epochs=2, **path)
    again = fitted(CCML(4, embedding=net), *data, max_epochs=4, **path)
    return again, fitted(CCML(4, embedding=net), *data, max_epochs=4)


def long_run():
    X, y = digits()
    path = Path(sys.argv[1]) / "long.ckpt"
    parameters = {"batch_size": 60, "max_epochs": 6, "checkpoint": path, "checkpoint_seconds": 0}
    return fitted(CCML(embedding=conv, **parameters), *mine(120, X, y))


def refusals():
    """What is said to whom, where there are several processes."""
    X, y = load_wine(return_X_y=True)
    spoilt = X.copy()
    spoilt[-1] = np.nan

    def stop(epoch, loss, validation_error):
        raise OSError("no space")

    def message(function):
        try:
            function()
        except (ValueError, RuntimeError, OSError) as error:
            return f"{type(error).__name__}: {error}"

    X, y, spoilt = mine(100, X, y, spoilt)
    few = {"max_epochs": 2, "random_state": 0}
    folder = Path(sys.argv[1])
    (folder / "damaged.ckpt").write_bytes(b"?")
    return {
        "nan": message(lambda: CCML(**few).fit(spoilt, y)),
        "columns": message(lambda: CCML(**few).fit(X[:, RANK:], y)),
        "labels": message(lambda: CCML(**few).fit(X, y if RANK else y.astype(str))),
        "weight": message(lambda: CCML(**few).fit(X, y, np.ones(len(y)) if RANK else None)),
        "classes": message(lambda: CCML(**few).fit(X, np.zeros(len(y)))),
        "callback": message(lambda: CCML(callbacks=[stop], **few).fit(X, y)),
        "checkpoint": message(lambda: CCML(checkpoint=folder / "damaged.ckpt", **few).fit(X, y)),
        "NCMC": message(lambda: learners.NCMC().fit(X, y)),
        "ITML": message(lambda: learners.ITML().fit(X, y)),
        "partial_fit": message(lambda: CCML().partial_fit(X, y)),
    }


def main(folder, *jobs):
    if "STORE" in os.environ:  # without torchrun
        store = "file://" + os.environ["STORE"]
        dist.init_process_group("gloo", init_method=store, rank=RANK, world_size=SIZE)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = {job: globals()[job]() for job in jobs}
    results["warnings"] = [str(warning.message) for warning in caught]
    (Path(folder) / f"{RANK}.pickle").write_bytes(pickle.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
