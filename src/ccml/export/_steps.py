"""What each kind of step and layer is in operators."""

import warnings
from typing import Any

import numpy as np
import torch
from scipy.ndimage import gaussian_filter1d
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import nn

from ccml._images import image_of
from ccml.embeddings import MLP, Conv, RandomShift, _ToImages, in_use
from ccml.export._graph import OPSET, CannotWriteError, Graph, require
from ccml.learners._linear import LinearMetric
from ccml.learners._trained import TrainedEmbedding
from ccml.preprocessing import Flatten, LocalContrastNormalization

_ZERO_NORM = 10 * np.finfo(np.float64).eps  # below it, Normalizer leaves a row as it is


def add_step(graph: Graph, x: str, step: Any) -> str:
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
                raise CannotWriteError(f"norm={step.norm!r} isn't 'l2'")
            norm = graph.node("ReduceL2", x, np.array([1]))
            is_zero = graph.node("Less", norm, np.array(_ZERO_NORM))
            return graph.node("Div", x, graph.node("Where", is_zero, np.array(1.0), norm))
        case Flatten():
            check_is_fitted(step, "input_shape_")  # it works without, but its input has no shape
            return graph.node("Flatten", x)
        case LocalContrastNormalization():
            return _add_contrast(graph, x, step)
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
            raise CannotWriteError("it isn't one of the steps that are known here")


def _add_imputer(graph: Graph, x: str, imputer: SimpleImputer) -> str:
    values = imputer.statistics_.astype(np.float64)
    if str(imputer.missing_values) != "nan" or imputer.add_indicator or np.isnan(values).any():
        raise CannotWriteError(
            "it has to be for NaN, without indicator, and every column has to have had a value in "
            "training, or keep_empty_features=True"
        )
    graph.locate(x, values)
    return graph.node("Where", graph.node("IsNaN", x), values, x)


def _add_contrast(graph: Graph, x: str, step: LocalContrastNormalization) -> str:
    """Append what `LocalContrastNormalization` does, to each channel by itself."""
    check_is_fitted(step, "input_shape_")  # as `Flatten`
    _, *size = image_of(type(step).__name__, step.input_shape_, step.image_shape)
    # A blur is linear, so also at the borders it is a matrix to each side.
    down, across = (gaussian_filter1d(np.eye(n), step.sigma, axis=0) for n in size)
    sides, one = np.array([1, 2]), np.array(1.0)

    def blurred(y: str) -> str:
        return graph.node("MatMul", graph.node("MatMul", down, y), across.T)

    x = graph.node("Reshape", x, np.array([-1, *size]))
    is_constant = graph.node(
        "Equal", graph.node("ReduceMax", x, sides), graph.node("ReduceMin", x, sides)
    )
    x = graph.node("Sub", x, graph.node("ReduceMean", x, sides))
    x = graph.node("Where", is_constant, np.array(0.0), x)
    largest = graph.node("ReduceMax", graph.node("Abs", x), sides)
    x = graph.node("Div", x, graph.node("Where", is_constant, one, largest))
    x = graph.node("Sub", x, graph.node("ReduceMean", x, sides))
    variance = graph.node("ReduceMean", graph.node("Mul", x, x), sides)
    deviation = graph.node("Sqrt", graph.node("Where", is_constant, one, variance))
    x = graph.node("Div", x, deviation)
    x = graph.node("Sub", x, blurred(x))
    local = graph.node("Sqrt", blurred(graph.node("Mul", x, x)))
    x = graph.node("Div", x, graph.node("Max", local, one))
    return graph.node("Reshape", x, np.array([-1, *step.input_shape_]))


def _add_network(graph: Graph, x: str, learner: TrainedEmbedding) -> str:
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


def _add_layer(graph: Graph, x: str, layer: Any) -> str:
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


def _add_own(graph: Graph, x: str, network: nn.Module, input_shape: tuple[int, ...]) -> str:
    """Append a network of the user's own, as torch writes it."""
    require("onnxscript")
    output = "network"
    try:
        with in_use(network), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what torch itself calls
            program: Any = torch.onnx.export(
                network,
                (torch.zeros(2, *input_shape),),
                input_names=[x],
                output_names=[output],
                opset_version=OPSET,
                dynamic_shapes=({0: torch.export.Dim("n")},),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # whatever the network does that torch can't follow
        reason = str(error.__cause__ or error).strip().partition("\n")[0]
        raise CannotWriteError(
            f"torch can't export its network, {type(network).__name__} ({reason})"
        ) from error
    graph.nodes.extend(program.model_proto.graph.node)
    graph.constants.extend(program.model_proto.graph.initializer)
    return output
