"""The list of removed samples of a dataset: the samples that each call named, why, and when.

docs/removal.md specifies the file. A sample is named by its key and a digest of its values, never
by a file or a row, so the list still holds after the files were renamed, sorted or written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from bushel._runtime.arrays import (
    I64,
    NO_NUMBERS,
    U64,
    Bools,
    concatenated,
    equal_places,
    offsets_of,
)
from bushel.errors import FormatError
from bushel.storage import AnyPath, read_whole

from .saving import body_crc32, encode, parse
from .shard import Keys, Strings
from .table import ShardIndex

_VERSION = 3
_ARRAYS = {
    "calls.ids.text": "U8",
    "calls.ids.offsets": "I64",
    "calls.reasons.text": "U8",
    "calls.reasons.offsets": "I64",
    "calls.times": "I64",
    "calls.starts": "I64",
    "keys.text": "U8",
    "keys.offsets": "I64",
    "keyed": "U8",
    "digests": "U64",
    "sizes": "I64",
    "clean": "U8",
}


class Names(Struct, frozen=True):
    """Names of samples: their keys, and digests of their values."""

    keys: Strings
    keyed: Bools  # bool[names], whether the sample has a key of its own, which is compared then
    digests: U64  # uint64[names], from `sample_digests`
    sizes: I64  # int64[names], stored bytes of all values

    def __len__(self) -> int:
        return len(self.digests)

    @classmethod
    def of(cls, keys: Sequence[str] | None, digests: U64, sizes: I64) -> Names:
        """Return the names of samples with these keys; None for samples without keys."""
        keyed = np.full(len(digests), keys is not None)
        return cls(Strings.of(keys or [""] * len(digests)), keyed, digests, sizes)

    def take(self, entries: I64) -> Names:
        """Return some of them."""
        return Names(
            self.keys.chosen(entries),
            self.keyed[entries],
            self.digests[entries],
            self.sizes[entries],
        )

    @classmethod
    def join(cls, several: Sequence[Names]) -> Names:
        """Return the names in all of these."""
        facts = [
            concatenated((getattr(names, name) for names in several), dtype)
            for name, dtype in (("keyed", bool), ("digests", np.uint64), ("sizes", np.int64))
        ]
        return cls(Strings.join(names.keys for names in several), *facts)

    def distinct(self) -> Names:
        """Return each name once, in the order of first appearance."""
        keys, keyed, digests = self.keys.tolist(), self.keyed.tolist(), self.digests.tolist()
        first: dict[tuple[str, bool, int], int] = {}
        for entry, name in enumerate(zip(keys, keyed, digests, strict=True)):
            first.setdefault(name, entry)
        if len(first) == len(self):
            return self
        return self.take(np.array(list(first.values()), np.int64))


class RemovalCall(Struct, frozen=True):
    """A call that removed samples."""

    id: str
    reason: str
    time: int  # in nanoseconds since 1970


Digests = npt.NDArray[np.bytes_]
"""S16[n], the digests of tables of shards, in bytes."""

NO_DIGESTS: Digests = np.zeros(0, "S16")


class RemovalList(Struct, frozen=True):
    """The calls in force, in order of time, and the samples that they named."""

    calls: tuple[RemovalCall, ...]
    starts: I64  # int64[calls + 1]; call `i` has the names `starts[i]` to `starts[i + 1]`
    names: Names
    # the digests of the tables with checksums that were searched and have none of these samples,
    # ascending
    clean: Digests = NO_DIGESTS

    @property
    def numbers(self) -> I64:
        """int64[names], the number of the call of each name."""
        return np.repeat(np.arange(len(self.calls)), np.diff(self.starts))

    def names_of(self, call: str) -> Names:
        """Return the names of a call, given its id."""
        chosen = np.array([removal_call.id == call for removal_call in self.calls], np.bool_)
        return self.names.take(np.flatnonzero(chosen[self.numbers]))

    def with_call(
        self, call: RemovalCall, names: Names, clean: Digests = NO_DIGESTS
    ) -> RemovalList:
        """Return the list with one more call. A call that is in it already is not added again.

        `clean` are the digests of tables that have no sample of this call or of those before it.
        """
        if any(earlier.id == call.id for earlier in self.calls):
            return self
        starts = np.append(self.starts, self.starts[-1] + len(names))
        return RemovalList(
            (*self.calls, call), starts, Names.join([self.names, names]), np.unique(clean)
        )

    def without_call(self, call: str) -> RemovalList:
        """Return the list without a call, given its id."""
        stay = np.array([removal_call.id != call for removal_call in self.calls], np.bool_)
        calls = tuple(compress(self.calls, stay))
        names = self.names.take(np.flatnonzero(stay[self.numbers]))
        return RemovalList(calls, offsets_of(np.diff(self.starts)[stay]), names, self.clean)

    def joined(self, other: RemovalList) -> RemovalList:
        """Return the union of two lists: a call that is in both names the samples of both."""
        joined = self
        for call in other.calls:
            names = Names.join([self.names_of(call.id), other.names_of(call.id)])
            joined = joined.without_call(call.id).with_call(call, names)
        return joined

    def renamed(self, entries: I64, names: Names) -> RemovalList:
        """Return the list with other names in the place of some, given the numbers of these."""
        stay = np.setdiff1d(np.arange(len(self.names)), entries)
        numbers = np.concatenate([self.numbers[stay], self.numbers[entries]])
        order = np.argsort(numbers, kind="stable")
        starts = offsets_of(np.bincount(numbers, minlength=len(self.calls)))
        names = Names.join([self.names.take(stay), names]).take(order)
        return RemovalList(self.calls, starts, names)


EMPTY = RemovalList((), np.zeros(1, np.int64), Names.join([]))


class NameLookup:
    """Finds samples that a list names, in the table of a shard."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._keys = Keys.build(names.keys.text, names.keys.offsets)

    def candidates(self, index: ShardIndex) -> tuple[I64, I64]:
        """Return pairs of a row of a table and a name that may be its sample: their digests have to be compared.

        Where both have a key, it is the same; else their sizes are.

        Returns:
            rows: int64[pairs].
            entries: int64[pairs].
        """
        rows, entries = self._with_equal_keys(index.keys)
        unnamed = np.flatnonzero(~self.names.keyed | (index.keys is None))
        if not len(unnamed):
            return rows, entries
        order = unnamed[np.argsort(self.names.sizes[unnamed], kind="stable")]
        alike, more = equal_places(self.names.sizes[order], stored_sizes(index))
        return np.concatenate([rows, more]), np.concatenate([entries, order[alike]])

    def _with_equal_keys(self, keys: Keys | None) -> tuple[I64, I64]:
        if keys is None or not self.names.keyed.any():
            return NO_NUMBERS, NO_NUMBERS
        of_keys, of_names = equal_places(keys.hashes, self._keys.hashes)
        rows, entries = keys.samples_at(of_keys), self._keys.samples_at(of_names)
        # two keys may have one hash
        pairs = zip(keys.take(rows), self._keys.take(entries), strict=True)
        same = np.fromiter((key == name for key, name in pairs), np.bool_, len(rows))
        same &= self.names.keyed[entries]
        return rows[same], entries[same]


