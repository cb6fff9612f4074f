"""Learn a distance from labelled data; classify and retrieve by class-conditional neighbours.

The names below are imported when they are first used: ``import ccml`` alone doesn't import torch.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ccml import (
        classifiers,
        datasets,
        embeddings,
        evaluation,
        export,
        gallery,
        learners,
        neighbors,
        objectives,
        persistence,
        plotting,
        preprocessing,
        training,
    )
    from ccml.classifiers import CCKNNClassifier, NBNNClassifier, NearestMeanClassifier
    from ccml.gallery import Gallery
    from ccml.learners import (
        CCML,
        ITML,
        KNCA,
        LMNN,
        NCA,
        NCMC,
        ConvCCML,
        ConvNetClassifier,
        DrLIM,
    )
    from ccml.persistence import load, save

__version__ = version("ccml")

_LEARNERS = (
    "CCML", "ConvCCML", "ConvNetClassifier", "DrLIM", "ITML", "KNCA", "LMNN", "NCA", "NCMC"
)  # fmt: skip
_CLASSIFIERS = ("CCKNNClassifier", "NBNNClassifier", "NearestMeanClassifier")
_HOMES = (
    dict.fromkeys(_LEARNERS, "ccml.learners")
    | dict.fromkeys(_CLASSIFIERS, "ccml.classifiers")
    | dict.fromkeys(["load", "save"], "ccml.persistence")
    | {"Gallery": "ccml.gallery"}
)
_MODULES = (
    "classifiers",
    "datasets",
    "embeddings",
    "evaluation",
    "export",
    "gallery",
    "learners",
    "neighbors",
    "objectives",
    "persistence",
    "plotting",
    "preprocessing",
    "training",
)

__all__ = [
    "CCML",
    "ITML",
    "KNCA",
    "LMNN",
    "NCA",
    "NCMC",
    "CCKNNClassifier",
    "ConvCCML",
    "ConvNetClassifier",
    "DrLIM",
    "Gallery",
    "NBNNClassifier",
    "NearestMeanClassifier",
    "classifiers",
    "datasets",
    "embeddings",
    "evaluation",
    "export",
    "gallery",
    "learners",
    "load",
    "neighbors",
    "objectives",
    "persistence",
    "plotting",
    "preprocessing",
    "save",
    "training",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"ccml.{name}")
    else:
        from ccml._validation import did_you_mean

        raise AttributeError(f"ccml has no {name!r}{did_you_mean(name, __all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
