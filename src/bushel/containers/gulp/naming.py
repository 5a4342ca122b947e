"""Names of gulp files: which chunk each belongs to, without reading any."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bushel.containers.base import Shard
from bushel.errors import FormatError
from bushel.storage import AnyPath

__all__ = ["chunk_names", "chunk_number", "is_data", "number_width", "padding", "pair_chunks"]


def padding(length: int) -> int:
    """Zeros behind a JPEG of so many bytes, to the next multiple of four."""
    return -length % 4


def is_data(name: str) -> bool:
    """Whether a file of this name holds frames."""
    return name.startswith("data") and name.endswith(".gulp")


def chunk_names(folder: AnyPath) -> tuple[list[str], list[str]]:
    """The names of a folder's data files and of its meta files, each sorted as text."""
    names = sorted(path.name for path in folder.iterdir())
    tables = [name for name in names if name.startswith("meta") and name.endswith(".gmeta")]
    return [name for name in names if is_data(name)], tables


def number_width(names: Sequence[str], *, sharded: bool) -> int:
    """Digits of chunk numbers: as in the names that are there, if any."""
    if not names:
        return 6 if sharded else 1
    digits = [match[0] for name in names if (match := re.search(r"\d+", name))]
    return max((len(number) for number in digits if number.startswith("0") and len(number) > 1), default=1)


def chunk_number(folder: AnyPath, name: str) -> int:
    """The number of the chunk that a file belongs to: the first digits of its name.

    Raises:
        FormatError: There are none.
    """
    digits = re.search(r"\d+", name)
    if digits is None:
        raise FormatError("the name of a gulp file holds the chunk's number: data_0.gulp", file=str(folder / name))
    return int(digits[0])


def pair_chunks(folder: AnyPath, data: list[str], tables: list[str]) -> list[Shard]:
    """Data and meta files belong together by position in the sorted lists, and must have the same number.

    Raises:
        FormatError: They do not.
    """
    numbers = [chunk_number(folder, name) for name in data]
    partners = [chunk_number(folder, name) for name in tables]
    for mine, name, others, kind in (
        *((number, name, partners, ".gmeta") for number, name in zip(numbers, data, strict=True)),
        *((number, name, numbers, ".gulp") for number, name in zip(partners, tables, strict=True)),
    ):
        if mine not in others:
            raise FormatError(
                f"no {kind} file with the number {mine} belongs to it",
                file=str(folder / name),
                hint="restore its partner, or move it away to read the other chunks",
            )
    if numbers != partners:
        at = next((i for i, pair in enumerate(zip(numbers, partners, strict=False)) if pair[0] != pair[1]), None)
        name = data[at] if at is not None else (data + tables)[-1]
        raise FormatError(
            "sorted by name, the .gulp and .gmeta files of this folder do not have the same numbers",
            file=str(folder / name),
            hint="rename them as data_<number>.gulp and meta_<number>.gmeta",
        )
    return [Shard(folder, one, (one, other)) for one, other in zip(data, tables, strict=True)]
