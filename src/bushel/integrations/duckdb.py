"""DuckDB: SQL over the values and the index of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bushel._dataset.views.dataset import Dataset
from bushel.codecs.registry import NUMBERS
from bushel.spec import parse_spec

from .arrow import ArrowStream

if TYPE_CHECKING:
    import duckdb

__all__ = ["register"]

_SMALL = (*NUMBERS, "utf8", "json")


def register(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    dataset: Dataset,
    fields: Sequence[str] | None = None,
) -> None:
    """Make a dataset a view of a DuckDB connection, and its index another one.

    `SELECT label, count(*) FROM train GROUP BY label` reads the values of the chosen fields, for
    every query again; and `SELECT avg(image.length) FROM train_index` reads no data, since the
    index has keys, offsets and lengths.

    Args:
        connection: The connection.
        name: Name of the view; `NAME_index` is the index (`Dataset.to_arrow`).
        dataset: The dataset or view.
        fields: The fields to read. Default: those that hold numbers, text or JSON.

    Raises:
        KeyError: A field does not exist.

    Examples:
        >>> import duckdb
        >>> from bushel.integrations.duckdb import register
        >>> connection = duckdb.connect()
        >>> register(connection, "train", ds)
        >>> connection.execute("SELECT label, count(*) FROM train GROUP BY label ORDER BY label").fetchall()
        [(0, 6), (1, 6)]
    """
    if fields is None:
        spec = parse_spec(dataset.spec)
        fields = [
            field_name
            for field_name, field in spec.items()
            if field.codec.partition("(")[0] in _SMALL
        ]
    connection.register(name, ArrowStream(dataset, fields))
    connection.register(f"{name}_index", dataset.to_arrow())
