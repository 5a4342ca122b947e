"""Records of CSV and TSV, read in place: a record is a sample, and the columns are fields.

docs/format-csv.md has the rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from bushel._index.shard import Shard
from bushel._runtime.messages import few, log_warning
from bushel.errors import FormatError, SpecError
from bushel.kernels import csv_record
from bushel.spec import Spec

from .base import ReadOptions
from .jsonl import (
    COMPRESSED,
    LineContainer,
    LineFile,
    LineTable,
    open_lines,
    scanner_of,
)
from .line_values import Kind
from .recovery import Fault

_MOST_COLUMNS = 10_000
_LARGEST_HEADER = 4 << 20
_QUOTED_CELL = re.compile(rb'(^|[,;\t|\n])"(?:[^"]|"")*"')
_LOOKED_AT = 1 << 16  # bytes in which the delimiter is looked for
_DIVIDE = "spec= does not help here: divide the columns among files, or store them as one array"
_CORRECT = "correct the line: cells with the delimiter, quotes or line ends are in quotes"
_CARRIAGE_RETURNS = (
    "if lines end so, `tr '\\r' '\\n'` converts the file; else put the cell in quotes"
)
_NUMBER = re.compile(r"[-+]?[0-9.]+")
_TAB = (".tsv", *(f".tsv{end}" for end in COMPRESSED))


class _Csv(LineContainer):
    name = "csv"

    def scanned(self, shard: Shard, options: ReadOptions, fault: Fault | None) -> LineTable:
        """Return the table of the records after the header, if there is one."""
        file = open_lines(shard)
        table = LineTable(file, cells=True, report=options.report, fault=fault)
        head = file.lines.read(file.start, min(file.lines.size - file.start, _LARGEST_HEADER))
        whole = file.start + len(head) == file.lines.size
        delimiter = delimiter_of(shard.files[0], head)
        names, end = _first_record(file, head, delimiter, whole=whole)
        columns, has_header = _columns(names, options.spec, file)
        if not has_header:
            end = 0
        table.scan(scanner_of(columns, delimiter), file.start + end, head.count(b"\n", 0, end))
        return table

    def check_names(self, names: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Raise FormatError for a file without a name of those before it, apart from numbers: it has no header."""
        before = dict[str, str]()
        for path, columns in names:
            texts = [name for name in columns if not _NUMBER.fullmatch(name)]
            if before and texts and before.keys().isdisjoint(texts):
                other = next(iter(before.values()))
                raise FormatError(
                    f"its first line ({few(columns)}) has no name of {other} ({few([*before])})",
                    path,
                    hint="if one of them is data, name the columns with spec=; open files of "
                    "different tables one by one, and join them with bushel.concat",
                )
            before |= dict.fromkeys(texts, path)


CONTAINER = _Csv()


def delimiter_of(name: str, head: bytes) -> str:
    """Return the tab of `.tsv`; of `.csv` the comma, or what the first line has instead outside quotes."""
    if name.lower().endswith(_TAB):
        return "\t"
    unquoted = _QUOTED_CELL.sub(rb"\1", head[:_LOOKED_AT])
    line = unquoted.partition(b"\n")[0]
    return next((mark for mark in ",;\t|" if mark.encode() in line), ",")


def _first_record(
    file: LineFile, head: bytes, delimiter: str, *, whole: bool
) -> tuple[list[str], int]:
    """Return the cells of the first record, and where the next one begins in `head`.

    Raises:
        FormatError: It is damaged, or too long, or has too many cells.
    """

    def refuse(message: str, hint: str | None = None) -> FormatError:
        return FormatError(f"line 1: {message}", file.real.path, file.start, hint)

    try:
        offset, length, kind, end = csv_record(head, ord(delimiter), whole, _MOST_COLUMNS)
    except ValueError as error:
        raise refuse(str(error), _DIVIDE if "many" in str(error) else _CORRECT) from error
    if end < 0:
        raise refuse(f"the first record has more than {_LARGEST_HEADER >> 20} MiB")
    cells = []
    for start, size, kind_of_cell in np.stack([offset, length, kind], axis=1).tolist():
        text = head[start : start + size]
        if kind_of_cell == Kind.BARE and b"\r" in text:
            message = f"a carriage return without a line feed in {text[:50]!r}"
            raise refuse(message, _CARRIAGE_RETURNS)
        if kind_of_cell == Kind.ESCAPED:
            text = text.replace(b'""', b'"')
        try:
            cells.append(text.decode())
        except UnicodeDecodeError as error:
            raise refuse(f"{text[:100]!r} is not UTF-8") from error
    return cells, end


def _columns(names: list[str], spec: Spec | None, file: LineFile) -> tuple[list[str], bool]:
    """Return the names of the columns, and whether the first record has them.

    It has none if the user declares as many fields as it has cells, and none of them is a name in
    it.

    Raises:
        FormatError: Two columns have the same name.
        SpecError: The user declares a field that is not there.
    """
    if not any(names):
        return [], True
    if spec is not None and len(spec) == len(names) and not spec.keys() & set(names):
        return list(spec), False
    missing = [name for name in spec or () if name not in names]
    if missing:
        have = ", ".join(names[:20])
        raise SpecError(
            f"{file.real.path} has no column {missing[0]!r}: its first line has "
            f"{have}. If that is not a header, spec= must name {len(names)} fields"
        )
    numbers = list(filter(_NUMBER.fullmatch, names))
    # pandas calls columns 0, 1, 2
    may_be_data = "." in "".join(numbers) or numbers == names
    if may_be_data and names != list(map(str, range(len(names)))):
        log_warning(
            "%s: its first line (%s) is read as the names of the columns; "
            "if it is data, name the columns with spec=",
            file.real.path,
            few(names),
        )
    # as pandas calls them
    named = [name or f"Unnamed: {number}" for number, name in enumerate(names)]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise FormatError(
            f"line 1: two columns are called {twice!r}",
            file.real.path,
            file.start,
            "rename one; if the first line is not a header, name the columns with spec=",
        )
    return named, True
