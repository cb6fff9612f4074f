"""What embeds, out of a model, and how to know it again."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ccml.gallery._keys import key_of

_N_PROBES, _N_SKETCH = 8, 16
_TOLERANCE = 1e-4  # of the largest number: float32 on another machine is about 1e-6 off
_LARGEST = 1e18  # whose square is a number in float32


def embedding_of(model: Any) -> Any:
    """Return the part of a fitted model that maps rows: all but a classifier at its end."""
    part = model
    if isinstance(model, Pipeline) and not hasattr(model[-1], "transform"):
        part = model[:-1]
    if (isinstance(part, Pipeline) and len(part) == 0) or not hasattr(part, "transform"):
        raise ValueError(
            f"Gallery(model={type(model).__name__}) has no step that maps rows. Give a fitted "
            "learner, or a pipeline with one."
        )
    check_is_fitted(part)
    return part


def embed(embedding: Any, X: Any) -> NDArray[np.float32]:
    """Map rows to what is stored of them."""
    with np.errstate(over="ignore"):
        Z = np.asarray(embedding.transform(X)).astype(np.float32)
    if Z.ndim != 2 or not (np.abs(Z) < _LARGEST).all():
        raise ValueError(
            "Gallery needs embeddings that are rows of finite numbers; the model gave something "
            f"else, of shape {Z.shape}. Is something missing or very large in X?"
        )
    # Milvus has no vectors of one number; a second one that is 0 changes no distance.
    return np.pad(Z, ((0, 0), (0, 1))) if Z.shape[1] == 1 else Z


def fingerprint(embedding: Any) -> dict[str, Any]:
    """Return numbers that two models have in common only if they embed in the same way.

    They are a sketch of what the model makes of made-up rows, and are compared with a tolerance
    (`is_same`). A digest wouldn't do: of the output, it would be another one on a machine that
    rounds differently; of the fitted arrays, with a version of a library that renames one.

    The rows are numbers. Steps for tables and images, which don't take such rows, are passed over;
    of those, the names of what they give are compared.
    """
    steps = (
        [step for _, step in embedding.steps] if isinstance(embedding, Pipeline) else [embedding]
    )
    steps = [step for step in steps if step is not None and step != "passthrough"]
    names: list[str] = []
    for start, step in enumerate(steps):
        shape = getattr(step, "input_shape_", None) or (getattr(step, "n_features_in_", 0),)
        try:
            Z = _transformed(steps[start:], _spread(_N_PROBES, *shape))
        except Exception:  # whatever a step does that is made for something else
            names += map(str, getattr(step, "get_feature_names_out", list)())
            continue
        sketch = Z @ _spread(Z.shape[1], _N_SKETCH) / Z.shape[1] ** 0.5  # (8, 16)
        return {"width": Z.shape[1], "names": key_of(names), "sketch": sketch.ravel().tolist()}
    raise ValueError(
        f"Gallery(model={type(embedding).__name__}) has no step that maps rows of numbers, so it "
        "couldn't be told from another. Give a fitted learner, or a pipeline with one."
    )


def is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Compare two fingerprints."""
    if (one["width"], one["names"]) != (other["width"], other["names"]):
        return False
    a, b = np.array(one["sketch"]), np.array(other["sketch"])
    return bool(np.abs(a - b).max() <= _TOLERANCE * np.abs(a).max())


def _spread(*shape: int) -> NDArray[np.float64]:
    """Spread numbers over [-1, 1), the same on every machine and with every version of NumPy."""
    numbers = np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.uint64)
    return (numbers * np.uint64(2654435761) % np.uint64(2**32) / 2**31 - 1).reshape(shape)


def _transformed(steps: list[Any], X: Any) -> NDArray[np.float64]:
    with warnings.catch_warnings(action="ignore"):  # of names of columns
        for step in steps:
            X = step.transform(X)
    return np.asarray(X, dtype=np.float64)
