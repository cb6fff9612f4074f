"""Embeddings for where Python isn't: `export_onnx`."""

from ccml.export._onnx import export_onnx

__all__ = ["export_onnx"]
