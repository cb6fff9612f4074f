"""The layout's promises: one direction of imports, and a light ``import ccml``."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ccml

PACKAGE = Path(ccml.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

# A module may import those to its right, and nothing in its own row but itself.
ROWS = [
    {"cli"},
    {"tuning"},
    {"experiments", "export", "gallery", "modelling"},
    {
        "learners",
        "classifiers",
        "evaluation",
        "datasets",
        "plotting",
        "preprocessing",
        "persistence",
        "reading",
        "_study",
    },
    {"training"},
    {"objectives"},
    {"neighbors", "embeddings", "centroids"},
    {"_images"},
    {"_validation", "_atomic", "_dask"},
]
HEIGHT = {name: -row for row, names in enumerate(ROWS) for name in names}


def module_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_names(path):
    """Full names of everything a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_module_has_its_row():
    assert {module_of(path) for path in FILES} - {"__init__"} == set(HEIGHT)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_one_way(path):
    importer = module_of(path)
    if importer == "__init__":
        return
    for name in imported_names(path):
        parts = name.split(".")
        if parts[0] == "ccml" and parts[1] in HEIGHT and parts[1] != importer:
            assert HEIGHT[parts[1]] < HEIGHT[importer], f"{path} imports {name}"
        if parts[0] == "sklearn":
            assert HEIGHT[importer] >= HEIGHT["learners"], f"{path} imports {name}"


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_import_is_light():
    heavy = run(
        "import ccml, sys; print([m for m in ('torch', 'matplotlib', 'pandas', 'sklearn', 'numba')"
        " if m in sys.modules])"
    )
    assert heavy.strip() == "[]"


def test_import_is_fast():
    """Whatever the machine: it is one file, and imports nothing but Python's own modules."""
    found = run(
        "import sys; before = set(sys.modules); import ccml\n"
        "print(*{name for name in set(sys.modules) - before"
        " if name.partition('.')[0] not in sys.stdlib_module_names})"
    )
    assert found.split() == ["ccml"]


def test_prediction_needs_no_torch():
    assert (
        run(
            "import numpy as np, sys\n"
            "from ccml import CCKNNClassifier\n"
            "CCKNNClassifier(1).fit([[0.0], [1.0]], [0, 1]).predict([[2.0]])\n"
            "print('torch' in sys.modules)"
        ).strip()
        == "False"
    )


def test_unknown_name_gets_a_suggestion():
    with pytest.raises(AttributeError, match="did you mean 'CCML'"):
        ccml.CCLM  # noqa: B018
    assert set(ccml.__all__) <= set(dir(ccml))


@pytest.mark.parametrize("name", ccml.__all__)
def test_public_names_exist(name):
    assert getattr(ccml, name).__doc__
