"""Zip archives, read where they lie: members that share directory and name up to the first dot are one sample.

A member that is stored is an extent of the file; one that is compressed by deflate or zstd is a block. Python's
`zipfile` reads the directory, which has the CRC-32 of each value. docs/format-zip.md has the rules.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bushel._index.table import FileStamp, ShardIndex
from bushel._runtime.arrays import I64, joined, offsets_of
from bushel.containers.base import ReadOptions, Shard
from bushel.containers.tar.names import split_name
from bushel.containers.tar.samples import Members, tabulate
from bushel.errors import FormatError
from bushel.storage import AnyPath, Blocks, Extents, File, Seekable, gather, open_file

_HINT = "the archive is damaged or incomplete: write or download it again"
_FILTERS = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflate", 93: "zstd"}
_NAMES = ("stored", "deflate", "zstd")
_LOCAL_HEADER = 30
_ENCRYPTED = 0x1


class _Zip:
    name = "zip"
    suffixes = (".zip",)

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of a `.zip` file, or a shard for each `.zip` file of a folder, sorted by name."""
        if path.name.endswith(self.suffixes) and not path.is_dir():
            return [Shard(path.parent, path.name, (path.name,))]
        names = sorted(each.name for each in path.iterdir()) if path.is_dir() else []
        own = [name for name in names if name.endswith(self.suffixes) and not name.startswith(".")]
        return [Shard(path, name, (name,)) for name in own] or None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one archive, from its directory and the headers of its members."""
        file = open_file(shard.path(0))
        entries = _entries(file)
        offsets, lengths = _data_of(file, entries)
        sizes = np.array([entry.file_size for entry in entries], np.int64)
        stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        starts = offsets_of(sizes)
        text = [entry.filename.encode("utf-8", "surrogateescape") for entry in entries]
        members = Members(
            *joined(text),
            offsets if stored else starts[:-1],
            sizes,
            np.array([entry.header_offset for entry in entries], np.int64),
        )
        table = tabulate(members, options.spec, file.path)
        kinds = np.array([_NAMES.index(_FILTERS[entry.compress_type]) for entry in entries], np.uint8)
        blocks = Blocks(starts, np.zeros(len(entries), np.int32), offsets, lengths, kinds, _NAMES)
        crc32 = np.array([entry.CRC for entry in entries], np.uint32)
        order = np.argsort(members.offset, kind="stable")
        fields = {}
        for name, extents in table.columns.items():
            at = np.searchsorted(members.offset[order], extents.offset, "right") - 1
            known = np.where(extents.length > 0, crc32[order[np.maximum(at, 0)]] if len(entries) else 0, 0)
            fields[name] = replace(extents, file=0 if stored else 1, crc32=known.astype(np.uint32))
        stamp = FileStamp(shard.files[0], file.size, file.mtime_ns)
        index = ShardIndex(table.samples, (stamp,), fields, self.name, table.keys, blocks=() if stored else (blocks,))
        return index.check(file.path)


CONTAINER = _Zip()


def _entries(file: File) -> list[zipfile.ZipInfo]:
    """Return the files of an archive, in the order of their data, with the files of a sample together.

    Raises:
        FormatError: The directory is damaged, or a member is encrypted or compressed in another way.
    """
    try:
        with zipfile.ZipFile(io.BufferedReader(Seekable(file))) as archive:
            found = [entry for entry in archive.infolist() if not _passed_over(entry.filename)]
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, OverflowError) as error:
        raise FormatError(f"not a zip archive that can be read: {error}", file=file.path, hint=_HINT) from error
    found.sort(key=lambda entry: entry.header_offset)
    for entry in found:
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _FILTERS:
            what = "is encrypted" if entry.flag_bits & _ENCRYPTED else f"has compression {entry.compress_type}"
            raise FormatError(
                f"member {entry.filename!r} {what}, which Bushel does not read",
                file=file.path,
                offset=entry.header_offset,
                hint="extract the archive, and open the folder",
            )
    first: dict[str, int] = {}
    for entry in found:
        first.setdefault(_key(entry), len(first))
    return sorted(found, key=lambda entry: first[_key(entry)])


def _passed_over(name: str) -> bool:
    """Return whether a name is of a folder, or hidden, as the copies of file attributes that macOS adds."""
    return (
        name.endswith("/")
        or f"/{name}".startswith("/__MACOSX/")
        or any(each.startswith(".") and each.strip(".") for each in name.split("/"))
    )


def _key(entry: zipfile.ZipInfo) -> str:
    split = split_name(entry.filename.encode("utf-8", "surrogateescape"))
    return entry.filename if split is None else str(split[0])


def _data_of(file: File, entries: Sequence[zipfile.ZipInfo]) -> tuple[I64, I64]:
    """Return where the data of members begin, after their own headers, and their stored bytes: two int64[members].

    Raises:
        FormatError: A member is not inside the file.
    """
    headers = np.array([entry.header_offset for entry in entries], np.int64)
    lengths = np.array([entry.compress_size for entry in entries], np.int64)
    outside = (headers < 0) | (headers > file.size - _LOCAL_HEADER)
    if not outside.any():
        data, _ = gather([file], Extents(0, headers, np.full(len(headers), _LOCAL_HEADER, np.int64)))
        heads = data.reshape(-1, _LOCAL_HEADER)
        names = heads[:, 26].astype(np.int64) + (heads[:, 27].astype(np.int64) << 8)
        extra = heads[:, 28].astype(np.int64) + (heads[:, 29].astype(np.int64) << 8)
        offsets = headers + _LOCAL_HEADER + names + extra
        wrong = (heads[:, :4] != np.frombuffer(b"PK\3\4", np.uint8)).any(axis=1)
        outside = wrong | (lengths > file.size) | (offsets > file.size - lengths)
    if outside.any():
        entry = entries[int(outside.argmax())]
        raise FormatError(
            f"member {entry.filename!r} of {entry.compress_size} bytes is not where the directory says",
            file=file.path,
            offset=entry.header_offset,
            hint=_HINT,
        )
    return offsets, lengths
