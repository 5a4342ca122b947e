"""Granular datasets: a folder with one `.bag` file of records per field, or a folder of numbered such folders.

Three generations of the format are read, and recognised by their files: A (the package bags,
Granular up to 0.19) and B (0.20, 0.21) keep the table of a bag at its end and have `refs.bag`; C
(from 0.22) keeps it in an `.idx` file. docs/format-bag.md has layouts, rules and an example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.shard import Keys, Shard, stamps
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, offsets_of, ranges
from bushel.codecs.registry import from_file
from bushel.containers.base import Container, Layout, ReadOptions
from bushel.errors import FormatError, SpecError
from bushel.spec import KEY, Field, Spec
from bushel.storage import AnyPath, Extents, File, gather, look_at_file, names_in, open_file

from .tables import (
    Refs,
    Table,
    decode_refs,
    gapless,
    inline_table,
    separate_table,
)
from .writer import (
    LONGEST_NAME,
    BagWriter,
    copy_records,
    generation_of,
    plan_layout,
    stored_codec,
)

if TYPE_CHECKING:
    from bushel.storage import Staging

_SHARD = re.compile(r"[0-9]+")
_SPEC = msgspec.json.Decoder(dict[str, str])
_LARGEST_SPEC = 1 << 24
_KNOWN_TYPES = {"cls": "int", "npy": "array", "float-text": "float", "jpeg": "jpg", "int(8)": "u64"}
"""Types that Granular lacks, and Granular's types for the same values."""
_RECORD = "record"  # the field of a bag file that is opened on its own


class _Bag(Container):
    name = "bag"
    generations = ("A", "B", "C")
    has_own_index = True
    layout = staticmethod(plan_layout)
    writer = BagWriter

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return one shard for a plain dataset or a bag file, else one for each numbered folder.

        Raises:
            FormatError: A `spec.json` is missing or damaged, or a number is missing.
        """
        if not path.is_dir():
            if not path.name.endswith(".bag"):
                return None
            table = path.name.removesuffix(".bag") + ".idx"
            files = (path.name, table) if (path.parent / table).is_file() else (path.name,)
            return [Shard(path.parent, path.name, files)]
        names = names_in(path)
        if "spec.json" in names or any(name.endswith(".bag") for name in names):
            return [Shard(path, "", _files(path))]
        return _numbered(path, [name for name in names if _SHARD.fullmatch(name)])

    def generation(self, shard: Shard) -> str:
        """Return the generation of a shard: `A`, `B` or `C`. Appending must use the same one.

        Raises:
            FormatError: The table that shows the generation is damaged.
        """
        if has_idx(shard):
            return "C"
        # the last but one is refs.bag, which has no empty record, so its table always shows the
        # generation
        return inline_table(open_member(shard.path(max(0, len(shard.files) - 2)))).generation

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the index of one shard, from the tables of its bags."""
        if isinstance(shard.root, Path) and has_idx(shard):
            # bags with tables beside them are looked at and not opened
            paths = shard.path_texts(range(len(shard.files)))
            files = [open_member(path, look_at_file) for path in paths]
        else:
            files = list(map(open_member, shard.paths))
        if shard.files[-1].endswith("spec.json"):
            index = _index_dataset(shard, files)
        else:
            table = separate_table(*reversed(files)) if len(files) == 2 else inline_table(files[0])
            column = file_column(table, options.spec)
            fields = {column.field.name: column}
            index = ShardIndex(table.records, stamps(shard, files), fields, "bag")
        options.report(sum(file.size for file in files))
        return index.check(str(shard.root))

    def written_as(self, generation: str) -> str:
        """Return `B` for `A`, which is only read."""
        return "B" if generation == "A" else generation

    def file_of_references(self, shard: Shard) -> str | None:
        """Return the path of `refs.bag`, which generation C does not have."""
        return next((name for name in shard.files if name.rpartition("/")[2] == "refs.bag"), None)

    def type_of(self, codec: str) -> str:
        """Return Granular's type for values of a codec."""
        return _KNOWN_TYPES.get(codec, codec)

    def shard(
        self, root: AnyPath, layout: Layout, before: Sequence[Shard], name: str | None
    ) -> Shard:
        """Return the files of a new shard: in `root` itself, or in its folder `000003`. Bags are never single files."""
        fields = _fields_of(layout)
        split = generation_of(layout.options) == "C"
        if layout.options.single:
            return Shard(root, "", _file_names(fields, "", split=split))
        folder = f"{len(before):06d}"
        return Shard(
            root, folder, _file_names(fields, f"{folder}/", split=split), f"{folder}/.bushel"
        )

    def reopen(
        self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging
    ) -> dict[str, int]:
        """Copy the records of a shard into staging; tables, keys, refs and spec are rewritten when it is finished.

        Raises:
            SpecError: The shard has another generation or other fields, or records that no sample
                refers to.
        """
        generation, expected_generation = self.generation(shard), generation_of(layout.options)
        if generation != expected_generation:
            raise SpecError(
                f"{shard.root} has generation {generation}, not "
                f"{expected_generation}: append to it with generation={generation!r}"
            )
        prefix = shard.files[-1].removesuffix("spec.json")
        expected = _file_names(_fields_of(layout), prefix, split=expected_generation == "C")
        if sorted(expected) != sorted(shard.files):
            raise SpecError(
                f"{shard.root} has the files {', '.join(shard.files)}, "
                f"where {', '.join(expected)} are needed"
            )
        return copy_records(shard, index, staging.place)


