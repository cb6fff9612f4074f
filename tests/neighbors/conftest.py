"""Every way to search, forced in turn."""

import pytest

from ccml.neighbors import _compiled, _products

WAYS = {
    "by bounds": lambda gallery, *rest: 0,
    "by products": lambda gallery, *rest: min(8, gallery.frame.n_axes),
    "by products on all axes": lambda gallery, *rest: gallery.frame.n_axes,
    "by products of all features": lambda gallery, *rest: _products.ALL_FEATURES,
}


@pytest.fixture(params=[*WAYS, "in numpy", "as it chooses"])
def way(request, monkeypatch):
    if request.param == "in numpy":
        monkeypatch.setenv("CCML_NUMBA", "0")
    elif request.param in WAYS:
        monkeypatch.setattr(_compiled, "ALONE", 1)
        # If looking at classes seems dear, predict chooses them by their lists.
        dear = float("inf") if request.param == "by products on all axes" else 0.0
        monkeypatch.setattr(_compiled, "_cost", lambda *work: dear)
        monkeypatch.setattr(_compiled, "_plan", WAYS[request.param])
    return request.param
