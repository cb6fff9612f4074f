"""A graph of ONNX operators."""

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
OPSET, _IR_VERSION = 18, 8  # of the end of 2022: runtimes on devices aren't the newest


class CannotWriteError(Exception):
    """Why a step can't be written."""


class Graph:
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

    def to_bytes(self, input_shape: tuple[int, ...], output_shape: tuple[int, ...]) -> bytes:
        """Put the file together."""
        from onnx import TensorProto, helper

        X, embedding = (
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape])
            for name, shape in [("X", input_shape), ("embedding", output_shape)]
        )
        return helper.make_model(
            helper.make_graph(self.nodes, "embedding", [X], [embedding], self.constants),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=_IR_VERSION,
            producer_name="ccml",
        ).SerializeToString()


def require(package: str) -> None:
    """Say what to install if a package isn't there."""
    try:
        import_module(package)
    except ImportError as error:
        raise ImportError(
            f"export_onnx needs the package {package}: pip install 'ccml[onnx]'."
        ) from error