CONTAINER = _Bag()
"""The container."""


def has_idx(shard: Shard) -> bool:
    """Return whether the tables of a shard are beside its bags, as in generation C."""
    return any(name.endswith(".idx") for name in shard.files)


def _fields_of(layout: Layout) -> list[str]:
    return [column.field.name for column in layout.columns] + [KEY] * layout.options.keyed


def _file_names(fields: Iterable[str], prefix: str, *, split: bool) -> tuple[str, ...]:
    """Return the files of a shard with these fields (including `__key__`): bags, then tables, and `spec.json` last.

    Args:
        fields: Names of the fields.
        prefix: The shard's folder, with its `/`; empty for a plain dataset.
        split: Whether tables are separate files, as in generation C.
    """
    names = sorted(fields)
    tables = [f"{name}.idx" for name in names] if split else ["refs.bag"]
    return tuple(
        prefix + name for name in [*(f"{name}.bag" for name in names), *tables, "spec.json"]
    )


def _numbered(path: AnyPath, names: list[str]) -> list[Shard] | None:
    """Return the shards of a sharded dataset; None if no numbered folder is a Granular dataset.

    Only the first folder is looked into, so listing a hundred thousand takes one call; `index`
    finds what differs.
    """
    if not any(_is_dataset(path / name) for name in names):
        return None
    names = sorted(names, key=lambda name: (int(name), name))
    for position, name in enumerate(names):
        if int(name) != position:
            problem = f"shard {position:06d} is missing"
            if int(name) < position:
                problem = f"shard {int(name)} exists twice"
            raise FormatError(
                f"{problem}: shards are numbered from 000000 without a gap",
                path,
                hint="restore the folder",
            )
    files = _files(path / names[0])
    return [
        Shard(path, name, tuple(f"{name}/{file}" for file in files), f"{name}/.bushel")
        for name in names
    ]


def _is_dataset(folder: AnyPath) -> bool:
    if not folder.is_dir():
        return False
    return any(name == "spec.json" or name.endswith(".bag") for name in names_in(folder))


def _files(folder: AnyPath) -> tuple[str, ...]:
    """Return the files that a dataset's folder should have. Indexing finds out whether they exist."""
    spec = read_spec(open_member(folder / "spec.json"))
    tables = [(folder / f"{name}.idx").is_file() for name in spec]
    return _file_names(spec, "", split=any(tables) and not (folder / "refs.bag").is_file())


