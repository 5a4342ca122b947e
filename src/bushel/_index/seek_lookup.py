"""The seek tables of the images of a batch that will be cropped, and the warning of those that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bushel._runtime.messages import log_warning
from bushel.codecs.image import Seekable

from .elements import Elements, Group, element_rows


def tables_by_field(
    groups: Sequence[Group], total: int, names: Iterable[str], wanted: Mapping[str, Elements]
) -> dict[str, list[Any]]:
    """Return the seek tables of some fields in each sample of a batch.

    Returns:
        By field, for each sample uint64[words], empty without a table; for a sequence field a list
        of these, one per chosen element. None for a sample without the field, or of a shard without
        tables.
    """
    return {name: _of_field(groups, total, name, wanted.get(name)) for name in names}


def _of_field(groups: Sequence[Group], total: int, name: str, elements: Elements) -> list[Any]:
    tables_of_samples: list[Any] = [None] * total
    for group in groups:
        column = group.index.fields.get(name)
        if column is None or column.seek is None:
            continue
        if column.starts is None:
            tables_of_group: list[Any] = column.seek.of(group.rows)
        else:
            rows, counts = element_rows(column, group, elements)
            tables, ends = column.seek.of(rows), np.cumsum(counts).tolist()
            tables_of_group = [
                tables[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)
            ]
        if group.places is None:
            return tables_of_group
        for place, value in zip(group.places.tolist(), tables_of_group, strict=True):
            tables_of_samples[place] = value
    return tables_of_samples


def with_table(stored: Any, table: Any) -> Any:
    """Return stored bytes, or a list of them, as `Seekable` where there is a seek table."""
    if isinstance(stored, list):
        fits = isinstance(table, list) and len(table) == len(stored)
        if fits:
            return [
                with_table(element, table_of_element)
                for element, table_of_element in zip(stored, table, strict=True)
            ]
        return stored
    if table is None or not len(table):
        return stored
    return Seekable(stored, table)


@lru_cache(maxsize=1024)
def warn_of_refused(file: str | None) -> None:
    """Warn, once for each file, that the seek table of an image in it does not fit, and was not used."""
    log_warning(
        "%s: the seek table of an image does not fit its bytes; it is not used. Run `bushel index"
        " --seek --force` to "
        "make the tables again",
        file,
    )
