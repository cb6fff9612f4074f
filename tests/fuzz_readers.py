"""Everything that reads a file, for `tests.fuzz`, and what that may raise."""

import os
import sys
import warnings
from collections import deque
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple


class Reader(NamedTuple):
    """How files are read, and what that may raise."""

    read: Callable[[Path], Any]
    errors: tuple[type[Exception], ...]
    names_the_file: bool = True
    use: Callable[[Any], Any] = repr  # may refuse in any way, but has to end, and to run no code


def readers() -> dict[str, Reader]:
    """By the names of the seeds."""
    import numpy as np
    import pandas as pd

    from ccml.datasets import load_small_norb
    from ccml.datasets._mnist import read_idx
    from ccml.persistence import ModelFileError, describe, load
    from ccml.reading import DataFileError, read
    from ccml.training import Checkpoint, CheckpointError

    def load_model(folder: Path) -> Any:
        describe(folder / "m.ccml")
        return load(folder / "m.ccml")

    rows, table = np.ones((2, 3)), pd.DataFrame({"height": [1.0, 2.0], "leaf": ["a", "b"]})
    run = {"learner": "CCML"}
    tables = {
        suffix: Reader(lambda f, s=suffix: read(f / f"t.{s}", target="kind"), (DataFileError,))
        for suffix in ("csv", "tsv", "parquet", "feather")
    }
    norb = Reader(load_small_norb, (OSError,))
    return tables | {
        "pipeline.ccml": Reader(load_model, (ModelFileError,), use=lambda m: m.predict(rows)),
        "table.ccml": Reader(load_model, (ModelFileError,), use=lambda m: m.predict(table)),
        "npz": Reader(lambda f: read(f / "a.npz"), (DataFileError,)),
        "npy": Reader(lambda f: read(f / "a.npy", labels=f / "y.npy"), (DataFileError,)),
        "txt": Reader(lambda f: read(f / "a.npy", labels=f / "y.txt"), (DataFileError,)),
        "images": Reader(read, (DataFileError,)),
        "norb": norb,
        "norb-gz": norb,
        "idx": Reader(lambda f: read_idx((f / "i.idx").read_bytes()), (ValueError,), False),
        "checkpoint": Reader(
            lambda f: Checkpoint(f / "run.ckpt", 60, run).load(), (CheckpointError,)
        ),
    }


# What has to be found, to see that it is.
_TRAPS: list[Callable[[Path], Any]] = [
    lambda f: {}["another type of error"],
    lambda f: int("several\nlines"),
    lambda f: int("no file is named"),
    lambda f: warnings.warn(f"of {f}", stacklevel=1),
    lambda f: bytearray(1 << 40),
    lambda f: deque(repeat(None), maxlen=0),  # without end
    lambda f: os.abort(),
    lambda f: sys.exit(0),
    lambda f: os.system("true"),
    lambda f: exec("1"),
    lambda f: (f.parents[3] / "outside").write_bytes(b""),
]
trap = Reader(lambda folder: _TRAPS[int((folder / "trap").read_text())](folder), (ValueError,))