def open_member(path: Any, opener: Callable[[Any], File] = open_file) -> File:
    """Open a file of a dataset, by `look_at_file` for each read. Raise FormatError if it does not exist."""
    try:
        return opener(path)
    except FileNotFoundError as error:
        raise FormatError(
            "a file of the dataset is missing",
            path,
            hint="restore it, or run `bushel verify` on the dataset",
        ) from error


def read_spec(file: File) -> dict[str, Field]:
    """Parse `spec.json`. Any text is a type there, so this accepts more than `parse_spec`."""
    if file.size > _LARGEST_SPEC:
        raise FormatError(
            f"spec.json has {file.size} bytes, which is too large for a spec", file.path
        )
    try:
        types = _SPEC.decode(file.read(0, file.size))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise FormatError(
            f"expected a JSON object of field names and types: {error}",
            file.path,
            hint='write a new one, such as {"image": "jpg"}, if you know the types',
        ) from error
    fields = {}
    for name, kind in types.items():
        if not name or "/" in name or "\0" in name or name == "refs":
            raise FormatError(
                f"{name!r} cannot be a field, because no bag file can have that name",
                file.path,
            )
        if (size := len(name.encode("utf-8", "surrogatepass"))) > LONGEST_NAME:
            raise FormatError(
                f"{name[:20]!r}… with its {size} bytes cannot be "
                "a field, because no bag file can have that name",
                file.path,
            )
        fields[name] = Field(name, from_file(kind.removesuffix("[]")), kind.endswith("[]"))
    if KEY in fields and fields[KEY].type not in ("utf8", "bytes"):
        raise FormatError(
            f"{KEY} has the type {fields[KEY].type!r}, but keys have the type 'utf8'",
            file.path,
        )
    return fields


def file_column(table: Table, spec: Spec | None) -> FieldExtents:
    """Return the column of a bag that is opened on its own, with the field that the user declared, if any."""
    field = Field(_RECORD, "bytes")
    if spec and len(spec) == 1:
        [field] = spec.values()
    return FieldExtents(field, stored_codec(field.codec, table.generation), 0, *extents(table))


class Members(Struct, frozen=True):
    """The files of a dataset's shard, and its fields."""

    shard: Shard
    files: list[File]
    spec: Mapping[str, Field]

    def number(self, name: str, ending: str = ".bag") -> int:
        """Return the number of a file of a field. Raise FormatError if the shard has none."""
        *names, spec = self.shard.files
        file = f"{spec.removesuffix('spec.json')}{name}{ending}"
        if file not in names:
            message = f"field {name!r} has no {ending} in this shard: its files are "
            raise FormatError(message + ", ".join(self.shard.files), self.files[-1].path)
        return names.index(file)

    def file(self, name: str, ending: str = ".bag") -> File:
        """Return a file of a field. Raise FormatError if the shard has none."""
        return self.files[self.number(name, ending)]

    def column(self, name: str, generation: str, offset: I64, length: I64) -> FieldExtents:
        """Return the column of a field whose records, in order, belong to the samples."""
        field = self.spec[name]
        codec = stored_codec(field.codec, generation)
        return FieldExtents(field, codec, self.number(name), offset, length)


def _index_dataset(shard: Shard, files: list[File]) -> ShardIndex:
    spec = read_spec(files[-1])
    prefix, split = shard.files[-1].removesuffix("spec.json"), has_idx(shard)
    if shard.files != _file_names(spec, prefix, split=split):
        raise FormatError(
            f"expected the fields of the first shard, found {', '.join(spec)}", files[-1].path
        )
    columns_of = _columns_split if split else _columns_with_refs
    columns, samples = columns_of(Members(shard, files, spec))
    keys = sample_keys(columns, files)
    return ShardIndex(samples, stamps(shard, files), columns, "bag", keys)


