"""The key file: the sorted hashes of all keys of a dataset, which finds one of a billion keys without loading them.

`bushel index --keys` writes it beside the manifest; it may be deleted at any time. It is a
safetensors file with two arrays, `hashes` and `shards`, which docs/index.md specifies. It is used
only while the shards have the names, the numbers of samples, and the sizes and stamps of files that
it was made for; so it survives copies of the folder. Its answer for a key is compared with the keys
of the shard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from bushel._dataset.open.completeness import listed_names, manifest_path
from bushel._index.headers import Arrays
from bushel._index.key_lookup import KeyLookup, samples_of_keys
from bushel._index.saving import head_of, parse
from bushel._index.shard import Keys, sizes_of
from bushel._index.sidecar import ALWAYS_CHECKED
from bushel._runtime.arrays import I64, U32, U64, Array, concatenated, equal_places
from bushel._runtime.messages import log_warning
from bushel.errors import FormatError, UnsupportedError
from bushel.kernels import crc32, map_array
from bushel.storage import replacing, write_all

from .shards import Listing, OpenShard, ShardRows, any_keyed, kinds

if TYPE_CHECKING:
    from bushel._index.removal_list import Names

NAME = "keys.safetensors"
"""Name of the file in the folder of the manifest."""
_VERSION = 3
_ARRAYS = {"hashes": "U64", "shards": "U32"}
"""`hashes`: uint64[keyed samples], ascending hashes of the keys (`kernels.hash_keys`). `shards`: uint32[keyed samples],
the number of each key's shard; ascending where hashes are equal."""
# bytes of the keys that are sorted at a time, more or less; their hashes are random numbers
_MEMORY = 1 << 28
_HINT = "`bushel index --keys` makes it again"


class _Header(msgspec.Struct):
    version: int
    state: str
    crc32: list[str]  # of the state and then each array, as 8 hexadecimal digits


# made at import, as the decoders of sidecars
_HEADER = msgspec.json.Decoder(_Header)


