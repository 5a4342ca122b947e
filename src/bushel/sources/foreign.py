"""Samples of others: torch and other sequences, frames, Arrow, Lance, GulpIO's adapters, streams of archives."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from bushel._dataset.views.stream import StreamDataset
from bushel.codecs.base import INTEGERS
from bushel.errors import FormatError, SpecError
from bushel.spec import KEY

from .base import Sample
from .samples import Samples, Stream, Types, infer_spec

_ROWS_AT_ONCE = 1000
# samples, or bytes, of a stream that are read to find its fields
_FIRST_SAMPLES, _FIRST_BYTES = 1024, 16 << 20


class Rows(Protocol):
    """Samples by position, such as a map-style dataset of torch."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: Any, /) -> Any: ...


def samples_of(source: Any, types: Types) -> Samples | Stream | None:
    """Return the samples of an object of another library, None if its kind is not known.

    Args:
        source: A frame of pandas or polars, a table of Arrow, a dataset of PyArrow or Lance, or
            anything with a length and positions, or that can be iterated, whose samples are dicts,
            named tuples, or tuples for which `types` has names.
        types: Field names to types, as for `Samples`.

    Raises:
        SpecError: Samples are tuples, and `types` has not as many names.
    """
    if hasattr(source, "to_arrow") and hasattr(source, "columns"):  # polars
        source = source.to_arrow()
    if hasattr(source, "schema") and hasattr(source, "to_batches"):
        return _of_columns(_ArrowRows(source), types)
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return _of_columns(_FrameRows(source), types)
    # of `datasets`, where a ClassLabel has names, and the first row may lack its number
    features = getattr(source, "features", None)
    labels = {
        name: feature.names
        for name, feature in (features.items() if isinstance(features, Mapping) else ())
        if type(feature).__name__ == "ClassLabel"
    }
    has_positions = hasattr(source, "__getitem__") and hasattr(source, "__len__")
    first = source[0] if labels and has_positions and len(source) else {}
    types = types or {name: "int" for name in labels if first.get(name) is None}
    if has_positions:
        samples: Samples | Stream = Samples(source, types=types)
    elif isinstance(source, Iterable):
        samples = Stream(source, types=types)
    else:
        return None
    samples.labels = {name: labels[name] for name in labels if samples.spec.get(name) in INTEGERS}
    return samples


class _Rows(Sequence[Sample]):
    """Rows of a table as dicts without the values that are missing."""

    names: list[str]
    in_memory = True
    _rows: int

    def __len__(self) -> int:
        return self._rows


def _of_columns(rows: _Rows, types: Types) -> Samples:
    twice = [name for name in rows.names if rows.names.count(name) > 1]
    if twice:
        raise SpecError(f"two columns are named {twice[0]!r}: rename one of them")
    first: dict[str, Any] = {}  # the first value of each column that is not missing
    missing = set(rows.names)
    for row in rows:
        first |= {name: row[name] for name in missing & row.keys()}
        missing -= row.keys()
        if not missing:
            break
    ordered = {name: first[name] for name in rows.names if name in first}
    samples = Samples(rows, spec={**infer_spec(ordered, types), **dict(types or {})})
    samples.infers_types = True
    return samples


class _FrameRows(_Rows):
    def __init__(self, frame: Any) -> None:
        # an index is columns, unless these are there already, or it has the numbers of rows alone
        names = frame.index.names
        if {None} != {*names} or frame.index.dtype.kind not in "iu":
            new = [level for level, name in enumerate(names) if name not in frame.columns]
            frame = frame.reset_index(new)
        self.names = list(map(str, frame.columns))
        self._columns = []
        for name, column in frame.items():
            is_plain = isinstance(column.dtype, np.dtype)
            # pandas' own types, such as Int64, would become floats if some values are missing
            values = column.to_numpy(column.dtype if is_plain else object)
            # pandas marks a missing text by NaN, and a float that is NaN is a value
            is_there = column.notna().to_numpy() | (is_plain and values.dtype.kind == "f")
            self._columns.append((str(name), values, is_there))
        self._rows = len(frame)

    def __getitem__(self, position: Any) -> Any:
        return {
            name: values[position] for name, values, is_there in self._columns if is_there[position]
        }


