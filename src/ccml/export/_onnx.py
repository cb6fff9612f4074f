"""A model to a file, and the check that it gives the same.

The graph is put together here, operator by operator: a map is made of a dozen kinds of steps and
layers. Only a network of the user's own is left to torch's exporter.
"""

import warnings
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from ccml._atomic import whole_file
from ccml.classifiers import CCKNNClassifier, NBNNClassifier, NearestMeanClassifier
from ccml.export._graph import Array, CannotWriteError, Graph, require
from ccml.export._steps import add_step

_CLASSIFIERS = (CCKNNClassifier, NBNNClassifier, NearestMeanClassifier)
_CHECKED_ROWS = 8
_TOLERANCE = 1e-3  # a wrong graph is further off, and rounding makes about 1e-6


def export_onnx(model: Any, path: str | PathLike[str]) -> None:
    """Write what maps rows into the learned space as an ONNX file.

    The file has one input, ``X``, of the shape that ``transform`` takes, and one output,
    ``embedding``, of shape (n, n_components), both float32. It needs ``pip install 'ccml[onnx]'``.

    Parameters
    ----------
    model : estimator
        A fitted learner, or a pipeline of learners, `Flatten`, `LocalContrastNormalization`, and
        scikit-learn's StandardScaler, MinMaxScaler, SimpleImputer, Normalizer, PCA and
        TruncatedSVD. A classifier of this library at its end is left out.
    path : path
        What has this name is replaced when the new file is complete, and has given for some rows
        what the model gives.

    Raises
    ------
    ValueError
        A step can't be written; the message says which, and what to do.

    Notes
    -----
    ``transform`` of a network scales images of bytes (uint8) by 1/255. The input here is float32,
    so whoever uses the file has to scale bytes. Not those that go to `Flatten` or
    `LocalContrastNormalization`, which take them as they are.

    Columns that are far from 0 for their spread keep their precision if a step subtracts their
    mean, as StandardScaler, PCA and `MLP` do. A linear learner alone doesn't.

    Examples
    --------
    >>> import ccml, onnxruntime, tempfile
    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), ccml.CCML(2, random_state=0)).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ccml.export.export_onnx(model, f"{folder}/wine.onnx")
    ...     session = onnxruntime.InferenceSession(f"{folder}/wine.onnx")
    >>> (Z,) = session.run(["embedding"], {"X": X.astype(np.float32)})
    >>> np.allclose(Z, model.transform(X), atol=1e-4)
    True
    """
    for package in ("onnx", "onnxruntime"):
        require(package)
    steps = _steps(model)
    graph = Graph()
    output = "X"
    for name, step in steps.items():
        check_is_fitted(step)
        try:
            output = add_step(graph, output, step)
        except CannotWriteError as error:
            raise ValueError(
                f"export_onnx can't write {name}: {error}. Of a pipeline, export the steps behind "
                "it, such as model[1:], and do what it does before; leave it out if it is the last."
            ) from error
    graph.node("Identity", output, output="embedding")
    maps = list(steps.values())
    X = _examples(graph, maps)
    exact = _transformed(maps, X.astype(np.float64))
    content = graph.to_bytes(X.shape[1:], exact.shape[1:])
    _check(content, X, exact, rounded=_transformed(maps, X))
    with whole_file(Path(path)) as file:
        file.write(content)


def _steps(model: Any) -> dict[str, Any]:
    """Name the steps that map rows."""
    if isinstance(model, Pipeline):
        steps = {
            f"the step {name!r}, {type(step).__name__}": step
            for name, step in model.steps
            if step is not None and step != "passthrough"
        }
    else:
        steps = {type(model).__name__: model}
    if steps and isinstance(list(steps.values())[-1], _CLASSIFIERS):
        steps.popitem()
    if not steps:
        raise ValueError(
            f"{type(model).__name__} has no step that maps rows, so there is nothing to export. "
            "Give a fitted learner, or a pipeline with one."
        )
    return steps


def _examples(graph: Graph, steps: list[Any]) -> Array:
    """Rows about where those of the training were, one of them missing if that may be."""
    first = steps[0]
    check_is_fitted(first, "n_features_in_")  # Normalizer works without, but has no width
    shape = first.input_shape_ if hasattr(first, "input_shape_") else (first.n_features_in_,)
    X = np.random.default_rng(0).normal(size=(_CHECKED_ROWS, *shape))
    X = (graph.centre + graph.spread * X).astype(np.float32)
    keep_missing = (StandardScaler, MinMaxScaler, SimpleImputer)
    start = takewhile(lambda step: isinstance(step, keep_missing), steps)
    if any(isinstance(step, SimpleImputer) for step in start):
        X[0] = np.nan
    return X


def _transformed(steps: list[Any], X: Any) -> Array:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        for step in steps:
            X = step.transform(X)
    return np.asarray(X)


def _check(content: bytes, X: Array, exact: Array, rounded: Array) -> None:
    """Compare what a file gives with what the model gives, in float64 and in float32."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # to start more would take longer than a few rows
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    (Z,) = session.run(["embedding"], {"X": X})
    # The file may be as far off as the model is in float32, in which 1,000,000.04 isn't a number.
    allowed = _TOLERANCE * np.abs(exact).max() + 10 * np.abs(exact - rounded).max()
    if Z.shape != exact.shape or not np.abs(Z - exact).max() <= allowed:
        raise ValueError(
            "export_onnx made a graph that doesn't give what the model's transform gives, so "
            "nothing was written. Is the transform of a step random, or one of your own?"
        )
