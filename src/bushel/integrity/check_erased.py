"""Checking that removed samples are erased where the list of removed samples says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bushel._index.removed_rows import BEGUN, ERASED
from bushel._index.table import Shard, ShardIndex
from bushel._runtime.arrays import I64
from bushel.containers import Container
from bushel.containers.erasing import Erases
from bushel.containers.removed import lists_of
from bushel.errors import FormatError
from bushel.integrity.erase_plan import erase_targets
from bushel.integrity.erase_shard import overwritten
from bushel.integrity.problems import Findings
from bushel.storage import File


@dataclass(frozen=True, slots=True)
class ErasedRows:
    """The samples of a shard that a list calls erased."""

    list: str  # the path of the list
    rows: I64  # int64[n], numbers of the samples whose values should all be overwritten, ascending
    touched: I64  # int64[n], numbers of all samples with overwritten values, including an interrupted erasure
    begun: bool  # whether erasing any of them was interrupted


def erased_rows(shards: Iterable[Shard]) -> list[ErasedRows | None]:
    """Return the erased samples of each shard. Raise FormatError if a list is damaged."""
    shards = list(shards)
    lists = lists_of(shards)
    if not lists:
        return [None] * len(shards)
    numbers = {path: {name: at for at, name in enumerate(own.shards)} for path, (_, own) in lists.items()}
    found: list[ErasedRows | None] = []
    for shard in shards:
        own = None
        for path, name in shard.removal_lists:
            if (number := numbers.get(str(path), {}).get(name)) is None:
                continue
            removed = lists[str(path)][1]
            entries = slice(int(removed.starts[number]), int(removed.starts[number + 1]))
            states, rows = removed.erased[entries], removed.rows[entries].astype(np.int64)
            if states.any():
                own = ErasedRows(str(path), rows[states == ERASED], rows[states > 0], bool((states == BEGUN).any()))
        found.append(own)
    return found


def report_begun(erased: ErasedRows, shard: Shard, found: Findings) -> None:
    """Report that erasing samples of a shard was interrupted, so that their values and the index may not agree."""
    message = (
        f"erasing samples of {shard.path(0)} was interrupted, so that it is not checked: `bushel remove PATH --erase` "
        "continues"
    )
    found.add_file(erased.list, "erased", message)


def check_erased(
    container: Container, shard: Shard, index: ShardIndex, files: list[File], erased: ErasedRows, found: Findings
) -> int:
    """Read the values of erased samples, and report values that still exist.

    Returns:
        The number of samples that are erased.
    """
    if not isinstance(container, Erases) or (len(erased.rows) and int(erased.rows[-1]) >= index.samples):
        found.add_file(erased.list, "erased", "the list is of other files")
        return 0
    rows = erased.rows
    targets = erase_targets(index, rows, {})
    names = list(index.fields)
    wrong: set[int] = set(targets.spoilt.tolist())
    for sample in sorted(wrong):
        _report(shard, index, int(rows[sample]), None, found)
    try:
        for number, stored, new in overwritten(files, container.eraser, index, targets):
            if stored != new:
                column = index.fields[names[targets.field[number]]]
                row = int(targets.row[number])
                owner = row if column.starts is None else int(np.searchsorted(column.starts, row, side="right")) - 1
                wrong.add(int(np.searchsorted(rows, owner)))
                _report(shard, index, owner, column.field.name, found)
    except FormatError as error:
        found.add_error(error)
        return 0
    return len(rows) - len(wrong)


def _report(shard: Shard, index: ShardIndex, row: int, field: str | None, found: Findings) -> None:
    message = (
        "the list of removed samples says that this is erased, but its bytes are there: `bushel remove PATH --erase`"
    )
    found.add_value(index.keys, row, (str(shard.path(0)), None), field, "erased", message)
