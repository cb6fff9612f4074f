"""What the site does to the docstrings: numpydoc as it is meant to be read."""

import re
from typing import Any

import griffe
from griffe._internal.docstrings import numpy as parser


class BareClassVar(griffe.Extension):
    """``name: ClassVar`` is no field of a dataclass; griffe knows only ``ClassVar[...]``."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Say so before signatures are made."""
        if str(attr.annotation) == "ClassVar":
            attr.labels.discard("instance-attribute")
            attr.labels.add("class-attribute")


def on_startup(**_: Any) -> None:
    """Take types as they are written, and defaults from the signature.

    griffe reads types as Python, where "log-likelihood" is a difference, and takes the first of
    several choices for the default.
    """
    read = parser._read_parameters

    def read_with_defaults(lines: Any, docstring: Any, **options: Any) -> Any:
        parameters, offset = read(lines, docstring, **options)
        signature = getattr(docstring.parent, "parameters", ())
        for parameter in parameters:
            if parameter.name in signature:
                parameter.value = signature[parameter.name].default
        return parameters, offset

    parser._read_parameters = read_with_defaults
    parser.parse_docstring_annotation = lambda annotation, *_, **__: annotation


def on_page_content(html: str, **_: Any) -> str:
    """Turn ``[1]_`` and ``.. [1]`` into ``[1]``, and leave out the dash before no description."""
    html = re.sub(r"\u2013\s*<div class=\"doc-md-description\">\s*</div>", "", html)
    return re.sub(r"(?:\.\. )?\[(\d+)\](?:_(?!\w))?", r"[\1]", html)
