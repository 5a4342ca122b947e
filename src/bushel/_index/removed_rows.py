"""The list of removed samples of a folder: shard and row of each, the time and the reason.

It is the safetensors file `.bushel/removed.safetensors`, which docs/removal.md specifies. It names each shard with its
number of samples, so that a shard that has changed since is noticed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from bushel._index.named_arrays import body_crc32, encode, parse
from bushel._index.shard_list import Strings
from bushel._runtime.arrays import I64, U8, U32
from bushel._runtime.structs import Struct
from bushel.errors import FormatError
from bushel.kernels import map_array
from bushel.storage import AnyPath, read_whole, remove, write_whole

ERASED, BEGUN, PARTLY = 1, 2, 3
"""Values of `RemovedRows.erased`; 0: the bytes were not touched."""

_VERSION = 1
_ARRAYS = {
    "shards.text": "U8",
    "shards.offsets": "I64",
    "shards.samples": "I64",
    "shards.starts": "I64",
    "rows": "U32",
    "calls": "U32",
    "erased": "U8",
    "reasons.text": "U8",
    "reasons.offsets": "I64",
    "times": "I64",
}


class RemovedRows(Struct, frozen=True):
    """Removed samples of the shards of a folder."""

    shards: tuple[str, ...]  # names of the shards that have some
    samples: I64  # int64[shards], the number of samples of each of these shards, the removed ones included
    starts: I64  # int64[shards + 1]; shard `i` has the entries `starts[i]` to `starts[i + 1]`
    rows: U32  # uint32[entries], the numbers of the samples in their shards, ascending in each
    calls: U32  # uint32[entries], the number of the call that removed each
    # uint8[entries]: `ERASED` where the bytes are overwritten, `BEGUN` where that has begun, `PARTLY` where some values
    # could not be
    erased: U8
    reasons: tuple[str, ...]  # why each call removed samples
    times: I64  # int64[calls], when it did, in nanoseconds since 1970

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def numbers(self) -> I64:
        """int64[entries], the number of each entry's shard in `shards`."""
        return np.repeat(np.arange(len(self.shards), dtype=np.int64), np.diff(self.starts))

    @property
    def is_valid(self) -> bool:
        """Whether the arrays fit each other."""
        shards, entries, calls = len(self.shards), len(self.rows), len(self.reasons)
        if (len(self.samples), len(self.starts), len(self.times)) != (shards, shards + 1, calls):
            return False
        if len(set(self.shards)) != shards or (len(self.calls), len(self.erased)) != (entries, entries):
            return False
        if self.starts[0] != 0 or self.starts[-1] != entries or (np.diff(self.starts) < 0).any():
            return False
        if not entries:
            return True
        own = self.numbers
        rows = self.rows.astype(np.int64)
        ascending = (np.diff(rows) > 0) | (np.diff(own) > 0)
        return bool(
            ascending.all()
            and (rows < self.samples[own]).all()
            and int(self.calls.max()) < calls
            and int(self.erased.max()) <= PARTLY
        )


NONE = RemovedRows(
    (), np.zeros(0, np.int64), np.zeros(1, np.int64), *(np.zeros(0, np.uint32),) * 2, np.zeros(0, np.uint8), (),
    np.zeros(0, np.int64),
)  # fmt: skip
"""A list without entries."""


class _Header(msgspec.Struct):
    version: int
    crc32: int


# made at import, as the decoders of sidecars
_HEADER = msgspec.json.Decoder(_Header)


def load_removed(path: AnyPath) -> RemovedRows | None:
    """Return the list at a path, or None if the file does not exist.

    Raises:
        FormatError: It is damaged, or newer than this Bushel. Nothing is read then, as that might show what it hides.
        OSError: It cannot be read.
    """
    try:
        data = map_array(str(path)).data if isinstance(path, Path) else memoryview(read_whole(path))
    except FileNotFoundError:
        return None
    except PermissionError:
        if isinstance(path, Path):
            raise
        return None  # some buckets refuse what does not exist
    hint = "restore this file: without it, removed samples would be shown"
    try:
        text, arrays = parse(data, _ARRAYS)
        header = _HEADER.decode(text)
        version, same = header.version, body_crc32(arrays) == header.crc32
        names = Strings(arrays["shards.text"], arrays["shards.offsets"])
        reasons = Strings(arrays["reasons.text"], arrays["reasons.offsets"])
        whole = same and names.are_valid and reasons.are_valid
        found = NONE
        if whole:
            found = RemovedRows(
                tuple(names.tolist()),
                arrays["shards.samples"],
                arrays["shards.starts"],
                arrays["rows"],
                arrays["calls"],
                arrays["erased"],
                tuple(reasons.tolist()),
                arrays["times"],
            )
        whole = whole and found.is_valid
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"not a list of removed samples: {error}", file=str(path), hint=hint) from error
    if version != _VERSION:
        message = f"version {version} of a list of removed samples; this Bushel knows {_VERSION}"
        raise FormatError(message, file=str(path), hint="use a newer Bushel")
    if not whole:
        raise FormatError("the list of removed samples is damaged", file=str(path), hint=hint)
    return found


def save_removed(path: AnyPath, removed: RemovedRows) -> None:
    """Write a list, or remove the file if no call is left in it. Raise OSError if the folder is not writable."""
    if not removed.reasons:
        remove(path)
        return
    names, reasons = Strings.of(removed.shards), Strings.of(removed.reasons)
    own = (names.text, names.offsets, removed.samples, removed.starts, removed.rows, removed.calls, removed.erased)
    values = (*own, reasons.text, reasons.offsets, removed.times)
    arrays: dict[str, npt.NDArray[Any]] = dict(zip(_ARRAYS, map(np.ascontiguousarray, values), strict=True))
    write_whole(path, encode(arrays, _Header(_VERSION, body_crc32(arrays))))
