"""WebDataset: tar archives in which adjacent files with the same key are one sample.

`tar.names` splits names, `tar.samples` groups members into samples, `tar.writer` writes archives,
and `tar.members` reads streams. docs/format-tar.md has the layout, the rules and an example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from bushel._index.shard import Shard, stamps
from bushel._index.table import ShardIndex
from bushel.containers.base import (
    Container,
    Layout,
    LayoutField,
    ReadOptions,
    ShardWriter,
    WriteOptions,
)
from bushel.errors import FormatError, SpecError
from bushel.spec import Field, Spec
from bushel.storage import AnyPath, open_file

from .names import (
    COMPRESSED,
    LISTS,
    META,
    archive_in,
    description_in,
    extension_of,
    extensions,
    only_compressed,
)

if TYPE_CHECKING:
    from bushel._index.builders import IndexBuilder
    from bushel.storage import Staging

_GLANCE = 1000  # number of members that are read to learn how an existing archive spells its fields


class _Tar(Container):
    name = "tar"
    stem = "shard-"
    needs_keys = True
    holds_files = True

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of an archive, or a shard for each archive of a folder, sorted by name.

        Lists of Energon and wids are followed. The compressed archives of a folder count if it has
        no other files.
        """
        root, names = path, list[str]()
        if path.is_dir():
            names = _archives(path)
        elif path.name in LISTS:
            from .lists import wids_archives

            root, names = path.parent, wids_archives(path.parent, path.name) or []
        elif self.owns(path.name):
            return [Shard.of(path)]
        return [Shard(root, name, (name,)) for name in names] or None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the index of one archive, from one scan of its headers; a compressed one is expanded for that."""
        from .scan import read_table

        path = shard.path(0)
        file = shard.open()
        archive, blocks = archive_in(file, path.name)
        table, labels = read_table(path, archive, options.spec)
        options.report(file.size)
        return replace(table.index(stamps(shard, [file]), blocks), labels=labels).check(file.path)

    def faults(self, shard: Shard) -> list[FormatError]:
        """Return the error of a comment that describes the fields of an archive, and cannot be read."""
        from .scan import pieces_of

        file = shard.open()
        if file.path.endswith(COMPRESSED):
            return []
        return description_in(next(pieces_of(file, 1)).comment, file.path)[1]

    def layout(self, spec: Spec, options: WriteOptions) -> Layout:
        """Return how samples are stored: each field is a member whose extension is made from its name and codec."""
        used: dict[str, str] = {}
        columns: list[LayoutField] = []
        for field in spec.values():
            _check_field(field)
            extension, codec = extension_of(field)
            columns.append(LayoutField(field, codec, 0))
            if field.sequence:
                extension = field.name
            if extension in used:
                first = used[extension]
                raise SpecError(
                    f"fields {first!r} and {field.name!r} would "
                    f"both have the extension `.{extension}`"
                )
            used[extension] = field.name
        for sequence in (field.name for field in spec.values() if field.sequence):
            for extension, name in used.items():
                if extension.startswith(f"{sequence}."):
                    raise SpecError(
                        f"field {name!r} would be read as elements of the sequence {sequence!r}"
                    )
        return Layout(tuple(columns), replace(options, keyed=True), sparse=True)

    def check_name(self, name: str) -> None:
        """Raise SpecError unless the name of an archive ends in `.tar`."""
        if not name.endswith(self.suffix):
            raise SpecError(f"{name}: the name of a tar shard must end in .tar")

    def reopen(
        self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging
    ) -> dict[str, int]:
        """Copy an archive into staging, without the empty blocks at its end."""
        from bushel.storage import copy_to_append

        from .scan import scan

        [name] = shard.files
        archive = scan(shard.open())
        copy_to_append(shard.path(0), staging.path_of(name))
        return {name: archive.end}

    def writer(
        self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder
    ) -> ShardWriter:
        """Start an archive, or continue one."""
        from .scan import scan
        from .writer import TarShardWriter

        [name] = shard.files
        sink = staging.open(name)
        archive = scan(open_file(staging.path_of(name))) if sink.position else None
        comment, existing = b"" if archive is None else archive.comment, frozenset[str]()
        # A field of plain bytes may have any extension: keep the extension of the existing samples.
        if any(column.codec == "bytes" for column in layout.columns):
            if archive is None and shard.root.exists():
                for other in _archives(shard.root)[:1]:
                    archive = scan(open_file(shard.root / other))
            if archive is not None:  # its first members show how its fields are spelled
                existing = extensions(archive.names, archive.name_offsets[: _GLANCE + 1])
        return TarShardWriter(layout, name, sink, builder, existing, comment)


CONTAINER = _Tar()
"""The container."""


def _archives(folder: AnyPath) -> list[str]:
    names = [path.name for path in folder.iterdir()]
    if not {*LISTS, META}.isdisjoint(names):
        from .lists import listed_archives

        if (listed := listed_archives(folder, names)) is not None:
            return listed
    plain = sorted(
        name for name in names if name.lower().endswith(".tar") and not name.startswith(".")
    )
    return plain or only_compressed(names)


def _check_field(field: Field) -> None:
    name = field.name
    if name != name.lower():
        advice = f"use {name.lower()!r}{_renaming(name, name.lower())}"
        raise SpecError(f"field {name!r}: readers of tar datasets lower-case extensions: {advice}")
    if "/" in name or "\n" in name or "" in name.split("."):
        other = (
            ".".join(part for part in name.replace("/", "_").replace("\n", "_").split(".") if part)
            or "data"
        )
        reason = "as part of a file name it cannot have a slash, a line break or an empty part"
        raise SpecError(f"field {name!r}: {reason}{_renaming(name, other.lower())}")
    if name.startswith("_"):
        raise SpecError(f"field {name!r}: webdataset reserves names that start with `_`")


def _renaming(name: str, other: str) -> str:
    import shlex

    return f". `bushel convert --rename {shlex.quote(f'{name}={other}')}` renames it"
