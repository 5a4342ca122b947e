"""Tables of samples: CSV and JSON files, also gzipped, with a row per sample."""

from __future__ import annotations

import csv
import fnmatch
import glob
import gzip
import io
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bushel._index.names import in_order
from bushel.containers.csv import delimiter_of
from bushel.containers.folder_metadata import CODECS, codec_of_cells, keys_of_rows, number_type
from bushel.errors import FormatError
from bushel.spec import KEY
from bushel.storage import AnyLocation, AnyPath, absolute, as_path, names_in, read_whole

from .base import FileSource, Sample, caller_path, extend_labels, listed, relative_to
from .media import Media, media_of_names

Row = Mapping[str, Any]
"""Column names to values; from a CSV file, text."""

_BEGINNING = 1 << 20  # bytes that are read to detect the columns of a table


def read_rows(path: AnyLocation, columns: Sequence[str] | None = None) -> list[Row]:
    r"""Return the rows of `.csv`, `.json` and `.jsonl` files, which may be gzipped.

    Args:
        path: The file. A JSON file holds a list of objects.
        columns: Names of the columns of a CSV file without a header line.

    Raises:
        FormatError: The file is malformed; the message names the place.

    Examples:
        >>> _ = Path("list.csv").write_text("id,label\n7,Pushing\n")
        >>> bushel.sources.read_rows("list.csv")
        [{'id': '7', 'label': 'Pushing'}]
    """
    rows = _rows(as_path(path), read_list(as_path(path)), columns)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FormatError("expected a list of objects, one per sample", path)
    return rows


def _rows(path: AnyPath, text: str, columns: Sequence[str] | None = None) -> Any:
    """Return the rows in the text of a file."""
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".jsonl"):
        return [parse_json(line, str(path)) for line in text.split("\n") if line.strip()]
    if name.endswith(".json"):
        return parse_json(text, str(path))
    return _csv_rows(text, columns, str(path))


def first_row(path: AnyPath) -> Row:
    """Return the first row of a `.csv`, `.tsv`, `.json` or `.jsonl` file, which may be gzipped. Its beginning is read.

    The row is empty if the file has none, or if its beginning is malformed, which `read_rows`
    reports.
    """
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    try:
        with path.open("rb") as raw:
            file: Any = raw
            if name != plain:
                file = gzip.open(raw)  # noqa: SIM115 - `raw` is closed
            text = file.read(_BEGINNING).decode("utf-8-sig", "replace")
        if not plain.endswith(".json"):
            lines = [line for line in text.split("\n") if line.strip()]
            needed = 2  # with the names of columns
            if plain.endswith(".jsonl"):
                needed = 1
            rows = _rows(path, "\n".join(lines[:needed]))
        elif (array := text.lstrip()).startswith("["):
            # the first value, as the end of the array was not read
            rows = [json.JSONDecoder().raw_decode(array[1:].lstrip())[0]]
        else:
            return {}
    except (EOFError, gzip.BadGzipFile, zlib.error, ValueError, RecursionError, FormatError):
        return {}
    if rows and isinstance(rows[0], dict):
        return rows[0]
    return {}


def read_list(path: AnyPath) -> str:
    """Return the text of a file, decompressed if its name ends in `.gz`.

    Raises:
        FormatError: The file is not UTF-8 text, or not a complete gzip file.

    Examples:
        >>> import gzip
        >>> _ = Path("list.txt.gz").write_bytes(gzip.compress(b"straw"))
        >>> bushel.sources.read_list(Path("list.txt.gz"))
        'straw'
    """
    data = read_whole(path)
    try:
        return (gzip.decompress(data) if path.name.lower().endswith(".gz") else data).decode(
            "utf-8-sig"
        )
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8 text: {error}", path) from error
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"truncated or invalid gzip file: {error}", path) from error


