"""Find the chunks of gulp by the names of files, and read their items, whole or damaged.

In a damaged chunk, the items are read whose entries are valid and whose frames are in the data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from bushel._index.shard import Keys, Shard, stamps
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I64, Bools, offsets_of
from bushel.containers.base import ReadOptions
from bushel.containers.recovery import Fault, Recovered, gaps_of, intact_ranges
from bushel.errors import FormatError, SpecError
from bushel.spec import Field
from bushel.storage import AnyPath, File, is_local

from .gmeta import (
    Gmeta,
    frames_field,
    hint,
    meta_columns,
    parse_entries,
    parse_gmeta,
)

if TYPE_CHECKING:
    from bushel.storage import Blocks


def padding(length: int) -> int:
    """Return the number of zeros that pad a JPEG of `length` bytes to a multiple of four."""
    return -length % 4


def is_data(name: str) -> bool:
    """Return whether a file of this name holds frames."""
    return name.startswith("data") and name.endswith(".gulp")


def chunk_names(folder: AnyPath) -> tuple[list[str], list[str]]:
    """Return the names of a folder's data files and of its meta files, each sorted as text.

    A writer that publishes a chunk gives its meta file the final name first: this file is left out
    until its data file, which is still staged, has its name, too.
    """
    names = sorted(path.name for path in folder.iterdir())
    data = [name for name in names if is_data(name)]
    tables = [name for name in names if name.startswith("meta") and name.endswith(".gmeta")]
    if len(tables) > len(data):
        tables = [name for name in tables if not _is_staged(folder, f"data{name[4:-6]}.gulp")]
    return data, tables


def _is_staged(folder: AnyPath, name: str) -> bool:
    return is_local(folder) and (folder / ".bushel" / "staging" / name / name).exists()


def next_label(folder: AnyPath, names: Sequence[str], first: str) -> str:
    """Return the digits of a new chunk, which sort as text after the digits of the existing names.

    Args:
        folder: The folder of the chunks.
        names: The names of their files.
        first: The digits of the first chunk.

    Raises:
        FormatError: A name has no digits.
    """
    last = max((_digits(folder, name) for name in names), default=None)
    if last is None:
        return first
    label = f"{int(last) + 1:0{len(last)}d}"
    if len(label) > len(last):
        return f"{last}0"
    return label


def chunk_number(folder: AnyPath, name: str) -> int:
    """Return the number of the chunk that a file belongs to: the first digits of its name.

    Raises:
        FormatError: The name has no digits.
    """
    return int(_digits(folder, name))


def _digits(folder: AnyPath, name: str) -> str:
    digits = re.search(r"\d+", name)
    if digits is None:
        raise FormatError(
            "the name of a gulp file must hold the chunk's number: data_0.gulp",
            folder / name,
        )
    return digits[0]


def pair_chunks(folder: AnyPath, data: list[str], tables: list[str]) -> list[Shard]:
    """Pair data and meta files by their position in the sorted lists; the numbers in their names must agree.

    Raises:
        FormatError: The numbers differ, or a file has no counterpart.
    """
    numbers = [chunk_number(folder, name) for name in data]
    table_numbers = [chunk_number(folder, name) for name in tables]
    for kind, names, chunks, counterparts in (
        (".gmeta", data, numbers, table_numbers),
        (".gulp", tables, table_numbers, numbers),
    ):
        for name, number in zip(names, chunks, strict=True):
            if number not in counterparts:
                raise FormatError(
                    f"the {kind} file with the number {number} is missing",
                    folder / name,
                    hint="restore it, or move this file away to read the other chunks",
                )
    if numbers != table_numbers:
        pairs = zip(data, numbers, table_numbers, strict=False)
        differing = (name for name, number, table_number in pairs if number != table_number)
        name = next(differing, (data + tables)[-1])
        raise FormatError(
            "sorted by name, the .gulp and .gmeta files of this folder do not have the same numbers",
            folder / name,
            hint="rename them as data_<number>.gulp and meta_<number>.gmeta",
        )
    return [
        Shard(folder, data_file, (data_file, table_file))
        for data_file, table_file in zip(data, tables, strict=True)
    ]


def pair_chunk(path: AnyPath) -> list[Shard]:
    """Return the chunk of one data file, without looking at the other files of its folder.

    Raises:
        FormatError: No meta file has its number, or several have.
    """
    number = chunk_number(path.parent, path.name)
    tables = [
        name
        for name in chunk_names(path.parent)[1]
        if (digits := re.search(r"\d+", name)) is not None and int(digits[0]) == number
    ]
    return pair_chunks(path.parent, [path.name], tables)


FRAMES, META = Field("frames", "jpg", sequence=True), Field("meta", "json")
"""The fields of items unless they are declared otherwise."""
DATA, TABLE = 0, 1
"""Numbers of the two files of a chunk."""


def index_items(
    shard: Shard, files: list[File], text: bytes, parsed: Gmeta, options: ReadOptions
) -> ShardIndex:
    """Return the table of checked items."""
    table, frames = files[TABLE], parsed.frames
    offset = np.ascontiguousarray(frames[:, 0])
    try:
        keys = Keys.of(parsed.items)
    except UnicodeEncodeError as error:
        raise FormatError(
            f"the id {error.object!r} is invalid text", table.path, hint=hint(table.path)
        ) from error
    spec = {"frames": FRAMES, "meta": META} if options.spec is None else options.spec
    field = frames_field(spec)
    where = (text, TABLE) if parsed.inline is None else (parsed.inline, len(files))
    other_fields = [other for other in spec.values() if other is not field]
    columns = meta_columns(parsed, *where, other_fields)
    columns[field.name] = _frames_column(field, offset, frames[:, 2] - frames[:, 1], parsed.starts)
    blocks: tuple[Blocks, ...] = ()
    if parsed.inline is not None:
        from bushel.storage.blocks import Blocks

        blocks = (Blocks.in_table(np.frombuffer(parsed.inline, np.uint8)),)
    return ShardIndex(
        samples=len(parsed.items),
        files=stamps(shard, files),
        fields={name: columns[name] for name in spec},
        container="gulp",
        keys=keys,
        blocks=blocks,
    ).check(table.path)


def _frames_column(field: Field, offset: I64, length: I64, starts: I64) -> FieldExtents:
    """Return the frames as a sequence, or, for a dataset of images, the first frame of each item."""
    if field.sequence:
        return FieldExtents(field, field.codec, DATA, offset, length, starts=starts)
    first, counts = starts[:-1], np.diff(starts)
    if (counts > 1).any():
        raise SpecError(
            f"items have up to {int(counts.max())} frames: "
            f"declare {field.name!r} as {field.codec}[]"
        )
    # the last one stands for the items without a frame
    at = np.where(counts == 1, first, -1)
    offset, length = np.append(offset, 0)[at], np.append(length, MISSING)[at]
    return FieldExtents(field, field.codec, DATA, offset, length)


def recover(shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
    """Return the items that no wrong entry touches.

    Raises:
        FormatError: Nothing can be recovered.
    """
    data, table = shard.open(), shard.open(1)
    text = table.read(0, table.size)
    lost = 0

    def lose(error: FormatError) -> None:
        nonlocal lost
        lost += 1
        fault(error)

    try:
        parsed = parse_gmeta(text, table.path)
    except FormatError:
        if text[:1] == b"\x80":
            raise
        parsed = parse_entries(text, table.path, lose)
    whole = whole_items(parsed, data, fault)
    intact_items = dict(compress(parsed.items.items(), whole.tolist()))
    left = Gmeta.of(intact_items, parsed.offset[whole], parsed.length[whole], parsed.inline)
    gaps = gaps_of(whole, list(parsed.items))
    index = index_items(shard, [data, table], text, left, options)
    return Recovered(index, np.ones(index.samples, np.bool_), lost + len(gaps), gaps)


def whole_items(parsed: Gmeta, data: File, fault: Fault) -> Bools:
    """Return which items have frames in the file that overlap no other frame. Each other one is a fault.

    Args:
        parsed: The items.
        data: The file of the frames.
        fault: Called with the error of the first wrong frame of an item.
    """
    names, starts = list(parsed.items), parsed.starts
    offset, pad, length = parsed.frames.T
    inside = (
        (length <= data.size)
        & (offset <= data.size - np.minimum(length, data.size))
        & (pad <= length)
    )
    rows = np.flatnonzero(inside)
    intact = np.zeros(len(offset), np.bool_)
    intact[rows[intact_ranges(offset[rows], offset[rows] + length[rows], data.size)]] = True
    wrong = offsets_of(~intact)
    whole: Bools = wrong[starts[1:]] == wrong[starts[:-1]]
    for number in np.flatnonzero(~whole).tolist():
        first = int(starts[number])
        row = first + int((~intact[first:]).argmax())
        what = "is not inside the file"
        if inside[row]:
            what = "overlaps another frame"
        fault(
            FormatError(
                f"frame {row - first} of item {names[number]!r} {what}", data.path, int(offset[row])
            )
        )
    return whole
