"""The metadata of Hugging Face's imagefolder: a table whose column `file_name` names a file in each row.

https://huggingface.co/docs/datasets/image_dataset#imagefolder. Every folder may have one of
`metadata.csv`, `metadata.jsonl` and `metadata.parquet`; names are relative to it. Each other column
is a field.
"""

from __future__ import annotations

import csv
import io
import math
import os
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.columns import numbers
from bushel._index.object_columns import of_objects
from bushel._index.table import ShardIndex
from bushel._recognise.layout import LABEL, unique_keys
from bushel._recognise.names import split_in
from bushel._runtime.arrays import I64
from bushel._runtime.messages import log_warning
from bushel.codecs import get_codec
from bushel.errors import FormatError, needed_by
from bushel.spec import Field
from bushel.storage import AnyPath, below, leads_out, read_whole

from .plain_table import with_values

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
FILE_NAME = "file_name"
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
CODECS: Mapping[type, str] = {int: "int", float: "float", str: "utf8"}
"""The codecs of cells by their types. Cells of other types are `json`."""

_EXACT = 1 << 53  # integers up to this are floats exactly
_LARGEST = 1 << 30  # limit in bytes of a file of metadata


class Row(Struct, frozen=True):
    """A row of metadata.

    Attributes:
        file: Name of its file, relative to the dataset's folder.
        values: The other columns. A value that is missing is left out.
    """

    file: str
    values: Mapping[str, Any]


def metadata_rows(
    root: AnyPath,
    names: Sequence[str],
    files: Container[str],
    read: Callable[[str], bytes] | None = None,
    others: Container[str] = (),
) -> list[Row]:
    """Return the rows of files of metadata, in the order of `names`.

    Args:
        root: The dataset's folder, or an archive.
        names: Names of these files, relative to it.
        files: Names of all files in it.
        read: Returns the bytes of such a file of an archive; by default they are read from the
            folder.
        others: Folders at the top with other files, which are not looked for.

    Raises:
        FormatError: A file is malformed, or names a file outside its folder, or one that does not
            exist.
        MissingPackageError: A file is Parquet, and pyarrow is not installed.
    """
    rows: list[Row] = []
    folders: dict[str, str] = {}
    for name in names:
        if (other := folders.setdefault(name.rpartition("/")[0], name)) != name:
            raise FormatError(
                f"a folder has {other} and {name}",
                root,
                hint="keep one of them: two would make two samples of each file",
            )
        folder, slash, base_name = name.rpartition("/")
        path, above = below(root, name, any_text=True), folder + slash
        if isinstance(path, Path) and read is None:
            _check_file(path)
        data = bytes(read_whole(path)) if read is None else read(name)
        if len(data) > _LARGEST:
            raise _too_large(len(data), path)
        for number, content in enumerate(_READERS[base_name](data, path)):
            file = content.pop(FILE_NAME, None)
            spelled = file
            # ./a.jpg, s//a.jpg and s\\a.jpg
            if isinstance(file, str) and above + file not in files:
                file = posixpath.normpath(file.replace("\\", "/"))
            if not isinstance(file, str) or leads_out(file):
                raise FormatError(
                    f"row {number} has the {FILE_NAME} {spelled!r}, not the name of a file",
                    path,
                    hint=None if file is not None else _names_of_others(content, path),
                )
            is_of_others = file.partition("/")[0] in others
            if above + file not in files and not is_of_others:
                missing = above + str(spelled)
                raise FormatError(
                    f"the metadata name {missing!r}, which does not exist",
                    path,
                    hint="names differ in capital letters, too, and are relative to the table's folder",
                )
            values = {key: cell for key, cell in content.items() if cell is not None}
            rows.append(Row(above + file, values))
    return rows


def _names_of_others(row: Iterable[str], path: AnyPath) -> str:
    """Return how to read a table with several files in a row, or one that has no column for them."""
    if spec := {name: "image(path)" for name in row if name.endswith(f"_{FILE_NAME}")}:
        return f"bushel.open({str(path)!r}, spec={spec}) reads the files of each row"
    if any(name.endswith(f"{FILE_NAME}s") for name in row):
        return (
            "move the table to another folder, and bushel.join "
            "it with this one, which reads lists of files"
        )
    return (
        f"call the column with the names of the files {FILE_NAME}, or give the table another "
        "name: then it is not read"
    )


def _too_large(size: int, path: AnyPath) -> FormatError:
    return FormatError(f"metadata of {size} bytes; {_LARGEST} are the most that is read", path)


def _check_file(path: Path) -> None:
    """Check that metadata are a file of a moderate size: a pipe would be waited for, and a device has no end.

    Raises:
        FileNotFoundError: It does not exist.
        FormatError: It is a different file.
    """
    size = path.stat().st_size
    if not path.is_file():
        raise FormatError("metadata that are not a file, but a folder, pipe or device", path)
    if size > _LARGEST:
        raise _too_large(size, path)


def _csv_rows(data: bytes, path: AnyPath) -> list[dict[str, Any]]:
    try:
        reader = csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        rows = list(reader)
    except (ValueError, csv.Error) as error:
        raise FormatError(
            f"not a CSV file: {error}", path, hint="iconv converts text that is not UTF-8"
        ) from error
    names = list(reader.fieldnames or ())
    if FILE_NAME not in names or len(set(names)) < len(names):
        raise FormatError(
            f"its first line names the columns {names}: expected {FILE_NAME} and others",
            path,
            hint=_names_of_others(names, path),
        )
    for number, row in enumerate(rows):
        if None in row or None in row.values():
            raise FormatError(f"row {number} does not have {len(names)} values", path)
    for name in names:
        parse = str if name == FILE_NAME else number_type([row[name] for row in rows])
        for row in rows:
            if row[name] == "" and parse is not str:
                row[name] = None
            else:
                row[name] = parse(row[name])
    return rows


