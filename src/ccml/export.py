"""Embeddings for where Python isn't: `export_onnx`.

The graph is put together here, operator by operator: a map is made of a dozen kinds of steps and
layers. Only a network of the user's own is left to torch's exporter.
"""

import warnings
from importlib import import_module
from itertools import takewhile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import nn

from ccml._atomic import whole_file
from ccml.classifiers import CCKNNClassifier, NBNNClassifier, NearestMeanClassifier
from ccml.embeddings import MLP, Conv, RandomShift, _ToImages, in_use
from ccml.learners._linear import LinearMetric
from ccml.learners._trained import TrainedEmbedding

Array = NDArray[Any]

_OPSET, _IR_VERSION = 18, 8  # of the end of 2022: runtimes on devices aren't the newest
_CLASSIFIERS = (CCKNNClassifier, NBNNClassifier, NearestMeanClassifier)
_ZERO_NORM = 10 * np.finfo(np.float64).eps  # below it, Normalizer leaves a row as it is
_CHECKED_ROWS = 8
_TOLERANCE = 1e-3  # a wrong graph is further off, and rounding makes about 1e-6


def export_onnx(model: Any, path: str | PathLike[str]) -> None:
    """Write what maps rows into the learned space as an ONNX file.

    The file has one input, ``X``, of the shape that ``transform`` takes, and one output,
    ``embedding``, of shape (n, n_components), both float32. It needs ``pip install 'ccml[onnx]'``.

    Parameters
    ----------
    model : estimator
        A fitted learner, or a pipeline of learners and scikit-learn's StandardScaler, MinMaxScaler,
        SimpleImputer, Normalizer, PCA and TruncatedSVD. A classifier of this library at its end is
        left out.
    path : path
        What has this name is replaced when the new file is complete, and has given for some rows
        what the model gives.

    Raises
    ------
    ValueError
        A step can't be written; the message says which, and what to do.

    Notes
    -----
    ``transform`` scales images of bytes (uint8) by 1/255. The input here is float32, so whoever
    uses the file has to scale bytes.

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
        _require(package)
    steps = _steps(model)
    graph = _Graph()
    output = "X"
    for name, step in steps.items():
        check_is_fitted(step)
        try:
            output = _add_step(graph, output, step)
        except _CannotWriteError as error:
            raise ValueError(
                f"export_onnx can't write {name}: {error}. Of a pipeline, export the steps behind "
                "it, such as model[1:], and do what it does before; leave it out if it is the last."
            ) from error
    graph.node("Identity", output, output="embedding")
    maps = list(steps.values())
    X = _examples(graph, maps)
    exact = _transformed(maps, X.astype(np.float64))
    content = graph.to_bytes(X.shape[1:], exact.shape[1])
    _check(content, X, exact, rounded=_transformed(maps, X))
    with whole_file(Path(path)) as file:
        file.write(content)


class _CannotWriteError(Exception):
    """Why a step can't be written."""


