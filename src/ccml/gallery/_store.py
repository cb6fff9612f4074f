"""The collections of a gallery in the database, and their rows."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml.gallery._connection import Connection
from ccml.gallery._keys import (
    ITEM,
    KEY,
    KEY_LENGTH,
    LABEL,
    MOST_TERMS,
    TERMS,
    VECTOR,
    among,
    key_of,
    text_of,
)  # fmt: skip

MOST_BYTES = 65_535  # of a text in Milvus
MOST_HITS = 16_384  # of a query in Milvus
_CALL_BYTES = 2**24  # of rows in a call; Milvus takes 64 MB
_CALL_QUERIES, _CALL_HITS, _CALL_KEYS = 1024, 2**17, 2**13
_MODEL, _IN_USE = "model", "in use"  # rows among the labels that are none: no key is so short
# Milvus Lite looks at rows that aren't in a segment yet one by one, in Python.
_UNSETTLED_ROWS = 1000
# Its FLAT index holds the differences between all rows and the queries of a call. From so many
# rows on, the index is FAISS' with a single cell instead: as exact, and several times as fast.
_LARGE = 10_000
_FLAT, _ONE_CELL = {"index_type": "FLAT"}, {"index_type": "IVF_FLAT", "nlist": 1}
_ELEMENTS = 2**25  # of those differences

Row = dict[str, Any]


class Store:
    """Two collections: one of the items, and one of their labels and of what the model was."""

    def __init__(
        self,
        connection: Connection,
        name: str,
        index: Mapping[str, Any] | None,
        search_params: Mapping[str, Any],
    ) -> None:
        self._call, self._tried = connection.call, connection.tried
        self._is_file = connection.is_file
        self._items, self._labels = name, f"{name}__labels"  # no gallery has this name
        self._index, self._search_params = index, dict(search_params)
        self._writing = Lock()  # Milvus Lite takes one writer at a time

    def model(self, model: Row) -> Row:
        """Return what is remembered of the model; at first, remember it."""
        self._make(self._labels, 2, _FLAT)
        if not self._rows(self._labels, [_MODEL], [ITEM]):
            self._call("upsert", self._labels, [_label_row(_MODEL, model)])
        return json.loads(self._rows(self._labels, [_MODEL], [ITEM])[0][ITEM])

    def prepare(self, width: int) -> None:
        """Have the items ready."""
        self._make(self._items, width, self._index or _FLAT)
        self._width = width
        self._unsettled = 0
        if self._is_file:
            if self._rows(self._labels, [_IN_USE], [KEY]):
                self._recover()
            self._call("upsert", self._labels, [_label_row(_IN_USE, {})])
        self._n_rows = self.count()  # as far as this process knows: others may write to a server
        self._is_flat = self._call("describe_index", self._items, VECTOR)["index_type"] == "FLAT"

    def put_away(self) -> None:
        """Note that whoever used a file has come to an end."""
        if self._is_file:
            self._call("delete", self._labels, ids=[_IN_USE])

    def count(self) -> int:
        """Count the items."""
        (row,) = self._call("query", self._items, filter="", output_fields=["count(*)"])
        return int(row["count(*)"])

    def upsert(self, rows: Sequence[Row]) -> None:
        """Write items; those whose keys are there are replaced."""
        with self._writing:
            for part in _by_size(rows):
                self._call("upsert", self._items, part)
                self._n_rows += len(part)
                self._unsettled += len(part)
            self._settle()

    def delete(self, keys: Sequence[str]) -> None:
        """Remove items."""
        with self._writing:
            for part in _by_count(keys):
                self._call("delete", self._items, ids=part)

    def rows(self, keys: Sequence[str], fields: list[str]) -> list[Row]:
        """Return those of the items that are there, in any order."""
        return self._rows(self._items, keys, fields)

    def all_rows(self) -> Iterator[list[Row]]:
        """Yield all items, some at a time."""
        size = int(np.clip(_CALL_BYTES // (4 * self._width + 1000), 1, MOST_HITS))
        return self._pages(self._items, size, [ITEM, VECTOR])

    def has_label(self, label: Any) -> bool:
        """Say whether there is an item with a label."""
        where = among(LABEL, [key_of(label)])
        return bool(self._call("query", self._items, filter=where, output_fields=[KEY], limit=1))

    def labels(self) -> list[Row]:
        """Return the labels that items have or had: ``label``, and whether it ``may_be_unused``."""
        fields = [KEY, ITEM]
        rows = self._call("query", self._labels, filter="", output_fields=fields, limit=MOST_HITS)
        if len(rows) == MOST_HITS:  # there may be more
            rows = [row for page in self._pages(self._labels, MOST_HITS, fields) for row in page]
        items = {row[KEY]: row[ITEM] for row in rows}
        return [json.loads(item) for key, item in items.items() if len(key) == KEY_LENGTH]

    def upsert_labels(self, labels: Iterable[Any], *, may_be_unused: bool = False) -> None:
        """Remember labels."""
        rows = [
            _label_row(key_of(label), {"label": label, "may_be_unused": may_be_unused})
            for label in labels
        ]
        with self._writing:
            for part in _by_size(rows):
                self._call("upsert", self._labels, part)

    def search(
        self,
        Z: NDArray[np.float32],
        limit: int,
        fields: list[str],
        where: str = "",
        group_size: int | None = None,
    ) -> Iterator[Any]:
        """Yield for each query its nearest items, or the nearest of each of ``limit`` labels."""
        groups: Row = {}
        if group_size is not None:
            groups = {"group_by_field": LABEL, "group_size": group_size, "strict_group_size": True}
        size = self._queries_per_call(limit * (group_size or 1))
        for begin in range(0, len(Z), size):
            yield from self._call(
                "search",
                self._items,
                data=Z[begin : begin + size],
                limit=limit,
                filter=where,
                output_fields=fields,
                search_params={"metric_type": "L2", "params": self._search_params},
                consistency_level="Strong",
                **groups,
            )

    def _queries_per_call(self, n_hits: int) -> int:
        size = min(_CALL_QUERIES, _CALL_HITS // n_hits)
        if self._is_file:
            one_by_one = self._n_rows if self._is_flat else self._unsettled
            size = min(size, _ELEMENTS // (self._width * max(one_by_one, 1)))
        return max(size, 1)

    def _settle(self) -> None:
        """Have a file's rows where they are searched fast."""
        if not self._is_file or self._unsettled < _UNSETTLED_ROWS:
            return
        self._call("flush", self._items)
        self._unsettled = 0
        if self._index is None and self._is_flat and self._n_rows >= _LARGE:
            self._call("release_collection", self._items)
            self._call("drop_index", self._items, VECTOR)
            self._make(self._items, self._width, _ONE_CELL)
            self._is_flat = False

    def _recover(self) -> None:
        """Bring a file in order that a process had open when it was killed.

        Rows may be in no segment. And killed while it merges segments, Milvus Lite 3.2 may keep the
        old ones beside the new one, and rows twice, until they are written again.
        """
        self._call("flush", self._items)
        pages = self._pages(self._items, MOST_HITS, [KEY])
        copies = Counter(row[KEY] for page in pages for row in page)
        twice = [key for key, n in copies.items() if n > 1]
        rows = self._rows(self._items, twice, [KEY, ITEM, LABEL, TERMS, VECTOR])
        for part in _by_size([*{row[KEY]: row for row in rows}.values()]):
            self._call("upsert", self._items, part)

    def _make(self, name: str, width: int, index: Mapping[str, Any]) -> None:
        """Make a collection and its index, or what a process that was killed has left out."""
        if not self._call("has_collection", name):
            schema = _schema(width, with_labels=name == self._items)
            self._call("create_collection", name, schema=schema, consistency_level="Strong")
        if VECTOR not in self._call("list_indexes", name):
            self._call("create_index", name, _index_params(index, is_file=self._is_file))
        self._call("load_collection", name)

    def _rows(self, name: str, keys: Sequence[str], fields: list[str]) -> list[Row]:
        found: list[Row] = []
        for part in _by_count(keys):
            found += self._call("get", name, ids=part, output_fields=fields)
        return found

    def _pages(self, name: str, size: int, fields: list[str]) -> Iterator[list[Row]]:
        pages = self._call("query_iterator", name, batch_size=size, output_fields=fields)
        try:
            while page := self._tried(pages.next):
                yield page
        finally:
            pages.close()


