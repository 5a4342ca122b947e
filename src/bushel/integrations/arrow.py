"""PyArrow: samples as a stream of record batches, and Arrow tables and Parquet files as a source for `bushel.pack`.

`Dataset.to_arrow` is the index as a table, and reads no data. This module is about the values.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bushel._dataset.views.dataset import Dataset
from bushel._index.class_names import holds_numbers
from bushel._runtime.arrays import offsets_of
from bushel.errors import SpecError, needed_by
from bushel.sources.base import Sample
from bushel.sources.samples import infer_spec
from bushel.spec import KEY, Field, parse_spec

with needed_by("bushel.integrations.arrow", "bushel[arrow]"):
    import pyarrow as pa
    import pyarrow.dataset

__all__ = ["ArrowSource", "ArrowStream", "arrow_type"]

_TYPES: Mapping[str, pa.DataType] = {
    "utf8": pa.large_string(),
    "json": pa.large_string(),
    "float": pa.float64(),
    "f32": pa.float32(),
    "float-text": pa.float64(),
    "uint": pa.uint64(),
    "u64": pa.uint64(),
    "recordio-label": pa.list_(pa.float32()),
}
"""Types of values by codec. Other numbers are int64, and all other values are their stored bytes."""

# row groups that a source keeps in memory: `pack` reads them in order, in several threads
_ROW_GROUPS = 4


def arrow_type(field: Field) -> pa.DataType:
    """Return the Arrow type of a field's values: numbers, text, JSON as text, and stored bytes of everything else.

    Examples:
        >>> from bushel.integrations.arrow import arrow_type
        >>> from bushel.spec import parse_spec
        >>> arrow_type(parse_spec({"words": "utf8[]"})["words"])
        LargeListType(large_list<item: large_string>)
    """
    codec = field.codec.partition("(")[0]
    if codec in _TYPES:
        plain = _TYPES[codec]
    elif holds_numbers({field.name: field}, field.name):
        plain = pa.int64()
    else:
        plain = pa.large_binary()
    if field.sequence:
        return pa.large_list(plain)
    return plain


class ArrowStream:
    """The samples of a dataset as record batches, for every reader of Arrow streams: DuckDB, polars, pandas, PyArrow.

    Images, clips, arrays and other values without an Arrow type are columns of their stored bytes.
    It can be read more than once; every reader gets a stream of its own, which reads the dataset
    batch by batch.

    Args:
        dataset: The dataset or view.
        fields: The fields to read; default: all. Only their bytes are read.
        batch_samples: Number of samples in a record batch.

    Attributes:
        schema: The `pyarrow.Schema`: `__key__` (text; the position of a sample without a key), then
            the fields.

    Raises:
        KeyError: A field does not exist.

    Examples:
        >>> import pyarrow
        >>> from bushel.integrations.arrow import ArrowStream
        >>> table = pyarrow.table(ArrowStream(ds, ["label"]))
        >>> table.num_rows, table.column_names
        (12, ['__key__', 'label'])
    """

    def __init__(
        self, dataset: Dataset, fields: Sequence[str] | None = None, *, batch_samples: int = 256
    ) -> None:
        if batch_samples < 1:
            raise ValueError(f"batch_samples={batch_samples}: expected 1 or more")
        self._dataset = dataset if fields is None else dataset.select_fields(fields)
        self._batch_samples = batch_samples
        self._fields = parse_spec(self._dataset.spec)
        columns = [pa.field(name, arrow_type(field)) for name, field in self._fields.items()]
        self.schema = pa.schema([pa.field(KEY, pa.large_string()), *columns])

    def __len__(self) -> int:
        return len(self._dataset)

    def __repr__(self) -> str:
        return f"<bushel.integrations.arrow.ArrowStream of {self._dataset!r}>"

    def reader(self) -> pa.RecordBatchReader:
        """Return a reader of all samples, from the first one on.

        `pyarrow.dataset.Scanner.from_batches` filters it, and `pyarrow.parquet.ParquetWriter`
        writes it.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        opaque = [name for name in self._fields if self._is_opaque(name)]
        plain = [name for name in self._fields if name not in opaque]
        for first in range(0, len(self), self._batch_samples):
            positions = range(first, min(first + self._batch_samples, len(self)))
            decoded = self._dataset.read(positions, plain)
            stored = self._dataset.read(positions, opaque, decode=False) if opaque else ()
            columns = [pa.array([sample[KEY] for sample in decoded], pa.large_string())]
            for name, field in self._fields.items():
                values = [sample.get(name) for sample in (stored if name in opaque else decoded)]
                if field.codec == "json":
                    values = [_json_text(value, sequence=field.sequence) for value in values]
                columns.append(pa.array(values, self.schema.field(name).type))
            yield pa.record_batch(columns, schema=self.schema)

    def _is_opaque(self, name: str) -> bool:
        kind = arrow_type(self._fields[name])
        return bool(
            pa.types.is_large_binary(kind.value_type if self._fields[name].sequence else kind)
        )