def parse_json(text: str, path: str) -> Any:
    """Return the value of a JSON text, which came from the file at `path`.

    Raises:
        FormatError: The text is not JSON.

    Examples:
        >>> bushel.sources.parse_json('{"straw": 7}', "list.json")
        {'straw': 7}
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"invalid JSON: {error}", path) from error


def _csv_rows(text: str, columns: Sequence[str] | None, path: str) -> list[Row]:
    rows: list[Row] = []
    delimiter = delimiter_of(path, text[:_BEGINNING].encode())
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if columns is None:
                columns = row
            elif row:
                if len(row) > len(columns):
                    raise FormatError(
                        f"line {reader.line_num}: {len(row)} values for the {len(columns)} columns",
                        path,
                    )
                rows.append(dict(zip(columns, row, strict=False)))
    except csv.Error as error:
        raise FormatError(f"line {reader.line_num}: {error}", path) from error
    return rows


class Table(FileSource):
    r"""Files that the rows of a table name, with the other columns as fields.

    Args:
        path: A `.csv`, `.json` or `.jsonl` file, gzipped or not; or the rows.
        media: Turns a file into a field: `Image()`, `Audio()`, `Clip()` or `Frames(rate=12)`; by
            default what the names of the files say.
        root: The folder that relative paths start from, and that no path in a file leaves; by
            default the folder of the table. `/` allows every absolute path. Paths in rows of a
            program are used as they are.
        file: Pattern of the file name of each row, with columns in braces: `{path}`, `{id}.jpg`. A
            `*` in it stands for any text; exactly one file must match.
        key: Pattern of the key of each row; by default the file's name without the suffix, or with
            it, where others have the same; numbered where a file has several rows.
        label: The column of labels.
        columns: Names of the columns of a CSV file without a header line.
        label2idx: Labels with given numbers.

    Attributes:
        spec: The field that `media` makes; every other column: `int`, `float` or `utf8` by its
            values, or `json`; and, if labels are text, `idx`, their number. Columns used only for
            the file or the key are left out.
        label2idx: Labels to their numbers.

    Raises:
        FormatError: The table is malformed, or a row lacks a column.

    Examples:
        >>> from bushel.sources import Table
        >>> _ = Path("table.csv").write_text("id,label,age\ndog/1,dog,3\ncat/4,cat,9\n")
        >>> source = Table("table.csv", root="photos/", file="{id}.jpg")
        >>> source.spec, source[1]["age"]
        ({'image': 'jpg', 'id': 'utf8', 'label': 'utf8', 'age': 'int', 'idx': 'int'}, 9)
    """

    def __init__(
        self,
        path: AnyLocation | Sequence[Row],
        media: Media | None = None,
        *,
        root: AnyLocation | None = None,
        file: str = "{path}",
        key: str | None = None,
        label: str = "label",
        columns: Sequence[str] | None = None,
        label2idx: Mapping[str, int] | None = None,
    ) -> None:
        if media is not None and not hasattr(media, "field"):
            raise TypeError(
                f"media={media!r}: expected Image(), Frames(), Clip() or another kind of media"
            )
        self._root: AnyPath = Path.cwd()
        place = caller_path
        if isinstance(path, Sequence) and not isinstance(path, str):
            self._table, self.samples, self._root_is = "the table", list(path), "this folder"
        else:
            named, place = absolute(as_path(path)), listed
            self._table, self.samples = str(named), read_rows(named, columns)
            self._root, self._root_is = named.parent, "the folder of the table"
        if root is not None:
            self._root, self._root_is = absolute(as_path(root)), "as root= says"
        self._file, self._key, self._label = file, key, label
        self._place = partial(place, self._root)
        self._fields = self._types()
        self.label2idx: Mapping[str, int] = {}
        names = [self._fill(file, at) for at in range(len(self.samples))]
        self._media = media_of_names(names) if media is None else media
        self._field, kind = self._media.field(names)
        self.spec = {self._field: kind, **self._fields}
        if self._fields.get(label) == "utf8":
            self.label2idx = extend_labels(
                (row[label] for row in self.samples if label in row), label2idx
            )
            self.spec["idx"] = "int"
        tails = [""] * len(names)
        if key is None:  # what makes keys unique: `#1` of a second row of a file, or a suffix
            keys = keys_of_rows(names, self._table)
            tails = [
                key[len(os.path.splitext(name)[0]) :] for key, name in zip(keys, names, strict=True)
            ]
        remaining = self._remaining(self._root)
        self.samples = [self.samples[position] for position in remaining]
        self._tails = [tails[position] for position in remaining]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, position: int) -> Sample:
        row, path = self.samples[position], self._path(position)
        if self._key is None:
            key = _stem(path, self._root) + self._tails[position]
        else:
            key = self._fill(self._key, position)
        with relative_to(self._root, self._root_is):
            sample = {KEY: key, self._field: self._media.read(path)}
        for column, kind in self._fields.items():
            if column not in row:
                raise FormatError(f"row {position} has no {column!r}", self._table)
            sample[column] = _CONVERT[kind](row[column])
        if self.label2idx:
            sample["idx"] = self.label2idx[row[self._label]]
        return sample

    def origin(self, position: int) -> str:
        """Return the file's path."""
        return str(self._place(self._fill(self._file, position)))

    def _path(self, position: int) -> AnyPath:
        name = self._fill(self._file, position)
        if "*" not in self._file:
            return self._place(name)
        escaped = {key: glob.escape(str(value)) for key, value in self.samples[position].items()}
        matching = self._fitting(self._file.format_map(escaped))
        if len(matching) != 1:
            raise FileNotFoundError(
                f"{len(matching)} files match {self._place(name)}, but exactly one should"
            )
        return matching[0]

    def _fitting(self, pattern: str) -> list[AnyPath]:
        """Return the files that match a pattern; on remote storage, only the last component may have a `*`."""
        if isinstance(self._root, Path) and "://" not in pattern:
            inner = str(self._place(pattern)).removeprefix(f"{self._root}/")
            return [self._root / name for name in sorted(glob.glob(inner, root_dir=self._root))]
        above, _, last = pattern.rpartition("/")
        folder = self._place(above) if above else self._root
        return [
            folder / name for name in sorted(names_in(folder)) if fnmatch.fnmatchcase(name, last)
        ]

    @property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """The labels in the order of their numbers, for the column of labels and for `idx`."""
        if self.label2idx:
            return dict.fromkeys((self._label, "idx"), in_order(self.label2idx))
        return {}

    def _fill(self, template: str, position: int) -> str:
        try:
            return template.format_map(self.samples[position])
        except KeyError as error:
            have = ", ".join(map(str, self.samples[position]))
            hint = None
            if template == self._file:
                hint = "file='{COLUMN}' of bushel.sources.Table names the column of the files"
            raise FormatError(
                f"row {position} has no {error}: it has {have}", self._table, hint=hint
            ) from None

    def _types(self) -> dict[str, str]:
        """Return the types of the columns that are fields."""
        columns = dict.fromkeys(column for row in self.samples for column in row)
        left_out = (self._file, self._key)
        return {
            column: _type_of([row[column] for row in self.samples if column in row])
            for column in columns
            if "{" + column + "}" not in left_out
        }


def _stem(path: AnyPath, root: AnyPath) -> str:
    """Return the name relative to the root, or the last component of a URL, without the suffix.

    A file outside the root has its absolute path, without the first slash.
    """
    inside = str(path).removeprefix(f"{root}/")
    if inside == str(path) and not (isinstance(path, Path) and isinstance(root, Path)):
        inside = path.name
    return os.path.splitext(inside.lstrip("/"))[0]


_CONVERT: Mapping[str, Any] = {"int": int, "float": float, "utf8": str, "json": lambda value: value}


def _type_of(values: Sequence[Any]) -> str:
    """Return the type of a column. Texts are numbers if all are numbers as JSON writes them."""
    if all(isinstance(value, str) for value in values) and "" not in values:
        return CODECS[number_type(values)]
    return codec_of_cells(values)