def _schema(width: int, *, with_labels: bool) -> Any:
    from pymilvus import DataType, MilvusClient

    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field(KEY, DataType.VARCHAR, is_primary=True, max_length=KEY_LENGTH)
    schema.add_field(ITEM, DataType.VARCHAR, max_length=MOST_BYTES)
    schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=width)
    if with_labels:
        digest = {"max_length": KEY_LENGTH}
        schema.add_field(LABEL, DataType.VARCHAR, **digest)
        terms = {"element_type": DataType.VARCHAR, "max_capacity": MOST_TERMS}
        schema.add_field(TERMS, DataType.ARRAY, **terms, **digest)
    return schema


def _index_params(index: Mapping[str, Any], *, is_file: bool) -> Any:
    from pymilvus import MilvusClient

    kind = {"index_type": index["index_type"], "index_name": VECTOR, "metric_type": "L2"}
    rest: Row = {key: index[key] for key in index.keys() - kind.keys()}
    params = MilvusClient.prepare_index_params()
    # pymilvus 3 sends them one by one, where Milvus Lite 3.2 doesn't look for them.
    params.add_index(VECTOR, **kind, params={"params": rest} if is_file else rest)
    return params


def _label_row(key: str, item: Row) -> Row:
    return {KEY: key, ITEM: text_of(item), VECTOR: [0.0, 0.0]}  # Milvus has no rows without vector


def _by_size(rows: Sequence[Row]) -> Iterator[list[Row]]:
    part: list[Row] = []
    size = 0
    for row in rows:
        n_bytes = 4 * len(row[VECTOR]) + len(row[ITEM]) + KEY_LENGTH * (2 + len(row.get(TERMS, ())))
        if part and size + n_bytes > _CALL_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += n_bytes
    if part:
        yield part


def _by_count(keys: Sequence[str]) -> Iterator[list[str]]:
    for begin in range(0, len(keys), _CALL_KEYS):
        yield list(keys[begin : begin + _CALL_KEYS])