def _json_text(value: Any, *, sequence: bool) -> Any:
    if value is None:
        return None
    if sequence:
        return [json.dumps(element) for element in value]
    return json.dumps(value)


class ArrowSource:
    """A table or dataset of PyArrow, such as a folder of Parquet files, as a source for `bushel.pack`.

        bushel.pack(ArrowSource(pyarrow.dataset.dataset("parquet/"), key="id"), "out/",
        container="tar")

    Rows are read by row group, and the last few row groups are kept in memory. Structs of `bytes`
    and `path`, as images are stored by Hugging Face, become their bytes.

    Args:
        data: The table or dataset.
        spec: Field names to types, such as `{"image": "jpg"}`; by default they are inferred from
            the first row.
        key: The column of the keys. By default `__key__`, if there is one.

    Attributes:
        spec: Field names to types.

    Raises:
        SpecError: A column does not exist, or its type cannot be inferred from the first row.

    Examples:
        >>> import pyarrow
        >>> from bushel.integrations.arrow import ArrowSource
        >>> table = pyarrow.table({"id": ["a", "b"], "text": ["one", "two"]})
        >>> bushel.pack(ArrowSource(table, key="id"), "texts.tar").samples
        2
    """

    def __init__(
        self,
        data: pa.Table | pyarrow.dataset.Dataset,
        *,
        spec: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> None:
        self._data = data
        names = list(data.schema.names)
        if key is None and KEY in names:
            key = KEY
        self._key = key
        missing = [name for name in [*(spec or ()), *([key] if key else ())] if name not in names]
        if missing:
            raise SpecError(f"unknown column {missing[0]!r}; the columns are {', '.join(names)}")
        self._names = [name for name in (spec or names) if name != self._key]
        self._pieces = _pieces(data)
        self._starts = offsets_of(rows for _, rows in self._pieces)
        if spec is None and not len(self):
            raise SpecError("fields cannot be inferred without rows: pass spec=")
        self.spec: Mapping[str, str] = dict(spec) if spec is not None else infer_spec(self[0])

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in self.__dict__.items() if name not in ("_load", "_lock")
        }

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, position: int) -> Sample:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is out of range for {len(self)} rows")
        piece = int(np.searchsorted(self._starts, position, "right")) - 1
        table = self._table(piece)
        row = position - int(self._starts[piece])
        sample = {name: _plain(table.column(name)[row].as_py()) for name in self._names}
        if self._key is not None:
            sample[KEY] = str(table.column(self._key)[row].as_py())
        return {name: value for name, value in sample.items() if value is not None}

    def _table(self, piece: int) -> pa.Table:
        if "_load" not in self.__dict__:  # not in a pickled copy
            self._lock = threading.Lock()
            self._load = lru_cache(_ROW_GROUPS)(self._load_piece)
        with self._lock:  # threads that need the same row group wait for one of them to read it
            return self._load(piece)

    def _load_piece(self, piece: int) -> pa.Table:
        part = self._pieces[piece][0]
        names = [*self._names, *([self._key] if self._key is not None else ())]
        if isinstance(part, pa.Table):
            return part.select(names)
        return part.to_table(columns=names)


def _pieces(data: pa.Table | pyarrow.dataset.Dataset) -> list[tuple[Any, int]]:
    """Return the parts of a table or dataset that are read at once, and the number of rows of each."""
    if isinstance(data, pa.Table):
        return [(data, data.num_rows)]
    pieces: list[tuple[Any, int]] = []
    for fragment in data.get_fragments():
        if hasattr(fragment, "split_by_row_group"):  # of a Parquet file
            pieces += [
                (part, sum(group.num_rows for group in part.row_groups))
                for part in fragment.split_by_row_group()
            ]
        else:
            pieces.append((fragment, fragment.count_rows()))
    return pieces


def _plain(value: Any) -> Any:
    """Return the bytes of a Hugging Face image, and every other value as it is."""
    if (
        isinstance(value, Mapping)
        and value.keys() == {"bytes", "path"}
        and value["bytes"] is not None
    ):
        return value["bytes"]
    return value