def sample_keys(columns: dict[str, FieldExtents], files: list[File]) -> Keys | None:
    """Take the column of keys out of all columns, and return the keys; None without one."""
    column = columns.pop(KEY, None)
    if column is None:
        return None
    file = files[column.file]
    if not gapless(column.offset, column.length):
        return Keys.build(*gather([file], Extents(0, column.offset, column.length)))
    offsets = offsets_of(column.length)
    return Keys.build(np.frombuffer(file.read(0, int(offsets[-1])), np.uint8), offsets)


def extents(table: Table) -> tuple[I64, I64]:
    """Return offset and length of every record."""
    starts, ends = table.offsets[:-1], table.offsets[1:]
    return starts, ends - starts


def _columns_split(members: Members) -> tuple[dict[str, FieldExtents], int]:
    """Return the columns of generation C: record `i` of every bag belongs to sample `i`."""
    columns = {}
    for name, field in members.spec.items():
        if field.sequence:
            raise FormatError(
                f"field {name!r} is a sequence, but datasets with .idx files cannot have sequences",
                members.files[-1].path,
            )
        table = separate_table(members.file(name, ".idx"), members.file(name))
        columns[name] = members.column(name, "C", *extents(table))
    longest = max(columns.values(), key=lambda column: column.rows)
    for name, column in columns.items():
        if column.rows != longest.rows:
            raise FormatError(
                f"found {column.rows} records, but field {longest.field.name!r} has {longest.rows}",
                members.file(name, ".idx").path,
                hint=(
                    "the writer was stopped, or the table was "
                    "truncated: `bushel repair` keeps the intact samples"
                ),
            )
    return columns, longest.rows


def _columns_with_refs(members: Members) -> tuple[dict[str, FieldExtents], int]:
    """Return the columns of generations A and B."""
    entries, refs = read_refs(members.spec, members.files[-2])
    columns = {}
    for name, ref in refs.items():
        table = inline_table(members.file(name))
        if table.records and not entries.records:
            raise FormatError(
                f"refs.bag has no sample, although {name}.bag has {table.records} records",
                members.files[-2].path,
                hint="the file was emptied, or the writer failed at its first sample",
            )
        columns[name] = column_of_records(members, name, entries.generation, table, ref)
    return columns, entries.records


def read_refs(spec: Mapping[str, Field], file: File) -> tuple[Table, dict[str, Refs]]:
    """Return the table of `refs.bag`, which has a record for each sample, and which records they refer to by field.

    Raises:
        FormatError: The file is damaged.
    """
    entries = inline_table(file)
    data = file.read(0, int(entries.offsets[-1]))
    refs = decode_refs(
        data, entries.offsets, [field.sequence for field in spec.values()], file.path
    )
    return entries, dict(zip(spec, refs, strict=True))


def column_of_records(
    members: Members, name: str, generation: str, table: Table, ref: Refs
) -> FieldExtents:
    """Return one column, gathered through its refs unless they name all records in order (which is the usual case)."""
    path = members.files[-2].path
    count, outside = ref.counts, ref.outside(table.records)
    if outside.any():
        sample = int(outside.argmax())
        raise FormatError(
            f"sample {sample} refers to {count[sample]} records from number "
            f"{ref.first[sample]}, but {name}.bag has {table.records}",
            path,
            hint="one of the two files is damaged or comes from another dataset",
        )
    starts = offsets_of(count)
    total = int(starts[-1])
    if ref.count is not None and total > table.records:
        raise FormatError(
            f"samples share records of {name}.bag, which sequence fields never do",
            path,
        )
    first = ref.first.astype(np.int64)
    used = count > 0
    offset, length = extents(table)
    if total != table.records or not np.array_equal(first[used], starts[:-1][used]):
        rows = ranges(first, count.astype(np.int64))
        offset, length = offset[rows], length[rows]
    column = members.column(name, generation, offset, length)
    if ref.count is None:
        return column
    return replace(column, starts=starts)
