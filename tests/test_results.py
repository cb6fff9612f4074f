"""The results in the docs are those in docs/results."""

import json
import re
import runpy
import subprocess
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ccml.experiments import protocol, records

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "results.json"


def test_the_page_is_what_make_results_writes():
    page = runpy.run_path(str(ROOT / "docs" / "_results.py"))["page"]
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == page()


def test_every_place_of_the_table_has_its_number():
    schema = files("ccml.experiments").joinpath("results.schema.json").read_text("utf-8")
    Draft202012Validator(json.loads(schema)).validate(json.loads(RESULTS.read_bytes()))
    found = records.read(RESULTS)
    assert {record.place for record in found} == {
        (row, name, rule)
        for name in ("wine", "isolet", "mnist", "norb")
        for row in protocol.rows_of(name)
        for rule in records.RULES
    }
    assert all(record.error is not None for record in found)


def test_every_figure_was_computed_at_a_commit_that_has_its_settings():
    for record in records.read(RESULTS):
        assert "-changed" not in record.commit
        path = f"src/ccml/experiments/settings/{record.dataset}.toml"
        now = chosen(tomllib.loads((ROOT / path).read_text(encoding="utf-8")), record.row)
        for commit in record.commit.split(records.SEPARATOR):
            assert chosen(settings_at(commit, path), record.row) == now, record.place


def chosen(settings, row):
    noted = ("note", "validation", "seconds")
    return {name: value for name, value in settings.get(row, {}).items() if name not in noted}


@cache
def settings_at(commit, path):
    command = ["git", "-C", str(ROOT), "show", f"{commit}:{path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"without the history there is no commit {commit}")
    return tomllib.loads(done.stdout)


def test_every_figure_is_of_the_settings_that_the_command_uses():
    for record in records.read(RESULTS):
        used = protocol.settings_of(record.dataset, record.row)
        expected = protocol.own_parameters(record.row) | dict(used.learner)
        if not record.row.startswith("ConvNet"):
            expected[f"k of {record.rule.upper()}"] = getattr(used, record.rule)
        if record.row not in protocol.NETWORKS:
            expected["PCA"] = used.pca_of(record.rule)
        shown = {name: value for name, value in record.settings.items() if name != "dimensions"}
        assert shown == expected, (record.dataset, record.row)


@pytest.mark.parametrize(
    ("dataset", "row", "name"),
    [
        ("wine", "CCML", "wine | `CCML`"),
        ("isolet", "CCML", "ISOLET | `CCML`"),
        ("mnist", "CCML", "MNIST | `CCML`"),
        ("mnist", "CCML-shifts", "MNIST | `CCML`, images and shifted copies"),
        ("mnist", "ConvCCML-2", "MNIST | `ConvCCML`, 2 layers"),
        ("mnist", "ConvCCML-2-shifts", "MNIST | `ConvCCML`, 2 layers, shifts"),
    ],
)
def test_the_readme_has_the_same_figures(dataset, row, name):
    found = {
        record.rule: record
        for record in records.read(RESULTS)
        if (record.dataset, record.row) == (dataset, row)
    }
    cells = [name]
    for record in (found["knn"], found["ccknn"]):
        paper = "" if record.paper is None else f"{record.paper:.2f}"
        cells += [records.two_decimals(record.error), paper]
    line = f"| {' | '.join(cells)} |"
    assert re.search(re.escape(line), (ROOT / "README.md").read_text())
