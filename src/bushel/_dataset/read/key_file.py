"""The key file: the sorted hashes of all keys of a dataset, which finds one of a billion keys without loading them.

`bushel index --keys` writes it beside the manifest; it may be deleted at any time. It is a
safetensors file with two arrays, `hashes` and `shards`, which docs/index.md specifies. It is used
only while the shards have the names, the numbers of samples, and the sizes and stamps of files that
it was made for; so it survives copies of the folder. Its answer for a key is compared with the keys
of the shard.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from bushel._dataset.open.completeness import listed_names, manifest_path
from bushel._dataset.read.shards import Listing, OpenShard, ShardRows, any_keyed, kinds
from bushel._index.key_lookup import IndexedShard, KeyLookup, KeyTable, Lookup, StoredKeyTable
from bushel._index.sidecar import ALWAYS_CHECKED
from bushel._index.table import Keys
from bushel._runtime.arrays import I64, U32, U64, ranges
from bushel._runtime.log import log_warning
from bushel.errors import FormatError, UnsupportedError, naming
from bushel.kernels import crc32
from bushel.storage import replacing
from bushel.storage.whole import write_all

if TYPE_CHECKING:
    from bushel._index.removal_list import Names

NAME = "keys.safetensors"
"""Name of the file in the folder of the manifest."""
_VERSION = 2
# bytes of the keys that are sorted at a time, more or less; their hashes are random numbers
_MEMORY = 1 << 28
_PIECE = 1 << 24
_HINT = "`bushel index --keys` makes it again"


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The content of a key file."""

    # uint64[keyed samples], ascending hashes of the keys (`kernels.hash_keys`); mapped, not read
    hashes: U64
    # uint32[keyed samples], the number of each key's shard; ascending where hashes are equal;
    # mapped
    shards: U32


class _Header(msgspec.Struct):
    version: int
    state: str
    state_crc32: int
    hashes_crc32: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    shards_crc32: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


# made at import, as the decoders of sidecars
_HEADER = msgspec.json.Decoder(_Header)


def state_of(names: bytes, samples: I64, sizes: I64, stamps: I64, times: I64) -> str:
    """Return a text that differs if the shards of a dataset differ.

    The time of modification counts only for files without a stamp.

    Args:
        names: The names of the shards, one after the other.
        samples: int64[shards], numbers of samples.
        sizes: int64[files], in bytes.
        stamps: int64[files], the CRC-32 of a few blocks of each file (`FileStamp.crc32`); -1 where
            it is unknown.
        times: int64[files], times of modification in nanoseconds.
    """
    content = np.where(stamps < 0, -1 - times, stamps)
    parts = (names, samples.tobytes(), sizes.tobytes(), content.tobytes())
    return "-".join([str(len(samples)), *(f"{crc32(part):08x}" for part in parts)])


