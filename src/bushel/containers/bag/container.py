"""Granular datasets: a folder with one `.bag` file of records per field, or a folder of numbered such folders.

Three generations of the format are read, and recognised by their files: A (the package bags, Granular
up to 0.19) and B (0.20, 0.21) keep the table of a bag at its end and have `refs.bag`; C (from 0.22) keeps it in an
`.idx` file. docs/format-bag.md has layouts, rules and an example.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bushel._index.builders import IndexBuilder
from bushel._index.table import FieldExtents, ShardIndex
from bushel.containers.bag.reading import (
    column_of_records,
    extents,
    file_column,
    known_codec,
    open_member,
    read_spec,
    sample_keys,
    stamps,
)
from bushel.containers.bag.tables import decode_refs, inline_table, separate_table
from bushel.containers.bag.writer import (
    BagWriter,
    copy_records,
    generation_of,
    plan_layout,
    stored_codec,
)
from bushel.containers.base import Layout, ReadOptions, Shard, WriteOptions
from bushel.containers.checksums import with_checksums
from bushel.errors import FormatError, SpecError
from bushel.spec import KEY, Field, Spec
from bushel.storage import AnyPath, File

if TYPE_CHECKING:
    from bushel.containers.recovery import Fault, Recovered
    from bushel.storage import Staging

__all__ = ["CONTAINER"]

_SHARD = re.compile(r"[0-9]+")
_KNOWN_TYPES = {"cls": "int", "npy": "array", "float-text": "float", "jpeg": "jpg", "int(8)": "u64"}
"""Types that Granular does not know, and the types of the same values that it knows."""


@dataclass(frozen=True, slots=True)
class _Bag:
    name: str = "bag"
    suffixes: tuple[str, ...] = (".bag",)
    file_names: tuple[str, ...] = ("spec.json", "#")
    suffix: str = ""
    needs_keys: bool = False

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
        names = [entry.name for entry in path.iterdir()]
        if "spec.json" in names or any(name.endswith(".bag") for name in names):
            return [Shard(path, "", _files(path, ""))]
        return _numbered(path, sorted((int(name), name) for name in names if _SHARD.fullmatch(name)))

    def generation(self, shard: Shard) -> str:
        """Return the generation of a shard: `A`, `B` or `C`. Appending must use the same one.

        Raises:
            FormatError: The table that shows the generation is damaged.
        """
        if any(name.endswith(".idx") for name in shard.files):
            return "C"
        # the last but one is refs.bag, which has no empty record, so its table always shows the generation
        return inline_table(open_member(shard.path(max(0, len(shard.files) - 2)))).generation

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the index of one shard, from the tables of its bags."""
        files = [open_member(path) for path in map(shard.path, range(len(shard.files)))]
        if shard.files[-1].endswith("spec.json"):
            index = _index_dataset(shard, files)
        else:
            index = _index_file(shard, files, options)
        if options.report is not None:
            options.report(sum(file.size for file in files))
        index.check(str(shard.root))
        return with_checksums(index, files) if options.checksums else index

    def written_as(self, generation: str) -> str:
        """Return `B` for `A`, which is only read."""
        return "B" if generation == "A" else generation

    def has_own_index(self, shard: Shard) -> bool:
        """Return True: every bag ends with a table of its records."""
        return True

    def file_of_references(self, shard: Shard) -> str | None:
        """Return the path of `refs.bag`, which generation C does not have."""
        return next((name for name in shard.files if name.rpartition("/")[2] == "refs.bag"), None)

    def type_of(self, codec: str) -> str:
        """Return the type that Granular knows for values of a codec."""
        return _KNOWN_TYPES.get(codec, codec)

    def recover(self, shard: Shard, options: ReadOptions, fault: Fault, /) -> Recovered:
        """Return a table of the intact samples of a damaged shard."""
        from bushel.containers.bag.recover import recover

        return recover(shard, options, fault)

    def layout(self, spec: Spec, options: WriteOptions) -> Layout:
        """Return how samples of this spec are stored: B holds everything, C has no sequences."""
        return plan_layout(spec, options)

    def shard(self, root: AnyPath, layout: Layout, before: Sequence[Shard], name: str | None) -> Shard:
        """Return the files of a new shard: in `root` itself, or in its folder `000003`. Bags are never single files."""
        fields = [column.field.name for column in layout.columns] + ([KEY] if layout.options.keyed else [])
        split = generation_of(layout.options) == "C"
        if layout.options.single:
            return Shard(root, "", _file_names(fields, "", split=split))
        folder = f"{len(before):06d}"
        return Shard(root, folder, _file_names(fields, f"{folder}/", split=split), f"{folder}/.bushel")

    def reopen(self, layout: Layout, shard: Shard, index: ShardIndex, staging: Staging) -> dict[str, int]:
        """Copy the records of a shard into staging; tables, keys, refs and spec are rewritten when it is finished.

        Raises:
            SpecError: The shard has another generation or other fields, or records that no sample refers to.
        """
        generation, wanted = self.generation(shard), generation_of(layout.options)
        if generation != wanted:
            raise SpecError(
                f"{shard.root} has generation {generation}, not {wanted}: append to it with generation={generation!r}"
            )
        prefix = shard.files[-1].removesuffix("spec.json")
        fields = [column.field.name for column in layout.columns] + ([KEY] if layout.options.keyed else [])
        expected = _file_names(fields, prefix, split=wanted == "C")
        if sorted(expected) != sorted(shard.files):
            raise SpecError(
                f"{shard.root} has the files {', '.join(shard.files)}, where {', '.join(expected)} are needed"
            )
        return copy_records(shard, index, staging.place)

    def writer(self, layout: Layout, shard: Shard, staging: Staging, builder: IndexBuilder) -> BagWriter:
        """Start a shard, or continue one."""
        return BagWriter(layout, shard, staging, builder)


