"""WebDataset: tar archives in which adjacent files with the same key are one sample.

Names are told apart in `tar_names`, samples put together in `tar_samples`, archives written in `tar_writer`, streams
read in `tar_members`. Layout, rules and an example are in docs/format-tar.md.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bushel import kernels
from bushel.containers.base import Column as StoredColumn
from bushel.containers.base import Layout, ReadOptions, Shard, ShardWriter, WriteOptions
from bushel.containers.checksums import with_checksums
from bushel.containers.naming import name_behind
from bushel.containers.tar.names import extension_of, field_name, split_name
from bushel.containers.tar.samples import Members, tabulate
from bushel.containers.tar.writer import TarShardWriter
from bushel.errors import FormatError, SpecError
from bushel.kernels import MappedFile, TarMembers
from bushel.shardindex import FileStamp, IndexBuilder, ShardIndex
from bushel.spec import Field, Spec
from bushel.storage import AnyPath, ExtentError, File, Staging, open_file

__all__ = ["CONTAINER"]

_REGULAR = (0, ord("0"), ord("7"))
_SPARSE = ord("S")
_WINDOW = 1 << 20
_GLANCE = 1000
"""Members that are looked at to learn how an existing archive spells its fields."""


@dataclass(frozen=True, slots=True)
class _Tar:
    name: str = "tar"
    suffix: str = ".tar"
    scanned: bool = True
    needs_keys: bool = True

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """A `.tar` file, or the `.tar` files of a folder in the order of their names."""
        if path.is_dir():
            return [Shard(path, name, (name,)) for name in _archives(path)] or None
        return [Shard(path.parent, path.name, (path.name,))] if path.name.endswith(".tar") else None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """The table of one archive, from one pass over its headers."""
        file = open_file(shard.path(0))
        found = _scan(file)
        _raise_if_damaged(found, file)
        table = tabulate(_regular(found, file.path), options.spec, file.path)
        index = ShardIndex(
            table.samples,
            (FileStamp(shard.files[0], file.size, file.mtime_ns),),
            table.columns,
            self.name,
            table.keys,
        ).check(file.path)
        if options.checksums:
            return with_checksums(index, [file], report=options.report)
        if options.report is not None:
            options.report(file.size)
        return index

    def generation(self, shard: Shard) -> str | None:
        """None: there is only one."""
        return None

    def join(self, raw: bytes) -> bytes:
        """Every member of a tar is in one piece."""
        return raw

    def layout(self, spec: Spec, options: WriteOptions) -> Layout:
        """Every field becomes a member, and its name and codec the extension."""
        used: dict[str, str] = {}
        for field in spec.values():
            _check_field(field)
            extension = field.name if field.sequence else extension_of(field)[0]
            if extension in used:
                raise SpecError(f"fields {used[extension]!r} and {field.name!r} would both be called `.{extension}`")
            used[extension] = field.name
        for field in spec.values():
            taken = next((one for one in used if field.sequence and one.startswith(field.name + ".")), None)
            if taken is not None:
                raise SpecError(f"field {used[taken]!r} would lie among the members of the sequence {field.name!r}")
        columns = tuple(StoredColumn(field, extension_of(field)[1], 0) for field in spec.values())
        limits = []
        if any(field.sequence for field in spec.values()):
            limits.append("without its index or a spec, a sequence is read as one field per element")
        return Layout(columns, replace(options, keyed=True), sparse=True, limits=tuple(limits))

    def shard(self, root: AnyPath, layout: Layout, number: int, name: str | None) -> Shard:
        """The file that the user named, or one whose name comes behind those in the folder: `shard-000000.tar`."""
        if name is None:
            name = name_behind(_archives(root) if root.exists() else [], number, suffix=self.suffix, stem="shard-")
        elif not name.endswith(".tar"):
            raise SpecError(f"{name}: the name of a tar shard ends in .tar")
        return Shard(root, name, (name,))

    def reopen(self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging) -> dict[str, int]:
        """Copy an archive into staging, without the empty blocks that close it."""
        [name] = shard.files
        found = _scan(open_file(shard.path(0)))
        (staging.place / name).parent.mkdir(parents=True, exist_ok=True)
        with shard.path(0).open("rb") as source, open(staging.place / name, "wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 22)
        return {name: found.end}

    def writer(self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder) -> ShardWriter:
        """Start writing an archive, or go on with one."""
        [name] = shard.files
        sink = staging.open(name)
        if not any(column.codec == "bytes" for column in layout.columns):
            return TarShardWriter(layout, name, sink, builder)
        # What holds plain bytes may have any extension: keep to that of the samples that are there.
        there: AnyPath | None = staging.place / name if sink.position else None
        if there is None and shard.root.exists():
            there = next((shard.root / other for other in _archives(shard.root)), None)
        return TarShardWriter(layout, name, sink, builder, frozenset() if there is None else _extensions(there))


CONTAINER = _Tar()
"""The container."""


def _archives(folder: AnyPath) -> list[str]:
    names = (path.name for path in folder.iterdir())
    return sorted(name for name in names if name.endswith(".tar") and not name.startswith("."))


def _scan(file: File) -> TarMembers:
    try:
        if isinstance(file, MappedFile):
            return kernels.scan_tar(file)
        scanner = kernels.TarScanner(file.size, smallest_window=_WINDOW)
        while (window := scanner.next_window()) is not None:
            scanner.feed(file.read(*window))
        return scanner.finish()
    except ExtentError as error:
        raise FormatError("the file became shorter while it was read", file=file.path, offset=error.found) from error


def _raise_if_damaged(found: TarMembers, file: File) -> None:
    hint = "run `bushel verify` on it"
    if file.size < 512 or (found.problem is not None and not len(found) and found.problem_offset == 0):
        why = found.problem or f"it has {file.size} bytes, and an empty one has two blocks of zeros"
        raise FormatError(f"not a tar archive: {why}", file=file.path, offset=0, hint=hint)
    if found.problem is not None:
        raise FormatError(found.problem, file=file.path, offset=found.problem_offset, hint=hint)
    if found.tail:
        where = file.size - found.tail
        message = f"{found.tail} bytes behind the end of the archive; of joined archives, only the first is read"
        raise FormatError(message, file=file.path, offset=where, hint=hint)
    if not found.terminated:
        message = "the archive ends without its two empty blocks: what followed may be lost"
        raise FormatError(message, file=file.path, offset=found.end, hint=hint)


def _regular(found: TarMembers, path: str) -> Members:
    """The files among the members."""
    rows = np.flatnonzero(np.isin(found.type, _REGULAR))
    names = Members(found.names, found.name_offsets, found.offset, found.size, found.header)
    sparse = np.flatnonzero(found.type == _SPARSE)
    if len(sparse):
        row = int(sparse[0])
        message = f"{names.name(row)!r} is stored as a sparse file"
        raise FormatError(message, file=path, offset=int(found.header[row]), hint="make the archive without --sparse")
    if len(rows) == len(found):
        return names
    length = np.diff(found.name_offsets)
    kept = np.zeros(len(found), np.bool_)
    kept[rows] = True
    text = found.names[np.repeat(kept, length)]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(length[rows], out=offsets[1:])
    return Members(text, offsets, found.offset[rows], found.size[rows], found.header[rows])


def _check_field(field: Field) -> None:
    name = field.name
    if name != name.lower():
        raise SpecError(f"field {name!r}: readers of tar datasets put extensions in lower case: write {name.lower()!r}")
    if "/" in name or "\n" in name or "" in name.split("."):
        raise SpecError(f"field {name!r}: as part of a file name it has no slash, no line break and no empty part")
    if name.startswith("_"):
        raise SpecError(f"field {name!r}: webdataset keeps names that begin with `_` for itself")


def _extensions(path: AnyPath) -> frozenset[str]:
    """The extensions of the first members of an archive: enough to see how its fields are spelled."""
    found = _scan(open_file(path))
    offsets = found.name_offsets[: _GLANCE + 1].tolist()
    names = (found.names[first:last].tobytes() for first, last in pairwise(offsets))
    return frozenset(field_name(split[1]) for name in names if (split := split_name(name)))
