"""Samples of other libraries: torch and other sequences, pandas, polars, Arrow, Lance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from bushel.errors import SpecError
from bushel.sources.base import Sample
from bushel.sources.samples import Samples, infer_spec

_ROWS_AT_ONCE = 1000

Types: TypeAlias = Mapping[str, str] | None


class Indexed(Protocol):
    """Anything with a length and positions, such as a map-style dataset of torch."""

    def __len__(self) -> int: ...
    def __getitem__(self, position: int, /) -> Any: ...


def samples_of(source: Any, types: Types) -> Samples | None:
    """Return the samples of an object of another library, None if its kind is not known.

    Args:
        source: A frame of pandas or polars, a table of Arrow, a dataset of PyArrow or Lance, or
            anything with a length and positions, whose samples are dicts, named tuples, or tuples
            for which `types` has names.
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
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return Samples(_Named(source, types), types=types)
    return None


class _Named(Sequence[Sample]):
    """The samples of a sequence as dicts."""

    def __init__(self, samples: Indexed, types: Types) -> None:
        self._samples, self._names = samples, tuple(types or ())

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, position: Any) -> Any:
        sample = self._samples[position]
        if hasattr(sample, "_asdict"):
            sample = sample._asdict()
        elif isinstance(sample, tuple | list):
            sample = self._with_names(sample, position)
        if not isinstance(sample, Mapping):
            return sample  # `Samples` says what it must be
        return {name: _in_numpy(value) for name, value in sample.items()}

    def _with_names(self, values: Sequence[Any], position: int) -> Sample:
        if len(values) != len(self._names):
            raise SpecError(
                f"sample {position} is a {type(values).__name__} of {len(values)} values: name"
                " each of them, "
                "in this order, with its type, as in spec={'image': 'png', 'label': 'int'}"
            )
        return dict(zip(self._names, values, strict=True))


def _in_numpy(value: Any) -> Any:
    """Return a tensor of another library as an array, and other values as they are."""
    if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
        return np.asarray(value)
    return value


class _Rows(Sequence[Sample]):
    """Rows of a table as dicts without the values that are missing."""

    names: Sequence[str]

    def first_values(self) -> Iterator[tuple[str, Any]]:
        """Yield the first value of each column that is not missing."""
        missing = set(self.names)
        for row in self:
            for name in missing & row.keys():
                yield name, row[name]
            missing -= row.keys()
            if not missing:
                return


def _of_columns(rows: _Rows, types: Types) -> Samples:
    first = dict(rows.first_values())
    ordered = {name: first[name] for name in rows.names if name in first}
    return Samples(rows, spec={**infer_spec(ordered, types), **dict(types or {})})


class _FrameRows(_Rows):
    def __init__(self, frame: Any) -> None:
        self.names = [str(name) for name in frame.columns]
        self._columns = [frame[name].to_numpy() for name in frame.columns]
        # pandas marks a missing text by NaN, and a float that is NaN is a value
        self._may_lack = [column.dtype.hasobject for column in self._columns]
        self._rows = len(frame)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, position: Any) -> Any:
        cells = zip(self.names, self._columns, self._may_lack, strict=True)
        row = {name: (column[position], may_lack) for name, column, may_lack in cells}
        return {
            name: value
            for name, (value, may_lack) in row.items()
            if not may_lack or not _is_missing(value)
        }


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and value != value)
        or type(value).__name__ == "NAType"
    )


class _ArrowRows(_Rows):
    """Rows of a table, or of a dataset of PyArrow or Lance, which is read in blocks."""

    def __init__(self, table: Any) -> None:
        self.names = list(table.schema.names)
        self._table = table
        self._is_whole = hasattr(table, "num_rows")
        self._rows = int(table.num_rows if self._is_whole else table.count_rows())
        self._block: tuple[int, list[dict[str, Any]]] = (0, [])

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, position: Any) -> Any:
        if not 0 <= position < len(self):
            raise IndexError(f"row {position} of {len(self)}")
        first, rows = self._block
        if not first <= position < first + len(rows):
            first = position // _ROWS_AT_ONCE * _ROWS_AT_ONCE
            rows = self._rows_from(first).to_pylist()
            self._block = first, rows
        return {name: value for name, value in rows[position - first].items() if value is not None}

    def _rows_from(self, first: int) -> Any:
        if self._is_whole:
            return self._table.slice(first, _ROWS_AT_ONCE)
        return self._table.take(list(range(first, min(first + _ROWS_AT_ONCE, self._rows))))