class _ArrowRows(_Rows):
    """Rows of a table, or of a dataset of PyArrow or Lance, which is read in blocks."""

    def __init__(self, table: Any) -> None:
        self.names = list(table.schema.names)
        self._table = table
        self.in_memory = hasattr(table, "num_rows")
        self._rows = int(table.num_rows if self.in_memory else table.count_rows())
        self._block: tuple[int, list[dict[str, Any]]] = (0, [])

    def __getitem__(self, position: Any) -> Any:
        if not 0 <= position < len(self):
            raise IndexError(f"row {position} of {len(self)}")
        first, rows = self._block
        if not first <= position < first + len(rows):
            first = position // _ROWS_AT_ONCE * _ROWS_AT_ONCE
            if self.in_memory:
                block = self._table.slice(first, _ROWS_AT_ONCE)
            else:
                last = min(first + _ROWS_AT_ONCE, self._rows)
                block = self._table.take(list(range(first, last)))
            rows = block.to_pylist()
            self._block = first, rows
        return {name: value for name, value in rows[position - first].items() if value is not None}


class AdapterLike(Protocol):
    """The protocol of GulpIO's adapters."""

    def __len__(self) -> int:
        """Return the number of items."""

    def iter_data(self, slice_element: slice | None = None, /) -> Iterator[Mapping[str, Any]]:
        """Yield items with `id`, `frames` (RGB or grey arrays, or JPEG bytes) and `meta` (a dict)."""


class Adapter:
    """The items of an adapter: the fields `frames` and `meta`; the key is the id.

    The adapter yields one item at a time, to one thread at a time, since adapters keep state while
    they iterate. `processes=` runs several copies of one.

    Args:
        adapter: The adapter.

    Attributes:
        spec: `frames` as a sequence of JPEGs, and `meta` as JSON.

    Examples:
        >>> from bushel.sources import Adapter
        >>> class Grey:  # as GulpIO calls it
        ...     def __len__(self):
        ...         return 3
        ...     def iter_data(self, part):
        ...         for number in range(*part.indices(3)):
        ...             yield {"id": number, "frames": [np.full((8, 8), number, np.uint8)], "meta": {"label": number}}
        >>> bushel.pack(Adapter(Grey()), "grey/", container="gulp").samples
        3
    """

    spec: Mapping[str, str] = {"frames": "jpg[]", "meta": "json"}

    def __init__(self, adapter: AdapterLike) -> None:
        self._adapter = adapter
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_adapter": self._adapter}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __len__(self) -> int:
        return len(self._adapter)

    def __getitem__(self, position: int) -> Sample:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is out of range for {len(self)} samples")
        with self._lock:
            # A copy, because some adapters cut their own list down to the requested slice.
            items = list(copy.copy(self._adapter).iter_data(slice(position, position + 1)))
        if len(items) != 1 or not len(items[0]["frames"]):
            raise FormatError(f"the adapter returned no frames for item {position}")
        [item] = items
        return {KEY: str(item["id"]), "frames": list(item["frames"]), "meta": dict(item["meta"])}


class StoredStream(Stream):
    """The samples of a stream of archives as stored bytes, in order.

    It has the fields of the stream's spec and of its first samples, up to 1024 or 16 MiB, which are
    read at once.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: StreamDataset) -> None:
        samples = iter(stream.stored())
        self._head = list(_first(samples))
        super().__init__(itertools.chain(self._head, samples), spec=stream.spec)

    def lacking(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the key of each of the first samples that lacks a field, with the name of the field."""
        for sample in self._head:
            yield from ((sample[KEY], name) for name in names if name not in sample)


def _first(samples: Iterator[Sample]) -> Iterator[Sample]:
    size = 0
    for number, sample in enumerate(samples, 1):
        yield sample
        values = (
            value if isinstance(value, list) else [value]
            for name, value in sample.items()
            if name != KEY
        )
        size += sum(len(element) for value in values for element in value)
        if size >= _FIRST_BYTES or number == _FIRST_SAMPLES:
            return