class _Graph:
    """Operators in their order, and their constants."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        # Where the rows of the input are, as far as the step that takes them knows.
        self.centre: Array | float = 0.0
        self.spread: Array | float = 1.0

    def node(self, operator: str, *inputs: Any, output: str = "", **attributes: Any) -> str:
        """Append an operator on results, by their names, and on arrays; name its result."""
        from onnx import helper, numpy_helper

        names = []
        for value in inputs:
            if isinstance(value, np.ndarray):
                constant = value.astype(np.float32) if value.dtype.kind == "f" else value
                value = f"constant_{len(self.constants)}"
                self.constants.append(numpy_helper.from_array(constant, value))
            names.append(value)
        output = output or f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def centred(self, x: str, centre: Array, spread: Array | float = 1.0) -> str:
        """Subtract in two parts: float32 has 7 digits of a centre, and the rest is the second."""
        self.locate(x, centre, spread)
        first = centre.astype(np.float32)
        for part in (first, centre - first):
            if part.any():
                x = self.node("Sub", x, part)
        return x

    def locate(self, x: str, centre: Array, spread: Array | float = 1.0) -> None:
        """Remember where rows are, if they are those of the input."""
        if x == "X":
            self.centre, self.spread = centre, spread

    def to_bytes(self, input_shape: tuple[int, ...], n_components: int) -> bytes:
        """Put the file together."""
        from onnx import TensorProto, helper

        X, embedding = (
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape])
            for name, shape in [("X", input_shape), ("embedding", (n_components,))]
        )
        return helper.make_model(
            helper.make_graph(self.nodes, "embedding", [X], [embedding], self.constants),
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=_IR_VERSION,
            producer_name="ccml",
        ).SerializeToString()


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


def _add_step(graph: _Graph, x: str, step: Any) -> str:
    """Append what a fitted step does to ``x``, and name the result."""
    match step:
        case StandardScaler():
            scale = np.ones(step.n_features_in_) if step.scale_ is None else step.scale_
            if step.with_mean:
                x = graph.centred(x, step.mean_, scale)
            return graph.node("Mul", x, 1 / scale)
        case MinMaxScaler():
            x = graph.centred(x, -step.min_ / step.scale_, 1 / step.scale_)
            x = graph.node("Mul", x, step.scale_)
            low, high = (np.array(float(end)) for end in step.feature_range)
            return graph.node("Clip", x, low, high) if step.clip else x
        case SimpleImputer():
            return _add_imputer(graph, x, step)
        case Normalizer():
            if step.norm != "l2":
                raise _CannotWriteError(f"norm={step.norm!r} isn't 'l2'")
            norm = graph.node("ReduceL2", x, np.array([1]))
            is_zero = graph.node("Less", norm, np.array(_ZERO_NORM))
            return graph.node("Div", x, graph.node("Where", is_zero, np.array(1.0), norm))
        case PCA():
            matrix = step.components_.T
            if step.whiten:
                deviation = np.sqrt(step.explained_variance_)
                matrix = matrix / deviation.clip(np.finfo(deviation.dtype).eps)  # as PCA does
            return graph.node("MatMul", graph.centred(x, step.mean_), matrix)
        case TruncatedSVD() | LinearMetric() if hasattr(step, "components_"):
            return graph.node("MatMul", x, step.components_.T)
        case TrainedEmbedding():
            return _add_network(graph, x, step)
        case _:
            raise _CannotWriteError("it isn't one of the steps that are known here")


def _add_imputer(graph: _Graph, x: str, imputer: SimpleImputer) -> str:
    values = imputer.statistics_.astype(np.float64)
    if str(imputer.missing_values) != "nan" or imputer.add_indicator or np.isnan(values).any():
        raise _CannotWriteError(
            "it has to be for NaN, without indicator, and every column has to have had a value in "
            "training, or keep_empty_features=True"
        )
    graph.locate(x, values)
    return graph.node("Where", graph.node("IsNaN", x), values, x)


def _add_network(graph: _Graph, x: str, learner: TrainedEmbedding) -> str:
    units = learner._fitted_units()
    if units.scale.ndim:
        x = graph.centred(x, units.centre, 1 / units.scale)
        x = graph.node("Mul", x, units.scale)
    scaled: Any = learner._fitted_module().cpu().requires_grad_(False)
    if isinstance(learner._module(), MLP | Conv):
        for layer in scaled.net:
            x = _add_layer(graph, x, layer)
    else:
        x = _add_own(graph, x, scaled.net, learner.input_shape_)
    return graph.node("Mul", x, scaled.factor.numpy())


def _add_layer(graph: _Graph, x: str, layer: Any) -> str:
    """Append a layer as `MLP` and `Conv` make them: with a bias, strides of 1, no padding."""
    match layer:
        case nn.Linear():
            weight, bias = (value.numpy() for value in layer.parameters())
            return graph.node("Add", graph.node("MatMul", x, weight.T), bias)
        case nn.Conv2d():
            return graph.node("Conv", x, *(value.numpy() for value in layer.parameters()))
        case nn.MaxPool2d(kernel_size=side):
            return graph.node("MaxPool", x, kernel_shape=[side, side], strides=[side, side])
        case nn.ReLU() | nn.Tanh() | nn.Flatten():
            return graph.node(type(layer).__name__.capitalize(), x)
        case _ToImages(shape=shape):
            return graph.node("Reshape", x, np.array([-1, *shape]))
        case RandomShift():  # in training alone
            return x
    raise NotImplementedError(f"a layer that MLP and Conv don't make: {layer}")


def _add_own(graph: _Graph, x: str, network: nn.Module, input_shape: tuple[int, ...]) -> str:
    """Append a network of the user's own, as torch writes it."""
    _require("onnxscript")
    output = "network"
    try:
        with in_use(network), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what torch itself calls
            program: Any = torch.onnx.export(
                network,
                (torch.zeros(2, *input_shape),),
                input_names=[x],
                output_names=[output],
                opset_version=_OPSET,
                dynamic_shapes=({0: torch.export.Dim("n")},),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # whatever the network does that torch can't follow
        reason = str(error.__cause__ or error).strip().partition("\n")[0]
        raise _CannotWriteError(
            f"torch can't export its network, {type(network).__name__} ({reason})"
        ) from error
    graph.nodes.extend(program.model_proto.graph.node)
    graph.constants.extend(program.model_proto.graph.initializer)
    return output


def _examples(graph: _Graph, steps: list[Any]) -> Array:
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


def _require(package: str) -> None:
    try:
        import_module(package)
    except ImportError as error:
        raise ImportError(
            f"export_onnx needs the package {package}: pip install 'ccml[onnx]'."
        ) from error
