"""From one's own rows to a model and what it says of other rows, and what is remembered."""

from ccml.modelling._columns import inputs_of
from ccml.modelling._make import (
    EMBEDDINGS,
    LEARNERS,
    OF_THE_RUN,
    Errors,
    Made,
    Options,
    Parts,
    build,
    checked_labels,
    errors_of,
    make,
    parts_of,
    split,
    training_part,
)
from ccml.modelling._use import UNKNOWN, add_rows, embed, evaluate, predict, search

__all__ = [
    "EMBEDDINGS",
    "LEARNERS",
    "OF_THE_RUN",
    "UNKNOWN",
    "Errors",
    "Made",
    "Options",
    "Parts",
    "add_rows",
    "build",
    "checked_labels",
    "embed",
    "errors_of",
    "evaluate",
    "inputs_of",
    "make",
    "parts_of",
    "predict",
    "search",
    "split",
    "training_part",
]