def stored_sizes(index: ShardIndex) -> I64:
    """Return int64[samples], the stored bytes of all values of each sample."""
    sizes = np.zeros(index.samples, np.int64)
    for column in index.fields.values():
        lengths = np.maximum(column.length, 0)
        if column.starts is not None:
            sums = offsets_of(lengths)
            lengths = sums[column.starts[1:]] - sums[column.starts[:-1]]
        sizes += lengths
    return sizes


# The file


class _Header(msgspec.Struct):
    version: int
    crc32: int


# made at import, as the decoders of sidecars
_HEADER = msgspec.json.Decoder(_Header)


def load_removal_list(path: AnyPath) -> RemovalList | None:
    """Return the list at a path, or None if the file does not exist.

    Raises:
        FormatError: It is damaged, or newer than this Bushel. Nothing is read then, as that might
            show what it hides.
        OSError: It cannot be read.
    """
    try:
        data = read_whole(path)
    except FileNotFoundError:
        return None
    except PermissionError:
        if isinstance(path, Path):
            raise
        return None  # some buckets refuse what does not exist
    return parse_removal_list(data, path)


def parse_removal_list(data: bytes | None, path: AnyPath) -> RemovalList:
    """Return the list with these bytes; an empty one for None. `path` is named in errors.

    Raises:
        FormatError: See `load_removal_list`.
    """
    if data is None:
        return EMPTY
    hint = "restore this file: without it, removed samples would be shown"
    try:
        header, arrays = parse(memoryview(data), _ARRAYS, _HEADER)
        if header.version != _VERSION:
            message = (
                f"version {header.version} of a list of "
                f"removed samples; this Bushel knows {_VERSION}"
            )
            raise FormatError(message, path, hint="use a newer Bushel")
        return _list_of(arrays, header.crc32)
    except ValueError as error:
        message = f"the list of removed samples is damaged: {error}"
        raise FormatError(message, path, hint=hint) from error


def _list_of(arrays: dict[str, np.ndarray], checksum: int) -> RemovalList:
    """Return the list in these arrays. Raise ValueError if they do not fit each other, or their checksum."""
    if body_crc32(arrays) != checksum:
        raise ValueError("its bytes do not have its checksum")
    several = [
        Strings(arrays[f"{name}.text"], arrays[f"{name}.offsets"])
        for name in ("calls.ids", "calls.reasons")
    ]
    keys = Strings(arrays["keys.text"], arrays["keys.offsets"])
    times, starts, keyed = (arrays[name] for name in ("calls.times", "calls.starts", "keyed"))
    if not all(texts.are_valid for texts in (*several, keys)):
        raise ValueError("its texts do not fit their offsets")
    lengths = {len(times), *map(len, several), len(starts) - 1}
    if len(lengths) > 1 or {len(keyed), len(arrays["digests"]), len(arrays["sizes"])} != {
        len(keys)
    }:
        raise ValueError("its arrays do not fit each other")
    if starts[0] != 0 or starts[-1] != len(keys) or (np.diff(starts) < 0).any():
        raise ValueError("the names of its calls are not in order")
    ids, reasons = (texts.tolist() for texts in several)
    calls = tuple(map(RemovalCall, ids, reasons, times.tolist()))
    names = Names(keys, keyed.astype(np.bool_), arrays["digests"], arrays["sizes"])
    return RemovalList(calls, starts, names, arrays["clean"].view("S16"))


def encode_removal_list(removed: RemovalList) -> bytes:
    """Return the bytes of the file."""
    ids, reasons = (
        Strings.of(getattr(call, name) for call in removed.calls) for name in ("id", "reason")
    )
    times = np.array([call.time for call in removed.calls], np.int64)
    names = removed.names
    of_calls = (ids.text, ids.offsets, reasons.text, reasons.offsets, times, removed.starts)
    of_keys = (names.keys.text, names.keys.offsets, names.keyed.astype(np.uint8))
    clean = removed.clean.view(np.uint8)
    values = (*of_calls, *of_keys, names.digests, names.sizes, clean)
    arrays: dict[str, np.ndarray] = dict(
        zip(_ARRAYS, map(np.ascontiguousarray, values), strict=True)
    )
    return encode(arrays, _Header(_VERSION, body_crc32(arrays)))