def save_key_file(
    path: Path,
    shards: Sequence[IndexedShard],
    state: str,
    *,
    memory: int = _MEMORY,
    report: Callable[[int], None] | None = None,
) -> int:
    """Write the key file of a dataset.

    Hashes are random numbers, so those between two limits are about as many as those between two
    others of the same distance. The keys of one range at a time are collected from all shards,
    sorted, and written.

    Args:
        path: The file.
        shards: The shards of the dataset. Their tables of keys are read once for each range.
        state: From `state_of`.
        memory: Bytes that sorting may take, more or less.
        report: Called with the number of keys written so far.

    Returns:
        The number of keys.

    Raises:
        FormatError: The keys of a shard are not sorted.
        OSError: The file cannot be written.
    """
    keyed = [number for number in range(len(shards)) if shards[number].keyed]
    count = sum(shards[number].samples for number in keyed)
    head = _head(count, state, 0, 0)
    with replacing(path) as file:
        write_all(file, head, 0)
        done, sums = 0, [0, 0]
        for hashes, numbers in _sorted_ranges(shards, keyed, max(1, -(-count * 32 // memory))):
            parts = ((hashes.tobytes(), 8 * done), (numbers.tobytes(), 8 * count + 4 * done))
            for part, (data, at) in enumerate(parts):
                write_all(file, data, len(head) + at)
                sums[part] = crc32(data, sums[part])
            done += len(hashes)
            if report is not None:
                report(done)
        if done != count:
            raise FormatError(
                f"{done} keys were found in the shards, and {count} expected",
                hint="run `bushel index`",
            )
        write_all(file, _head(count, state, *sums), 0)
    return count


def _sorted_ranges(
    shards: Sequence[IndexedShard], keyed: list[int], ranges: int
) -> Iterator[tuple[U64, U32]]:
    limits = [number * 2**64 // ranges for number in range(1, ranges)]
    for first, last in zip([0, *limits], [*limits, None], strict=True):
        hashes: list[U64] = [np.zeros(0, np.uint64)]
        numbers: list[U32] = [np.zeros(0, np.uint32)]
        for number in keyed:
            keys = shards[number].index.keys
            if keys is None:
                continue
            start = int(np.searchsorted(keys.hashes, np.uint64(first)))
            if last is None:
                stop = len(keys.hashes)
            else:
                stop = int(np.searchsorted(keys.hashes, np.uint64(last)))
            own = keys.hashes[start:stop]
            if (own[1:] < own[:-1]).any():
                raise FormatError(
                    "the hashes of its keys are not sorted",
                    file=str(shards[number].path(0)),
                    hint="`bushel index --force` makes the index again",
                )
            hashes.append(own)
            numbers.append(np.full(len(own), number, np.uint32))
        whole = np.concatenate(hashes)
        order = np.argsort(whole, kind="stable")
        yield whole[order], np.concatenate(numbers)[order]


def _head(count: int, state: str, hashes_crc32: int, shards_crc32: int) -> bytes:
    """Return the beginning of a file, padded so that its length does not depend on the checksums."""
    state_crc32 = crc32(state.encode())
    largest = _entries(count, _Header(_VERSION, state, state_crc32, (1 << 32) - 1, (1 << 32) - 1))
    text = _entries(count, _Header(_VERSION, state, state_crc32, hashes_crc32, shards_crc32))
    return struct.pack("<Q", -(-len(largest) // 8) * 8) + text.ljust(-(-len(largest) // 8) * 8)


def _entries(count: int, header: _Header) -> bytes:
    return msgspec.json.encode(
        {
            "__metadata__": {"bushel": msgspec.json.encode(header).decode()},
            "hashes": {"dtype": "U64", "shape": [count], "data_offsets": [0, 8 * count]},
            "shards": {"dtype": "U32", "shape": [count], "data_offsets": [8 * count, 12 * count]},
        }
    )


def load_key_file(path: Path, state: str) -> KeyFile | None:
    """Return the key file at a path; None if it is missing or was made for other shards.

    A small file is compared with its checksums, as small tables are; a large one is compared by
    `damage` only.

    Raises:
        FormatError: The file is damaged.
        OSError: The file cannot be read.
    """
    found = _open(path)
    if found is None or found[0].state != state:
        return None
    header, keys = found
    if (
        keys.hashes.nbytes + keys.shards.nbytes <= ALWAYS_CHECKED
        and (wrong := _difference(header, keys)) is not None
    ):
        raise FormatError(wrong, file=str(path))
    return keys


def damage(path: Path) -> str | None:
    """Compare a key file with its checksums. Return its error; None if it is intact or missing.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        found = _open(path)
    except FormatError as error:
        return str(error)
    if found is None:
        return None
    return _difference(*found)


def _difference(header: _Header, keys: KeyFile) -> str | None:
    """Compare both arrays with their checksums. Return the name of one that differs, or None."""
    arrays: tuple[tuple[str, npt.NDArray[Any], int], ...] = (
        ("hashes", keys.hashes, header.hashes_crc32),
        ("shards", keys.shards, header.shards_crc32),
    )
    for name, array, expected in arrays:
        actual = 0
        for first in range(0, len(array), _PIECE):
            actual = crc32(array[first : first + _PIECE].tobytes(), actual)
        if actual != expected:
            return (
                f"array {name!r} has the CRC-32 {actual:08x}, and {expected:08x} is recorded;"
                f" {_HINT}"
            )
    return None


def _open(path: Path) -> tuple[_Header, KeyFile] | None:
    try:
        with naming(path), open(path, "rb") as file:
            header, count, start = _parse(file.read(1 << 16), os.fstat(file.fileno()).st_size)
        if not count:
            return header, KeyFile(np.zeros(0, np.uint64), np.zeros(0, np.uint32))
        hashes = np.memmap(path, np.uint64, "r", start, (count,))
        shards = np.memmap(path, np.uint32, "r", start + 8 * count, (count,))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise FormatError(
            f"not a key file: {error}", file=str(path), offset=0, hint=_HINT
        ) from error
    return header, KeyFile(np.asarray(hashes), np.asarray(shards))


def _parse(data: bytes, size: int) -> tuple[_Header, int, int]:
    """Return the header, the number of keys, and where they begin, of a file of this size that begins with these bytes.

    Raises:
        Exception: It is not a key file.
    """
    [length] = struct.unpack_from("<Q", data)
    entries = msgspec.json.decode(data[8 : 8 + length])
    header = _HEADER.decode(entries["__metadata__"]["bushel"])
    [count] = entries["hashes"]["shape"]
    if header.version != _VERSION or count < 0 or size != 8 + length + 12 * count:
        raise ValueError(f"{size} bytes do not hold {count} keys of version {header.version}")
    written = _head(count, header.state, header.hashes_crc32, header.shards_crc32)
    if data[: 8 + length] != written:
        raise ValueError("its header is damaged")
    return header, count, 8 + length


# Key files of datasets
def lookup_of(rows: ShardRows) -> Lookup:
    """Return the finder of samples by key: the reader of windows itself, a table of hashes for all others."""
    if isinstance(rows, Lookup):
        return rows
    return key_lookup(rows.counted, rows.starts)


def key_lookup(shards: Sequence[OpenShard], starts: I64) -> KeyLookup:
    """Return the lookup of a dataset's keys: by the key file if there is one that fits, else by a table in memory."""
    if not any_keyed(shards):
        return KeyTable.without_keys(shards, starts)
    return stored_lookup(shards, starts) or KeyTable.of(shards)


def stored_lookup(shards: Sequence[OpenShard], starts: I64) -> StoredKeyTable | None:
    """Return the lookup of a dataset's keys by the key file; None without a key file that fits."""
    path = _path(shards)
    if path is not None and path.exists():
        try:
            stored = load_key_file(path, _state(shards))
        except (FormatError, OSError) as error:
            log_warning("%s; keys are looked up without it", error)
        else:
            if stored is not None:
                return StoredKeyTable(shards, starts, stored.hashes, stored.shards)
            log_warning(
                "%s was made before the dataset changed; keys are looked up without it, until"
                " `bushel index --keys` "
                "makes it again",
                path,
            )
    return None


def has_old_key_file(shards: Sequence[OpenShard]) -> bool:
    """Return whether a dataset has a key file that is damaged, or was made before the dataset changed.

    Raises:
        OSError: The file cannot be read.
    """
    path = _path(shards)
    if path is None or not path.exists():
        return False
    try:
        return load_key_file(path, _state(shards)) is None
    except FormatError:
        return True


def write_key_file(shards: Sequence[OpenShard], report: Callable[[int], None] | None = None) -> int:
    """Write the key file of a dataset. Return the number of keys.

    Raises:
        UnsupportedError: The dataset is not in one local folder.
        FormatError: The index of a shard is damaged.
        OSError: The file cannot be written.
    """
    path = _path(shards)
    if path is None:
        raise UnsupportedError(
            "a key file is for datasets in a local folder: leave out keys=True (--keys), or"
            " copy"
            " the dataset"
        )
    return save_key_file(path, shards, _state(shards), report=report)


def _path(shards: Sequence[OpenShard]) -> Path | None:
    manifest = manifest_path([each.shard for each in kinds(shards)])
    if isinstance(manifest, Path):
        return manifest.with_name(NAME)
    return None


def _state(shards: Sequence[OpenShard]) -> str:
    if isinstance(shards, Listing):
        table = shards.listed
        return state_of(
            table.names.text.tobytes(), table.samples, table.sizes, table.crc32, table.times
        )
    names = "".join(listed_names([each.shard for each in shards])).encode(
        "utf-8", "surrogateescape"
    )
    files = [stamp for each in shards for stamp in each.stamps]
    samples = np.array([each.samples for each in shards], np.int64)
    sizes = np.array([stamp.size for stamp in files], np.int64)
    stamps = np.array([-1 if stamp.crc32 is None else stamp.crc32 for stamp in files], np.int64)
    times = np.array([stamp.mtime_ns for stamp in files], np.int64)
    return state_of(names, samples, sizes, stamps, times)


def positions_of_keys(rows: ShardRows, keys: Sequence[str]) -> tuple[I64, list[str]]:
    """Return the positions of all samples that have one of these keys, and the keys that no sample has.

    Returns:
        int64[found], ascending; and the missing keys, in order.
    """
    wanted = list(dict.fromkeys(keys))
    known = np.zeros(len(wanted), np.bool_)
    found = [np.zeros(0, np.int64)]
    table = Keys.of(wanted)
    for number, some in _shards(rows, table.hashes):
        own = rows.shards[number].index.keys
        if own is None:
            continue
        places, hits = _equal(own.hashes, table.hashes[some])
        at, asked = own.order[places], table.order[some[hits]]
        if len(at) and not 0 <= at.min() <= at.max() < len(own):
            sidecar = str(rows.shards[number].shard.sidecar)
            raise FormatError(
                "the index is damaged",
                file=sidecar,
                hint="run `bushel index --force` on the dataset",
            )
        pairs = zip(own.take(at), table.take(asked), strict=True)  # two keys may have one hash
        same = np.fromiter((one == other for one, other in pairs), np.bool_, len(at))
        known[asked[same]] = True
        found.append(at[same] + rows.starts[number])
    for place in np.flatnonzero(~known).tolist():
        if (position := _unkeyed(rows, wanted[place])) is not None:
            known[place] = True
            found.append(np.array([position], np.int64))
    missing = [key for key, there in zip(wanted, known.tolist(), strict=True) if not there]
    return np.unique(np.concatenate(found)), missing


def shards_with(rows: ShardRows, names: Names, positions: I64) -> Container[int]:
    """Return the numbers of the shards that may have samples with names, which those at some positions have.

    All may, if no key file says less: a sample without a key may be in any shard.
    """
    stored = stored_lookup(rows.shards, rows.starts)
    if stored is None or len(stored.hashes) < rows.starts[-1] or not names.keyed.all():
        return range(len(rows.shards))
    places, _ = _equal(stored.hashes, Keys.build(names.text, names.offsets).hashes)
    numbers = np.searchsorted(rows.starts, positions, side="right") - 1
    return {*stored.shard_numbers[places].tolist(), *numbers.tolist()}


def _equal(known: U64, hashes: U64) -> tuple[I64, I64]:
    """Return where ascending hashes equal some others: the places in the first, and in the second ones."""
    first = np.searchsorted(known, hashes, side="left")
    counts = np.searchsorted(known, hashes, side="right") - first
    return ranges(first, counts), np.repeat(np.arange(len(hashes), dtype=np.int64), counts)


def _shards(rows: ShardRows, hashes: U64) -> Iterator[tuple[int, I64]]:
    """Yield the shards that may have some of these hashes, and which: those that the key file names, or all."""
    stored = stored_lookup(rows.shards, rows.starts)
    if stored is None:
        for number, shard in enumerate(rows.shards):
            if shard.keyed:
                yield number, np.arange(len(hashes), dtype=np.int64)
        return
    places, hits = _equal(stored.hashes, hashes)
    if not len(hits):
        return
    numbers = stored.shard_numbers[places]
    order = np.argsort(numbers, kind="stable")
    borders = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    for start, end in zip(borders.tolist(), [*borders.tolist()[1:], len(order)], strict=True):
        number = int(numbers[order[start]])
        if number < len(rows.shards):  # a damaged key file may name others
            yield number, np.unique(hits[order[start:end]])


def _unkeyed(rows: ShardRows, key: str) -> int | None:
    """Return the position of the sample that has no key of its own and is found by this number, or None."""
    if not (key.isascii() and key.isdecimal()) or len(key) >= 19 or str(int(key)) != key:
        return None
    position = int(key)
    if position >= rows.starts[-1] or rows.shards[rows.row_of(position)[0]].keyed:
        return None
    return position