def save_key_file(
    path: Path,
    shards: Sequence[OpenShard],
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
        state: A text that differs if the shards of a dataset differ.
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
    sums, written = [crc32(state.encode())] * 2, 0
    head = _head(count, state, sums)
    with replacing(path) as file:
        for pair in _sorted_ranges(shards, keyed, max(1, -(-count * 32 // memory))):
            start = len(head)
            for number, array in enumerate(pair):
                write_all(file, array.tobytes(), start + written * array.itemsize)
                sums[number] = crc32(array.view(np.uint8), sums[number])
                start += count * array.itemsize
            written += len(pair[0])
            if report is not None:
                report(written)
        if written != count:
            raise FormatError(
                f"{written} keys were found in the shards, and {count} expected",
                hint="run `bushel index`",
            )
        write_all(file, _head(count, state, sums), 0)
    return count


def _sorted_ranges(
    shards: Sequence[OpenShard], keyed: list[int], ranges: int
) -> Iterator[tuple[Array, Array]]:
    """Yield the hashes of all keys, ascending, and the number of the shard of each, range by range."""
    limits = np.array([number * 2**64 // ranges for number in range(1, ranges)], np.uint64)
    for number_of_range in range(ranges):
        hashes, numbers = list[U64](), list[U32]()
        for number in keyed:
            keys = shards[number].index.keys
            if keys is None:
                continue
            ends = [0, *np.searchsorted(keys.hashes, limits).tolist(), len(keys.hashes)]
            in_range = keys.hashes[ends[number_of_range] : ends[number_of_range + 1]]
            if (in_range[1:] < in_range[:-1]).any():
                raise FormatError(
                    "the hashes of its keys are not sorted",
                    shards[number].path(0),
                    hint="`bushel index --force` makes the index again",
                )
            hashes.append(in_range)
            numbers.append(np.full(len(in_range), number, np.uint32))
        whole = concatenated(hashes, np.uint64)
        order = np.argsort(whole, kind="stable")
        yield whole[order], concatenated(numbers, np.uint32)[order]


def _head(count: int, state: str, sums: Sequence[int]) -> bytes:
    """Return the beginning of a file."""
    header = _Header(_VERSION, state, [f"{checksum:08x}" for checksum in sums])
    arrays: Arrays = {
        "hashes": np.broadcast_to(np.uint64(0), count),
        "shards": np.broadcast_to(np.uint32(0), count),
    }
    return head_of(arrays, header)


def load_key_file(path: Path, state: str) -> Arrays | None:
    """Return the arrays of the key file at a path; None if it is missing or was made for other shards.

    A small file is compared with its checksums, as small tables are; a large one is compared by
    `damage` only.

    Raises:
        FormatError: The file is damaged.
        OSError: The file cannot be read.
    """
    opened = _open(path)
    if opened is None or opened[0].state != state:
        return None
    header, arrays = opened
    if sum(array.nbytes for array in arrays.values()) <= ALWAYS_CHECKED and (
        difference := _difference(header, arrays)
    ):
        raise FormatError(difference, path)
    return arrays


def damage(path: Path) -> str | None:
    """Compare a key file with its checksums. Return its error; None if it is intact or missing.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        opened = _open(path)
    except FormatError as error:
        return str(error)
    return opened and _difference(*opened)


def _difference(header: _Header, arrays: Arrays) -> str | None:
    """Compare the arrays with their checksums. Return the name of one that differs, or None."""
    for (name, array), expected in zip(arrays.items(), header.crc32, strict=False):
        actual = f"{crc32(array.view(np.uint8), crc32(header.state.encode())):08x}"
        if actual != expected:
            return f"array {name!r} has the CRC-32 {actual}, and {expected} is recorded; {_HINT}"
    return None


def _open(path: Path) -> tuple[_Header, Arrays] | None:
    """Map a key file; None if it is missing. Raise FormatError if it is damaged."""
    try:
        header, arrays = parse(map_array(str(path)).data, _ARRAYS, _HEADER)
        if header.version != _VERSION or len(header.crc32) != len(arrays):
            raise ValueError(f"its version is {header.version}")  # noqa: TRY301
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise FormatError(f"not a key file: {error}", path, 0, _HINT) from error
    return header, arrays


# Key files of datasets
def key_lookup(shards: Sequence[OpenShard], starts: I64) -> KeyLookup:
    """Return the lookup of a dataset's keys: by the key file if there is one that fits, else by a table in memory."""
    if any_keyed(shards):
        return stored_lookup(shards, starts) or KeyLookup.of(shards)
    return KeyLookup(shards, starts, np.zeros(0, np.uint64), np.zeros(0, np.uint32))


def stored_lookup(shards: Sequence[OpenShard], starts: I64) -> KeyLookup | None:
    """Return the lookup of a dataset's keys by the key file; None without a key file that fits."""
    path = _path(shards)
    if path is None or not path.exists():
        return None
    try:
        arrays = load_key_file(path, _state(shards))
    except (FormatError, OSError) as error:
        log_warning("%s; keys are looked up without it", error)
        return None
    if arrays is None:
        log_warning(
            "%s was made before the dataset changed; keys are looked "
            "up without it, until `bushel index --keys` makes it again",
            path,
        )
        return None
    return KeyLookup(shards, starts, *arrays.values())


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
            "a key file is for datasets in a local folder: "
            "leave out keys=True (--keys), or copy the dataset"
        )
    return save_key_file(path, shards, _state(shards), report=report)


def _path(shards: Sequence[OpenShard]) -> Path | None:
    manifest = manifest_path([opened.shard for opened in kinds(shards)])
    if isinstance(manifest, Path):
        return manifest.with_name(NAME)
    return None


def _state(shards: Sequence[OpenShard]) -> str:
    """Return a text that differs if the shards of a dataset differ.

    The number of shards, and the CRC-32 of their names, numbers of samples, sizes, and stamps; the
    time of modification counts only for files without a stamp.
    """
    if isinstance(shards, Listing):
        table = shards.listed
        names, facts = table.names.text.tobytes(), (table.samples, table.sizes)
        stamps, times = table.crc32, table.times
    else:
        texts = "".join(listed_names([opened.shard for opened in shards]))
        names = texts.encode("utf-8", "surrogateescape")
        files = [stamp for opened in shards for stamp in opened.stamps]
        counts = [opened.samples for opened in shards]
        facts = np.array(counts, np.int64), sizes_of(files)
        stamps = np.array([-1 if stamp.crc32 is None else stamp.crc32 for stamp in files], np.int64)
        times = np.array([stamp.mtime_ns for stamp in files], np.int64)
    contents = np.where(stamps < 0, -1 - times, stamps)
    parts = (names, *(array.tobytes() for array in (*facts, contents)))
    return "-".join([str(len(shards)), *(f"{crc32(part):08x}" for part in parts)])


def positions_of_keys(rows: ShardRows, keys: Sequence[str]) -> tuple[I64, list[str]]:
    """Return the positions of all samples that have one of these keys, and the keys that no sample has.

    Returns:
        int64[found], ascending; and the missing keys, in order.
    """
    distinct, shards = list(dict.fromkeys(keys)), rows.shards
    # without a key file, shard by shard: a table of all keys takes 12 bytes for each of them
    lookup = stored_lookup(shards, rows.starts)
    positions, numbers = samples_of_keys(distinct, shards, rows.starts, lookup)
    missing = np.setdiff1d(np.arange(len(distinct)), numbers)
    return np.unique(positions), [distinct[number] for number in missing.tolist()]


def shards_with(rows: ShardRows, names: Names, positions: I64) -> Collection[int]:
    """Return the numbers of the shards that may have samples with names, which those at some positions have.

    All may, if no key file says less: a sample without a key may be in any shard.
    """
    stored = stored_lookup(rows.shards, rows.starts)
    if stored is None or len(stored.hashes) < rows.starts[-1] or not names.keyed.all():
        return range(len(rows.shards))
    places, _ = equal_places(stored.hashes, Keys.build(names.keys.text, names.keys.offsets).hashes)
    numbers = np.searchsorted(rows.starts, positions, side="right") - 1
    return {*stored.shard_numbers[places].tolist(), *numbers.tolist()}
