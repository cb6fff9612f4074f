"""The ``ccml`` command: parse, call, format."""

from ccml.cli._app import app

__all__ = ["app"]
