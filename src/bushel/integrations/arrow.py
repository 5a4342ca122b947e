"""PyArrow: samples as a stream of record batches.

`Dataset.to_arrow` is the index as a table, and reads no data. This module is about the values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bushel._dataset.views.dataset import Dataset
from bushel._index.class_names import holds_numbers
from bushel.errors import needed_by
from bushel.spec import KEY, Field, parse_spec

with needed_by("bushel.integrations.arrow", "bushel[arrow]"):
    import pyarrow as pa

__all__ = ["ArrowStream", "arrow_type"]

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