CONTAINER = _Bag()


def _file_names(fields: Iterable[str], prefix: str, *, split: bool) -> tuple[str, ...]:
    """Return the files of a shard with these fields (including `__key__`): bags, then tables, and `spec.json` last.

    Args:
        fields: Names of the fields.
        prefix: The shard's folder, with its `/`; empty for a plain dataset.
        split: Whether tables are separate files, as in generation C.
    """
    names = sorted(fields)
    tables = [f"{name}.idx" for name in names] if split else ["refs.bag"]
    return tuple(prefix + name for name in [*(f"{name}.bag" for name in names), *tables, "spec.json"])


def _numbered(path: AnyPath, folders: list[tuple[int, str]]) -> list[Shard] | None:
    """Return the shards of a sharded dataset; None if no numbered folder is a Granular dataset.

    Only the first folder is looked into, so listing a hundred thousand takes one call; `index` finds what differs.
    """
    if not any(_is_dataset(path / name) for _, name in folders):
        return None
    shards: list[Shard] = []
    files: tuple[str, ...] = ()
    for position, (number, name) in enumerate(folders):
        if number != position:
            problem = f"shard {position:06d} is missing" if number > position else f"shard {number} exists twice"
            raise FormatError(
                f"{problem}: shards are numbered from 000000 without a gap", file=str(path), hint="restore the folder"
            )
        files = files or _files(path / name, "")
        shards.append(Shard(path, name, tuple(f"{name}/{file}" for file in files), f"{name}/.bushel"))
    return shards


def _is_dataset(folder: AnyPath) -> bool:
    if not folder.is_dir():
        return False
    return any(entry.name == "spec.json" or entry.name.endswith(".bag") for entry in folder.iterdir())


def _files(folder: AnyPath, prefix: str) -> tuple[str, ...]:
    """Return the files that a dataset's folder should have. Indexing finds out whether they exist."""
    spec = read_spec(open_member(folder / "spec.json"))
    tables = [(folder / f"{name}.idx").is_file() for name in spec]
    return _file_names(spec, prefix, split=any(tables) and not (folder / "refs.bag").is_file())


def _index_file(shard: Shard, files: list[File], options: ReadOptions) -> ShardIndex:
    table = separate_table(files[1], files[0]) if len(files) == 2 else inline_table(files[0])
    column = file_column(table, options.spec)
    return ShardIndex(table.records, stamps(shard, files), {column.field.name: column}, "bag")


def _index_dataset(shard: Shard, files: list[File]) -> ShardIndex:
    spec = read_spec(files[-1])
    prefix = shard.files[-1].removesuffix("spec.json")
    split = any(name.endswith(".idx") for name in shard.files)
    if shard.files != _file_names(spec, prefix, split=split):
        raise FormatError(f"expected the fields of the first shard, found {', '.join(spec)}", file=files[-1].path)
    number = {name: shard.files.index(f"{prefix}{name}.bag") for name in spec}
    columns, samples = (_columns_split if split else _columns_with_refs)(spec, files, number)
    keys = None
    if (column := columns.pop(KEY, None)) is not None:
        keys = sample_keys(column, files[column.file])
    return ShardIndex(samples, stamps(shard, files), columns, "bag", keys)


def _columns_split(
    spec: Mapping[str, Field], files: list[File], number: Mapping[str, int]
) -> tuple[dict[str, FieldExtents], int]:
    """Return the columns of generation C: record `i` of every bag belongs to sample `i`."""
    columns = {}
    for name, field in spec.items():
        if field.sequence:
            raise FormatError(
                f"field {name!r} is a sequence, but datasets with .idx files cannot have sequences", file=files[-1].path
            )
        table = separate_table(files[len(number) + number[name]], files[number[name]])
        columns[name] = FieldExtents(field, stored_codec(known_codec(field.codec), "C"), number[name], *extents(table))
    longest = max(columns.values(), key=lambda column: column.rows)
    for name, column in columns.items():
        if column.rows != longest.rows:
            raise FormatError(
                f"found {column.rows} records, but field {longest.field.name!r} has {longest.rows}",
                file=files[len(number) + number[name]].path,
                hint="the writer was stopped, or the table was truncated: `bushel repair` keeps the intact samples",
            )
    return columns, longest.rows


def _columns_with_refs(
    spec: Mapping[str, Field], files: list[File], number: Mapping[str, int]
) -> tuple[dict[str, FieldExtents], int]:
    """Return the columns of generations A and B."""
    path = files[-2].path
    entries = inline_table(files[-2])
    refs = decode_refs(
        files[-2].read(0, int(entries.offsets[-1])), entries.offsets, [field.sequence for field in spec.values()], path
    )
    columns = {}
    for (name, field), ref in zip(spec.items(), refs, strict=True):
        file = files[number[name]]
        table = inline_table(file)
        if table.records and not entries.records:
            raise FormatError(
                f"refs.bag has no sample, although {name}.bag has {table.records} records",
                file=path,
                hint="the file was emptied, or the writer failed at its first sample",
            )
        codec = stored_codec(known_codec(field.codec), entries.generation)
        columns[name] = column_of_records(field, codec, number[name], table, ref, path)
    return columns, entries.records
