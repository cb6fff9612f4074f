"""Records: what is refused, and that the file, the schema and the class agree."""

import json
from dataclasses import asdict, fields, replace
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from ccml.experiments import records
from ccml.experiments.records import Record

SCHEMA = json.loads(files("ccml.experiments").joinpath("results.schema.json").read_text("utf-8"))
MEASURED = Record(
    row="CCML",
    dataset="isolet",
    rule="ccknn",
    error=3.41,
    spread=0.08,
    paper=3.60,
    seeds=(0, 1, 2),
    settings={"k": 3, "learner": {"dropout": 0.2}},
    seconds=41.2,
    commit="1a2b3c4",
    machine="2 cores, Linux – x86",  # noqa: RUF001
    stand_in=False,
    command="ccml reproduce --datasets isolet",
)
MISSING = replace(
    MEASURED, row="KNCA", dataset="wine", error=None, spread=None, paper=None, seeds=(),
    seconds=None, reason='it needs "more" memory',
)  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.json"


def test_the_schema_is_one_and_names_what_the_class_names():
    Draft202012Validator.check_schema(SCHEMA)
    record = SCHEMA["$defs"]["record"]
    names = [field.name for field in fields(Record)]
    assert record["required"] == list(record["properties"]) == names
    for field, options in [("row", "ROWS"), ("dataset", "DATASETS"), ("rule", "RULES")]:
        assert record["properties"][field]["enum"] == list(getattr(records, options))


def test_what_is_written_is_read_again_in_the_tables_order(path):
    records.write(path, [MEASURED, MISSING])
    assert records.read(path) == [MISSING, MEASURED]  # wine before ISOLET
    Draft202012Validator(SCHEMA).validate(json.loads(path.read_text("utf-8")))


def test_the_file_depends_on_the_records_alone_and_has_a_field_a_line(path):
    records.write(path, [MEASURED, MISSING])
    first = path.read_bytes()
    records.write(path, [MISSING, MEASURED])
    assert path.read_bytes() == first
    text = first.decode()
    assert text.endswith("]\n")
    assert '    "seeds": [0, 1, 2],\n    "settings": {"k": 3, "learner": {"dropout": 0.2}},' in text


def test_no_records_are_a_file_too(path):
    records.write(path, [])
    assert records.read(path) == []


def test_two_records_for_one_place_are_refused_and_the_old_file_stays(path):
    records.write(path, [MISSING])
    with pytest.raises(ValueError, match="two records for CCML, isolet, ccknn; keep one"):
        records.write(path, [MEASURED, replace(MEASURED, error=9.0)])
    assert records.read(path) == [MISSING]


BAD = [
    ({"row": "CCLM"}, r"Record\(row='CCLM'\) is not an option; did you mean 'CCML'"),
    ({"dataset": "iris"}, "dataset='iris'"),
    ({"rule": "KNN"}, "rule='KNN'"),
    ({"error": "3.41"}, r"Record\(error='3.41'\) must be a number, at least 0 and at most 100"),
    ({"error": 100.1}, "error=100.1"),
    ({"error": True}, "error=True"),
    ({"error": None}, r"Record\(error=None\) must be a number, or there is a reason"),
    ({"spread": -0.1}, "spread=-0.1"),
    ({"spread": None}, "spread=None"),
    ({"paper": "3.6"}, "paper='3.6'"),
    ({"seeds": 3}, r"Record\(seeds=3\) must be a tuple"),
    ({"seeds": []}, "at least one seed"),
    ({"seeds": [0, 1.5]}, r"Record\(seeds=1.5\) must be a whole number of at least 0"),
    ({"seeds": [-1]}, "seeds=-1"),
    ({"settings": []}, r"Record\(settings=\[\]\) must be a dict"),
    ({"settings": None}, "settings=None"),
    ({"seconds": -1}, "seconds=-1"),
    ({"commit": None}, r"Record\(commit=None\) must be text"),
    ({"machine": 2}, "machine=2"),
    ({"stand_in": "no"}, r"Record\(stand_in='no'\) must be True or False"),
    ({"command": ["ccml"]}, "command="),
    ({"reason": 5}, r"Record\(reason=5\) must be text, or None"),
    ({"reason": "too slow"}, r"Record\(error=3.41\) must be None where there is a reason"),
    ({"eror": 3.41}, "there is no field 'eror'; did you mean 'error'"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=lambda value: str(value)[:40])
def test_a_wrong_field_is_named_and_the_schema_refuses_it_too(path, change, message):
    entry = json.loads(json.dumps(asdict(MEASURED))) | change
    path.write_text(json.dumps([json.loads(json.dumps(asdict(MISSING))), entry]))
    with pytest.raises(ValueError, match=message) as caught:
        records.read(path)
    assert str(caught.value).startswith(f"{path}, record 2 ({entry['row']}, ")
    assert not Draft202012Validator(SCHEMA).is_valid([entry])


@pytest.mark.parametrize("name", [field.name for field in fields(Record)])
def test_a_missing_field_is_named(path, name):
    entry = json.loads(json.dumps(asdict(MEASURED)))
    del entry[name]
    path.write_text(json.dumps([entry]))
    with pytest.raises(ValueError, match=f"record 1 .*the field '{name}' is missing"):
        records.read(path)
    assert not Draft202012Validator(SCHEMA).is_valid([entry])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "isn't JSON"),
        ("[{]", "isn't JSON"),
        ("\xff", "isn't JSON"),
        ('[{"error": NaN}]', "it has NaN, which JSON hasn't"),
        ("{}", "must hold a list of records, not an object"),
        ("3", "must hold a list of records, not 3"),
        ("[3]", "record 1: it must be an object, not 3"),
        ("[{}]", "record 1: the field 'row' is missing"),
    ],
)
def test_a_file_of_something_else_is_refused(path, text, message):
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=message):
        records.read(path)


@pytest.mark.parametrize("settings", [{"k": {1}}, {"k": float("nan")}])
def test_settings_that_json_cannot_hold_are_refused_at_once(settings):
    with pytest.raises(ValueError, match=r"Record\(settings=.* must be what JSON can hold"):
        replace(MEASURED, settings=settings)


@pytest.mark.parametrize(
    ("error", "expected"), [(3.59, True), (3.60, True), (3.6049, True), (3.6051, False)]
)
def test_an_error_is_compared_as_it_is_printed(error, expected):
    assert replace(MEASURED, error=error).at_most_paper is expected


def test_what_cannot_be_compared_is_neither_better_nor_worse():
    assert MISSING.at_most_paper is None
    assert replace(MEASURED, paper=None).at_most_paper is None
    assert replace(MEASURED, stand_in=True).at_most_paper is None
