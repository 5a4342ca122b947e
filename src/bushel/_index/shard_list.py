"""The list of shards: the entries of the manifest as arrays, so that opening does not read every entry.

It is the safetensors file `shards.safetensors` beside the manifest, and may be deleted at any time.
docs/index.md specifies it. It is used only while the folder and the manifest have the times and
sizes that it records.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U8
from bushel.errors import SpecError
from bushel.kernels import map_array
from bushel.spec import Spec, format_spec
from bushel.storage import write_whole

from .names import Labels, check_labels
from .saving import encode, parse, whole_crc32
from .shard import FileStamp, Strings
from .sidecar import spec_from_file

NAME = "shards.safetensors"
"""Name of the file in the folder of the manifest."""

KEYED, SUMMED = 1, 2
"""Bits of `ShardList.flags`: samples have keys of their own; the CRC-32 of every field is known."""

_VERSION = 2
_DIGEST = 16  # bytes of the digest of a table
_MOST = 1 << 48
_ARRAYS = {
    "names.text": "U8",
    "names.offsets": "I64",
    "samples": "I64",
    "flags": "U8",
    "files.starts": "I64",
    "files.text": "U8",
    "files.offsets": "I64",
    "files.sizes": "I64",
    "files.times": "I64",
    "files.stamps": "I64",
    "digests": "U8",
}


class FolderState(Struct, frozen=True, array_like=True):
    """The last changes of a dataset's folder and its manifest, in nanoseconds, and the manifest's size in bytes."""

    folder_ns: int
    manifest_ns: int
    manifest_size: int


class ShardList(Struct, frozen=True):
    """The shards of one folder."""

    container: str  # name of the container
    spec: Spec  # the fields
    labels: Labels  # field to the names of its classes
    sidecars: str  # the folder of the sidecar files, relative to the dataset's
    names: Strings  # names of the shards, in order
    samples: I64  # int64[shards], numbers of samples
    flags: U8  # uint8[shards], `KEYED` and `SUMMED`
    starts: I64  # int64[shards + 1]; shard `i` has the files `starts[i]` to `starts[i + 1]`
    files: Strings  # paths of the files, relative to the dataset's folder
    sizes: I64  # int64[files], in bytes
    times: I64  # int64[files], times of modification in nanoseconds
    crc32: I64  # int64[files], stamps of the files (`FileStamp.crc32`); -1 if unknown
    digests: U8  # uint8[shards * 16], the digest of the table of each shard

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def any_keyed(self) -> bool:
        """Whether any sample has a key of its own."""
        return bool((self.flags & KEYED).any())

    @property
    def all_summed(self) -> bool:
        """Whether the CRC-32 of every field is known."""
        return bool((self.flags & SUMMED).all())

    def stamps(self, number: int) -> tuple[FileStamp, ...]:
        """Return the files of a shard."""
        stamps = []
        for file in range(self.starts.item(number), self.starts.item(number + 1)):
            facts = (array.item(file) for array in (self.sizes, self.times, self.crc32))
            size, time, crc32 = facts
            stamps.append(FileStamp(self.files[file], size, time, None if crc32 < 0 else crc32))
        return tuple(stamps)

    def digest(self, number: int) -> str:
        """Return the digest of the table of a shard."""
        return self.digests[number * _DIGEST : (number + 1) * _DIGEST].tobytes().hex()

    @property
    def is_valid(self) -> bool:
        """Whether the arrays fit each other."""
        shards, files = len(self.samples), len(self.sizes)
        of_shards = {shards, len(self.names), len(self.flags), len(self.starts) - 1}
        of_files = {files, len(self.files), len(self.times), len(self.crc32)}
        if len(of_shards | {0}) != 2 or len(of_files) != 1:
            return False
        if len(self.digests) != shards * _DIGEST:
            return False
        bounds = (
            self.starts[0] == 0 and self.starts[-1] == files and (np.diff(self.starts) > 0).all()
        )
        counts = (
            (self.samples >= 0).all() and (self.samples < _MOST).all() and (self.sizes >= 0).all()
        )
        return bool(bounds and counts and self.names.are_valid and self.files.are_valid)


class _Header(msgspec.Struct):
    version: int
    container: str
    spec: dict[str, str]
    labels: Labels
    sidecars: str
    state: FolderState
    crc32: int


# made at import, as the decoders of sidecars
_HEADER = msgspec.json.Decoder(_Header)


def save_shard_list(table: ShardList, state: FolderState, path: Path) -> None:
    """Write a table atomically. Raise OSError if the folder is not writable."""
    names, files = table.names, table.files
    of_shards = (names.text, names.offsets, table.samples, table.flags, table.starts)
    of_files = (files.text, files.offsets, table.sizes, table.times, table.crc32)
    arrays: dict[str, np.ndarray] = dict(
        zip(_ARRAYS, (*of_shards, *of_files, table.digests), strict=True)
    )
    spec = format_spec(table.spec)
    header = _Header(_VERSION, table.container, spec, table.labels, table.sidecars, state, 0)
    header.crc32 = whole_crc32(header, arrays)
    write_whole(path, encode(arrays, header), sync=False)


def load_shard_list(path: Path, state: FolderState) -> ShardList | None:
    """Return the table at a path; None if it is missing, stale or damaged."""
    try:
        header, arrays = parse(map_array(str(path)).data, _ARRAYS, _HEADER)
        if header.version != _VERSION or header.state != state:
            return None
        if whole_crc32(header, arrays) != header.crc32:
            return None
        names, offsets, samples, flags, starts, files, ends, *facts = arrays.values()
        table = ShardList(
            header.container,
            spec_from_file(header.spec),
            check_labels(header.labels),
            header.sidecars,
            Strings(names, offsets),
            samples,
            flags,
            starts,
            Strings(files, ends),
            *facts,
        )
    except (OSError, SpecError, ValueError):
        return None
    return table if table.is_valid else None
