"""File names of gulp chunks. Nothing here reads a file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bushel._index.table import Shard
from bushel.errors import FormatError
from bushel.storage import AnyPath, is_local


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
            file=str(folder / name),
        )
    return digits[0]


def pair_chunks(folder: AnyPath, data: list[str], tables: list[str]) -> list[Shard]:
    """Pair data and meta files by their position in the sorted lists; the numbers in their names must agree.

    Raises:
        FormatError: The numbers differ, or a file has no partner.
    """
    numbers = [chunk_number(folder, name) for name in data]
    partners = [chunk_number(folder, name) for name in tables]
    for mine, name, numbers_of_partners, kind in (
        *((number, name, partners, ".gmeta") for number, name in zip(numbers, data, strict=True)),
        *((number, name, numbers, ".gulp") for number, name in zip(partners, tables, strict=True)),
    ):
        if mine not in numbers_of_partners:
            raise FormatError(
                f"the {kind} file with the number {mine} is missing",
                file=str(folder / name),
                hint="restore it, or move this file away to read the other chunks",
            )
    if numbers != partners:
        at = next(
            (
                i
                for i, pair in enumerate(zip(numbers, partners, strict=False))
                if pair[0] != pair[1]
            ),
            None,
        )
        name = data[at] if at is not None else (data + tables)[-1]
        raise FormatError(
            "sorted by name, the .gulp and .gmeta files of this folder do not have the same numbers",
            file=str(folder / name),
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
