"""A gallery as a Parquet file."""

import json
from collections.abc import Callable, Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml._atomic import whole_file
from ccml.gallery._connection import GalleryError
from ccml.gallery._items import Item, vectors_of
from ccml.gallery._keys import ITEM, text_of
from ccml.gallery._store import Row

_ABOUT = b"ccml gallery"  # the entry of the file's metadata
_ROWS = 10_000  # read at a time


def write(
    path: str | PathLike[str], model: dict[str, Any], width: int, pages: Iterable[list[Row]]
) -> int:
    """Write items; return how many."""
    import pyarrow as pa
    from pyarrow import parquet

    texts = [(name, pa.string()) for name in Item._fields]
    schema = pa.schema([*texts, ("vector", pa.list_(pa.float32(), width))])
    schema = schema.with_metadata({_ABOUT: json.dumps(model)})
    n_items = 0
    with whole_file(Path(path)) as file, parquet.ParquetWriter(file, schema) as writer:
        for page in pages:
            items = [Item.of(row[ITEM]) for row in page]
            columns = [[text_of(value) for value in column] for column in zip(*items, strict=True)]
            vectors = pa.FixedSizeListArray.from_arrays(vectors_of(page).ravel(), width)
            writer.write_table(pa.table([*columns, vectors], schema=schema))
            n_items += len(page)
    return n_items


def read(
    path: str | PathLike[str], is_mine: Callable[[dict[str, Any]], bool]
) -> Iterator[tuple[list[Item], NDArray[np.float32]]]:
    """Yield the items of a file and their vectors, some at a time."""
    from pyarrow import parquet

    with Path(path).open("rb") as source:
        try:
            file = parquet.ParquetFile(source)
            model = json.loads(file.schema_arrow.metadata[_ABOUT])
            same = is_mine(model)
        except Exception as error:  # somebody else's file, or a damaged one
            raise GalleryError(f"{fspath(path)} isn't what a gallery has exported.") from error
        if not same:
            raise GalleryError(
                f"{fspath(path)} has vectors of another model, {str(model.get('model'))[:500]}. "
                "Add the items themselves instead."
            )
        for batch in file.iter_batches(_ROWS):
            try:
                batch.validate(full=True)
                columns = [map(json.loads, batch[name].to_pylist()) for name in Item._fields]
                items = [Item(*values) for values in zip(*columns, strict=True)]
                vectors = batch["vector"].flatten().to_numpy().reshape(len(items), -1)
            except Exception as error:
                raise GalleryError(f"{fspath(path)} is damaged ({error}).") from error
            yield items, vectors