def number_type(texts: Sequence[str]) -> type[int] | type[float] | type[str]:
    """Return int or float if all texts that are not empty are such numbers, as JSON writes them, else str."""
    numbers = [text for text in texts if text]
    if not numbers or not all(map(_NUMBER.fullmatch, numbers)):
        return str
    whole = [int(text) for text in numbers if text.lstrip("-").isdecimal()]
    if len(whole) == len(numbers):
        return int
    # 1e400 would be infinity
    are_finite = math.inf not in map(abs, map(float, numbers))
    return float if are_finite and _are_floats(whole) else str


def _are_floats(whole: Iterable[int]) -> bool:
    """Return whether integers are the same numbers as floats."""
    return all(-_EXACT <= number <= _EXACT for number in whole)


def _json_rows(data: bytes, path: AnyPath) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(data.split(b"\n")):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"line {number + 1} is not JSON: {error}", path) from error
        if not isinstance(row, dict):
            raise FormatError(f"line {number + 1} is not an object", path)
        rows.append(row)
    return rows


def _parquet_rows(data: bytes, path: AnyPath) -> list[dict[str, Any]]:
    with needed_by(str(path), "bushel[arrow]"):
        from pyarrow import ArrowException
        from pyarrow.parquet import read_table
    try:
        rows: list[dict[str, Any]] = read_table(io.BytesIO(data)).to_pylist()
    except (ArrowException, OSError, ValueError) as error:
        raise FormatError(f"not a Parquet file: {error}", path) from error
    return rows


_READERS = dict(zip(METADATA, (_csv_rows, _json_rows, _parquet_rows), strict=True))


def with_columns(
    index: ShardIndex, rows: Sequence[Row], path: str, *, sums: bool = False
) -> ShardIndex:
    """Return a table of files with the other columns of their rows, which the table holds.

    Columns are `int`, `float` and `utf8`, or `json` for anything else.

    Args:
        index: The table.
        rows: The row of each sample.
        path: Where the rows are, for errors.
        sums: Whether values get checksums.

    Raises:
        FormatError: A column has the name of a field of files, or a value cannot be stored.
    """
    for name in dict.fromkeys(name for row in rows for name in row.values):
        if name in index.fields:
            raise FormatError(f"the metadata have a column {name!r}, as the files", path)
        cells = [row.values.get(name) for row in rows]
        present = [cell for cell in cells if cell is not None]
        codec = codec_of_cells(present)
        encode = get_codec(codec).encode
        try:
            values = [None if cell is None else bytes(encode(cell)) for cell in cells]
        except (ValueError, TypeError, OverflowError) as error:
            raise FormatError(f"column {name!r} of the metadata: {error}", path) from error
        is_column = codec != "json" or all(isinstance(cell, bool) for cell in present)
        column = of_objects(cells) if is_column else None
        index = with_values(index, Field(name, codec), values, column, sums=sums)
    return index


def codec_of_cells(cells: Iterable[Any]) -> str:
    """Return the codec of the cells of a column: `int`, `float` or `utf8`, or `json` for anything else."""
    kinds = {type(cell) for cell in cells}
    if kinds == {int, float} and _are_floats(cell for cell in cells if type(cell) is int):
        return "float"
    if len(kinds) == 1:
        return CODECS.get(kinds.pop(), "json")
    return "json"


def keys_of_rows(files: Sequence[str], root: object) -> list[str]:
    """Return the keys of rows: the names of their files without suffix, numbered where a file has several rows."""
    counts = Counter(files)
    names = list(counts)
    stems = [os.path.splitext(name)[0] for name in names]
    key_of = dict(zip(names, unique_keys(stems, names)[0], strict=True))
    if len(names) == len(files):
        return [key_of[name] for name in files]
    repeated = sum(count > 1 for count in counts.values())
    message = "%s: files with several rows: %d; the keys of these samples end in #0, #1, …"
    log_warning(message, root, repeated)
    numbers, keys = Counter[str](), list[str]()
    for name in files:
        keys.append(key_of[name] if counts[name] == 1 else f"{key_of[name]}#{numbers[name]}")
        numbers[name] += 1
    return keys


def tables_above(root: AnyPath) -> list[str]:
    """Return the tables of metadata in the folder above a split, whose rows may name files in it."""
    if split_in(root.name, folder=True) is None:
        return []
    return [name for name in METADATA if below(root.parent, name).is_file()]


def is_metadata(name: str) -> bool:
    """Return whether a file has the name of a table of metadata."""
    return name.endswith(METADATA) and name.rpartition("/")[2] in METADATA


def with_labels(
    index: ShardIndex, classes: I64, labels: Sequence[str], *, sums: bool = False
) -> ShardIndex:
    """Return a table with the numbers of classes in one more field, `label`, which the table holds.

    Args:
        index: The table.
        classes: int64[samples], the number of the class of each sample.
        labels: The names of the classes.
        sums: Whether the numbers get checksums.
    """
    encode = get_codec("int").encode
    values = [bytes(encode(number)) for number in range(len(labels))]
    column = numbers("int", classes)
    index = with_values(index, Field(LABEL, "int"), values, column, classes, sums=sums)
    return replace(index, labels={LABEL: tuple(labels)})
