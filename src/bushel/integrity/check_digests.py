"""Compare the values and files of a shard with the SHA-256 sums in its index."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bushel._dataset.open.file_digests import digest_of
from bushel._index.column_names import SHA256
from bushel._index.table import ShardIndex
from bushel._index.value_digests import digests_of
from bushel._runtime.threads import cpu_count
from bushel.containers.base import Shard
from bushel.errors import FormatError
from bushel.integrity.problems import Findings
from bushel.storage import File

_HINT = "; `bushel index --force` records the data as they are"


def check_digests(
    shard: Shard, index: ShardIndex, file_of: Callable[[int], File], tick: Callable[[int], None], found: Findings
) -> int:
    """Compare every value and every file that has a SHA-256 on record with it.

    Args:
        shard: The shard.
        index: The table of its sidecar.
        file_of: Opens a file or block file of the shard, given its number.
        tick: Called with the number of bytes that were read since the last call.
        found: Gets the problems.

    Returns:
        The number of digests that were compared.

    Raises:
        FormatError: Values cannot be read.
    """
    compared = 0
    for name in index.fields:
        if f"{name}.{SHA256}" in index.columns:
            compared += _check_values(shard, index, name, file_of, found)
    for number, stamp in enumerate(index.files):
        if stamp.sha256 is None:
            continue
        path = shard.path(number)
        now = digest_of(path, tick)
        compared += 1
        if now != stamp.sha256:
            message = f"should have the SHA-256 {stamp.sha256}, found {now}{_HINT}"
            found.add_file(path, "checksum", message)
    return compared


def _check_values(shard: Shard, index: ShardIndex, name: str, file_of: Callable[[int], File], found: Findings) -> int:
    extents, known = index.fields[name], index.columns[f"{name}.{SHA256}"]
    now = digests_of(extents, file_of(extents.file), cpu_count())
    try:
        was, is_now = known.piece(slice(None)), now.piece(slice(None))
    except ValueError as error:  # a forged table
        raise FormatError(f"column {name}.{SHA256}: {error}", file=str(shard.sidecar)) from error
    there = np.ones(index.samples, np.bool_) if was.missing is None else ~was.missing
    wrong = there & (np.asarray(was.values, object) != np.asarray(is_now.values, object))
    first = extents.starts if extents.starts is not None else np.arange(index.samples, dtype=np.int64)
    for sample in np.flatnonzero(wrong).tolist():
        row = int(first[sample])
        place: tuple[str, int | None] = (str(shard.path(0)), None)
        if row < extents.rows:
            place = shard.locate(index.place(extents.file, int(extents.offset[row])))
        message = f"should have the SHA-256 {was.values[sample]}, found {is_now.values[sample] or 'no value'}"
        found.add_value(index.keys, sample, place, name, "checksum", message)
    return int(there.sum())
