"""Worker processes, and one that dies."""

import os
import signal
import time

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

from ccml import CCKNNClassifier


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=3000)
    return rng.normal(size=(3000, 6)) + y[:, None], y, rng.normal(size=(200, 6)) + 2


def test_a_cluster_gives_what_one_process_gives(client, data, tmp_path):
    X, y, Q = data
    da.from_array(X, (700, 6)).to_zarr(tmp_path / "rows.zarr")
    da.from_array(y, 1000).to_zarr(tmp_path / "labels.zarr")
    gallery = da.from_zarr(tmp_path / "rows.zarr"), da.from_zarr(tmp_path / "labels.zarr")
    model, lazy = CCKNNClassifier(4).fit(X, y), CCKNNClassifier(4).fit(*gallery)
    for name in ("predict", "predict_proba"):
        expected = getattr(model, name)(Q)
        np.testing.assert_allclose(getattr(lazy, name)(Q), expected, rtol=1e-12)
        for each in (model, lazy):
            answer = getattr(each, name)(da.from_array(Q, 60))
            np.testing.assert_allclose(answer.compute(), expected, rtol=1e-12)


def test_a_worker_that_is_killed_changes_nothing(client, data):
    X, y, Q = data

    def slow(block):  # defined here, so that it is sent by what it does
        time.sleep(0.1 if len(block) else 0)
        return block

    rows = da.from_array(X, (150, 6)).map_blocks(slow, meta=X[:0])
    lazy = CCKNNClassifier(4).fit(rows, y)
    future = client.compute(lazy.predict(da.from_array(Q, 60)))
    time.sleep(0.5)
    assert not future.done()
    victim = next(iter(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    wait(future, timeout=60)
    np.testing.assert_array_equal(future.result(), CCKNNClassifier(4).fit(X, y).predict(Q))
