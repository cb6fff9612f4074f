"""What an experiment gives: its numbers, comparisons and figures, and the file they are kept in.

The file's form is in ``results.schema.json``.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, Literal, NoReturn

from ccml._atomic import whole_file
from ccml._validation import check_count, check_number, check_option, did_you_mean

ROWS = {  # the table's rows from top to bottom, and what they are called there
    "Euclidean": "Euclidean",
    "Euclidean-best-PCA": "Euclidean (best PCA)",
    "ITML": "ITML",
    "NCMC": "NCMC",
    "LMNN": "LMNN",
    "NCA": "NCA",
    "KNCA": "KNCA",
    "CCML": "CCML",
    "CCML-log": "CCML (log-likelihood)",
    "CCML-accuracy": "CCML (expected accuracy)",
    "CCML-per-class": "CCML (per-class objective)",
    "CCML-heard": "CCML (chosen on heard speakers)",
    "CCML-shifts": "CCML (images and shifted copies)",
    "ConvNet-1": "ConvNet (1 layer)",
    "ConvNet-2": "ConvNet (2 layers)",
    "ConvCCML-1": "ConvCCML (1 layer)",
    "ConvCCML-2": "ConvCCML (2 layers)",
    "ConvCCML-2-shifts": "ConvCCML (2 layers, shifts)",
}
LINEAR = ("ITML", "NCMC", "LMNN", "NCA", "KNCA", "CCML")
VARIANTS = tuple(row for row in ROWS if row.startswith("CCML-"))
NETWORKS = tuple(row for row in ROWS if row.startswith("Conv"))
DATASETS = {
    "wine": "Wine",
    "isolet": "ISOLET",
    "mnist": "MNIST",
    "norb": "NORB",
    "digits": "Digits",  # not in the paper
}
RULES = {"knn": "KNN", "ccknn": "CCKNN"}
SEPARATOR = "; "  # of commits, and of machines, whose names have commas


@dataclass(frozen=True)
class Record:
    """One number of the table, or the reason why there is none.

    Parameters
    ----------
    row, dataset, rule : str
        Where it stands: of `ROWS`, `DATASETS` and `RULES`.
    error, spread : float or None
        Mean and standard deviation over the seeds, in percent of the test rows.
    paper : float or None
        The paper's figure, if it has one.
    seeds : tuple of int
    settings : dict
        What was chosen for it; anything that JSON can hold.
    seconds : float or None
        How long it took.
    commit, machine : str
        Which code, and where.
    stand_in : bool
        Whether the data isn't the paper's.
    command : str
        What gives this number again.
    reason : str, optional
        Why there is no number: then ``error``, ``spread`` and ``seconds`` are None, and ``seeds``
        is empty.
    notes : tuple of str, optional
        What else to know, such as that training ended before it had converged.

    Examples
    --------
    >>> record = Record("CCML", "isolet", "knn", 3.41, 0.08, 3.66, (0, 1, 2), {"k": 5}, 41.2,
    ...                 "1a2b3c4", "2 cores", False, "ccml reproduce --datasets isolet")
    >>> record.at_most_paper
    True
    """

    row: str
    dataset: str
    rule: str
    error: float | None
    spread: float | None
    paper: float | None
    seeds: tuple[int, ...]
    settings: dict[str, Any]
    seconds: float | None
    commit: str
    machine: str
    stand_in: bool
    command: str
    reason: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_option("Record", "row", self.row, ROWS)
        check_option("Record", "dataset", self.dataset, DATASETS)
        check_option("Record", "rule", self.rule, RULES)
        for name in ("commit", "machine", "command"):
            self._check_type(name, str, "text")
        self._check_type("stand_in", bool, "True or False")
        self._check_type("seeds", tuple, "a tuple of whole numbers")
        self._check_type("notes", tuple, "a tuple of texts")
        self._check_settings()
        for seed in self.seeds:
            check_count("Record", "seeds", seed, minimum=0)
        if self.paper is not None:
            check_number("Record", "paper", self.paper, minimum=0, maximum=100)
        if self.reason is None:
            self._check_numbers()
        else:
            self._check_type("reason", str, "text, or None")
            self._check_no_numbers()

    def _check_type(self, name: str, kind: type, wanted: str) -> None:
        if not isinstance(getattr(self, name), kind):
            raise ValueError(f"Record({name}={getattr(self, name)!r}) must be {wanted}.")

    def _check_settings(self) -> None:
        self._check_type("settings", dict, "a dict")
        try:
            json.dumps(self.settings, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Record(settings={self.settings!r}) must be what JSON can hold; {error}."
            ) from error

    def _check_numbers(self) -> None:
        for name, maximum in (("error", 100), ("spread", 100), ("seconds", None)):
            value = getattr(self, name)
            if value is None:
                raise ValueError(f"Record({name}=None) must be a number, or there is a reason.")
            check_number("Record", name, value, minimum=0, maximum=maximum)
        if not self.seeds:
            raise ValueError("Record(seeds=()) must name at least one seed, or there is a reason.")

    def _check_no_numbers(self) -> None:
        for name in ("error", "spread", "seconds"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f"Record({name}={getattr(self, name)!r}) must be None where there is a reason."
                )
        if self.seeds:
            raise ValueError(f"Record(seeds={self.seeds!r}) must be () where there is a reason.")

    @property
    def place(self) -> tuple[str, str, str]:
        """Where in the table it stands: row, data set and rule."""
        return self.row, self.dataset, self.rule

    @property
    def best_n_components(self) -> int | None:
        """How many principal components were best, where the row is about that."""
        return self.settings.get("dimensions") if self.row == "Euclidean-best-PCA" else None

    @property
    def at_most_paper(self) -> bool | None:
        """Whether the error is at or below the paper's, to the paper's two decimals.

        None where they can't be compared: one is missing, or the data isn't the paper's.
        """
        if self.error is None or self.paper is None or self.stand_in:
            return None
        return rounded(self.error) <= self.paper

    @property
    def data(self) -> str:
        """What the data set is called, with a word if it isn't the paper's."""
        return data_name(self.dataset, stand_in=self.stand_in)


@dataclass(frozen=True)
class Comparison:
    """CCML against another linear metric, on the same test rows.

    Parameters
    ----------
    dataset, rule, row : str
        On what, by which rule, and the other metric.
    difference : float
        Its error minus CCML's, in percentage points: above 0 where CCML is better.
    p_value : float
        Of a paired t-test over the test rows; on NORB over its test toys.
    n : int
        How many of these there are.
    stand_in : bool
        Whether the data isn't the paper's.
    """

    dataset: str
    rule: str
    row: str
    difference: float
    p_value: float
    n: int
    stand_in: bool

    @property
    def data(self) -> str:
        """What the data set is called, with a word if it isn't the paper's."""
        return data_name(self.dataset, stand_in=self.stand_in)

    @property
    def units(self) -> str:
        """What the test is over, and how many."""
        return f"{self.n:,} test {'toys' if self.dataset == 'norb' else 'rows'}"


@dataclass(frozen=True)
class Figure:
    """A picture, in a file (SVG or PNG), and what gives it again.

    ``seconds`` is what it took with all that it shows; ``commit`` and ``machine`` are where that
    was computed.
    """

    name: str
    title: str
    caption: str
    path: Path
    command: str
    seconds: float
    seeds: tuple[int, ...]
    commit: str
    machine: str


def data_name(dataset: str, *, stand_in: bool) -> str:
    """Say what a data set is called, and so if it isn't the paper's."""
    return DATASETS[dataset] + (" (stand-in)" if stand_in else "")


def rounded(percent: float) -> float:
    """Round to the paper's two decimals, a half up: means of two seeds often end in one.

    Examples
    --------
    >>> rounded(0.675), rounded(0.705)
    (0.68, 0.71)
    >>> round(0.705, 2)
    0.7
    """
    return float(Decimal(str(percent)).quantize(Decimal("0.01"), ROUND_HALF_UP))


def two_decimals(percent: float) -> str:
    """Write an error as the paper does.

    Examples
    --------
    >>> two_decimals(0.705)
    '0.71'
    """
    return f"{rounded(percent):.2f}"


def all_of(fact: Literal["commit", "machine"], made: Iterable[Record | Figure]) -> list[str]:
    """List the commits or machines that results come from, each once; seeds may differ."""
    found = {name for one in made for name in getattr(one, fact).split(SEPARATOR)}
    return sorted(filter(None, found))


def in_order(records: Iterable[Record]) -> list[Record]:
    """Sort records by data set, row and rule; refuse two for one place."""
    found: dict[tuple[str, str, str], Record] = {}
    for record in records:
        if record.place in found:
            raise ValueError(f"There are two records for {', '.join(record.place)}; keep one.")
        found[record.place] = record
    places = [(row, data, rule) for data in DATASETS for row in ROWS for rule in RULES]
    return [found[place] for place in places if place in found]


def write(path: Path, records: Iterable[Record]) -> None:
    """Write records to a file: in order, a field a line, all of them or none.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> record = Record("KNCA", "wine", "knn", None, None, None, (), {}, None, "1a2b3c4", "2 cores",
    ...                 False, "ccml reproduce --datasets wine", reason="not asked for")
    >>> with TemporaryDirectory() as folder:
    ...     write(Path(folder) / "results.json", [record])
    ...     read(Path(folder) / "results.json") == [record]
    True
    """
    entries = []
    for record in in_order(records):
        lines = (
            f"    {json.dumps(name)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}"
            for name, value in asdict(record).items()
        )
        entries.append("  {\n" + ",\n".join(lines) + "\n  }")
    text = "[\n" + ",\n".join(entries) + "\n]\n" if entries else "[]\n"
    with whole_file(path) as file:
        file.write(text.encode())


def write_comparisons(path: Path, comparisons: Iterable[Comparison]) -> None:
    """Write comparisons to a file, a line each, all of them or none."""
    lines = [json.dumps(asdict(comparison)) for comparison in comparisons]
    with whole_file(path) as file:
        file.write(("[\n  " + ",\n  ".join(lines) + "\n]\n" if lines else "[]\n").encode())


def read_comparisons(path: Path) -> list[Comparison]:
    """Read what `write_comparisons` wrote."""
    return [Comparison(**entry) for entry in json.loads(path.read_bytes())]


def read(path: Path) -> list[Record]:
    """Read records from a file; an error says which record and which field is wrong."""
    try:
        entries = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except ValueError as error:
        raise ValueError(f"{path} isn't JSON: {error}. Write it anew.") from error
    if not isinstance(entries, list):
        raise ValueError(f"{path} must hold a list of records, not {_kind(entries)}.")
    records = []
    for number, entry in enumerate(entries, start=1):
        try:
            records.append(_record(entry))
        except ValueError as error:
            raise ValueError(f"{path}, record {number}{_place(entry)}: {error}") from error
    try:
        return in_order(records)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _record(entry: Any) -> Record:
    if not isinstance(entry, dict):
        raise ValueError(f"it must be an object, not {_kind(entry)}.")
    names = [field.name for field in fields(Record)]
    for name in entry:
        if name not in names:
            raise ValueError(f"there is no field {name!r}{did_you_mean(name, names)}")
    for name in names:
        if name not in entry:
            raise ValueError(f"the field {name!r} is missing.")
    lists = {name: entry[name] for name in ("seeds", "notes") if isinstance(entry[name], list)}
    return Record(**entry | {name: tuple(values) for name, values in lists.items()})


def _place(entry: Any) -> str:
    if not isinstance(entry, dict):
        return ""
    named = [str(entry[name]) for name in ("row", "dataset", "rule") if name in entry]
    return f" ({', '.join(named)})" if named else ""


def _kind(value: Any) -> str:
    for kind, name in ((dict, "an object"), (list, "a list"), (str, "text")):
        if isinstance(value, kind):
            return name
    return json.dumps(value)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it has {name}, which JSON hasn't")
