"""Lines or an array of JSON, read in place: an object is a sample, and its names are fields.

`csv` is read by the same scan. docs/format-jsonl.md has the rules.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.columns import Column
from bushel._index.shard import Shard, stamps
from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.system import keep_freed_memory
from bushel.errors import FormatError, SpecError
from bushel.kernels import LineScanner
from bushel.spec import KEY, parse_spec
from bushel.storage import AnyPath, BlockFile, Blocks, File

from .base import Container, ReadOptions, Report, unreported
from .facts import BUILT_IN
from .line_values import GrowingLines, LineField
from .plain_table import file_shards
from .read_forward import (
    ARRAYS,
    ArrayLines,
    forward_reader,
    holds_lines,
    start_of_array,
)
from .recovery import Fault, Recovered
from .references import as_text, with_keys, with_references

COMPRESSED = (".gz", ".zst")
"""Ends of the names of compressed files, which follow the usual suffix."""

_ABOUT = ("README", "LICENSE", ".json", ".md", ".py", ".txt", ".yaml", ".yml")
"""Files that may be beside the data, and their suffixes."""

_LONGEST_LINE = 128 << 20
_SPACING = 256 << 10
"""Expanded bytes between restart points of gzip: values are short, and each that is read expands as many."""

_BOM = b"\xef\xbb\xbf"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_CELLS_PER_BYTE, _ENOUGH_CELLS = 4, 1 << 22
_MOST_NAMES = 10_000
_AFTER_FAULT = 64 << 10
"""Bytes that are scanned at a time after a damaged line: the next one may be damaged, too."""

_MOST_FAULTS = 10_000
"""Damaged lines that are left out in any case. Each takes some 20 µs and 1 KB."""


class LineFile(Struct, frozen=True):
    """An open file of lines.

    Attributes:
        real: The file itself.
        lines: The file, or the block file that it expands to.
        blocks: Its blocks; empty if it is not compressed.
        start: Where the first line begins, after a byte order mark.
        array: Whether it is an array, whose objects are read as lines.
    """

    real: File
    lines: File
    blocks: tuple[Blocks, ...]
    start: int
    array: bool = False


def open_lines(shard: Shard) -> LineFile:
    """Open the file of a shard.

    Raises:
        FormatError: It is compressed and damaged, its text is UTF-16, or it should be an array and
            is not.
        UnsupportedError: It is compressed in a way that allows no reading in part.
    """
    real = shard.open()
    lines, blocks = real, tuple[Blocks, ...]()
    if shard.files[0].lower().endswith(COMPRESSED):
        from bushel.storage.restart import compressed_blocks

        blocks = (compressed_blocks(real, spacing=_SPACING),)
        lines = BlockFile.over(real, blocks[0])
    head = lines.read(0, min(lines.size, 3))
    if head.startswith(_WIDE):
        raise FormatError(
            "its text is UTF-16",
            real.path,
            0,
            "convert it to UTF-8: iconv does that",
        )
    start = 3 if head == _BOM else 0
    if not shard.files[0].lower().endswith(ARRAYS) or holds_lines(lines, start):
        return LineFile(real, lines, blocks, start)
    return LineFile(real, lines, blocks, start_of_array(lines, start, real.path), array=True)


def _line_end(data: memoryview, start: int) -> int:
    """Return the number of bytes up to the end of the line in which a byte is; 0 if the line does not end."""
    size = 256
    while start < len(data):
        if (end := bytes(data[start : start + size]).find(b"\n")) >= 0:
            return start + end + 1
        start, size = start + size, 2 * size
    return 0


class LineTable(Struct):
    """The table of a file of lines under construction.

    Attributes:
        file: The file.
        cells: Whether its lines are records of CSV.
        report: Called with the numbers of bytes that were scanned.
        fault: Called with the error of a damaged line, which is then left out. If it is None, the
            error is raised.
    """

    file: LineFile
    cells: bool = False
    report: Report = unreported
    fault: Fault | None = None
    _blocks: GrowingLines = msgspec.field(default_factory=GrowingLines)
    _names: list[str] = []
    _facts: list[tuple[int, bool, bool]] = []
    _gaps: list[tuple[int, str]] = []
    _errors: list[FormatError] = []

    def scan(self, scanner: LineScanner, start: int, lines_before: int = 0) -> None:
        """Scan the file to its end.

        Args:
            scanner: The scanner.
            start: Where the first line begins.
            lines_before: Number of line ends before that.

        Raises:
            FormatError: A line is damaged.
        """
        keep_freed_memory()
        lines = self.file.lines
        read, chunk = forward_reader(self.file.lines, self.file.real)
        array = ArrayLines(read, start) if self.file.array else None
        if array is not None:
            read = array.read
        at, window = start, chunk
        while at < lines.size:
            data = memoryview(b"")  # frees the last bytes before more are read
            data = memoryview(read(at, min(window, lines.size - at)))
            used = self._feed(scanner, data, at)
            after = chunk
            if scanner.problem is not None:
                self._take(scanner, at)
                end = _line_end(data, scanner.problem_offset - at)
                if end or window >= chunk:
                    self._leave_out(
                        self._error(scanner, scanner.lines + lines_before + len(self._gaps) + 1)
                    )
                    used, after = end or len(data), min(chunk, _AFTER_FAULT)
            elif not used:
                window *= 2
                if window > _LONGEST_LINE:
                    raise FormatError(
                        f"{self._word} {scanner.lines + lines_before + 1} "
                        f"has more than {_LONGEST_LINE >> 20} MiB",
                        self.file.real.path,
                        at,
                        "no line of data is that long: do quotes not end, or is it another format?",
                    )
                continue
            at, window = at + used, after
            self.report(used)
        self._take(scanner, at)
        with suppress(IndexError):  # the last names may be in damaged lines only
            for number in range(len(scanner.names)):
                self._facts.append(scanner.facts(number))
        if array is not None and not array.ended:
            self._report("the array does not end: `]` is missing", at)
        elif array is not None and array.trailing is not None:
            self._report(
                "something follows the array, which has to be all of the file", array.trailing
            )

    def _report(self, problem: str, offset: int) -> None:
        self._tell(FormatError(problem, self.file.real.path, offset))

    def _tell(self, error: FormatError) -> None:
        """Raise an error, unless there is a function that is called with it."""
        if self.fault is None:
            raise error
        self.fault(error)

    def _feed(self, scanner: LineScanner, data: memoryview, start: int) -> int:
        """Scan the lines in some bytes, and return how many bytes they take."""
        used, last = 0, start + len(data) == self.file.lines.size
        while True:
            used += scanner.feed(data[used:], start + used, last)
            if not scanner.full or scanner.problem is not None:
                return used
            self._take(scanner, start + used)

    @property
    def _word(self) -> str:
        return "object" if self.file.array else "line"

    def _leave_out(self, error: FormatError) -> None:
        self._tell(error)
        if len(self._gaps) >= _MOST_FAULTS + self._blocks.samples:
            raise FormatError(
                f"more {self._word}s are damaged than not, of more than {_MOST_FAULTS}",
                self.file.real.path,
                error.offset,
                "is it another format?",
            )
        self._gaps.append((self._blocks.samples, str(self._blocks.samples + len(self._gaps))))
        if len(self._errors) < _MOST_FAULTS:
            self._errors.append(error)

    def _error(self, scanner: LineScanner, line: int) -> FormatError:
        where = " of the expanded file" if self.file.blocks else ""
        hint = f"correct the {self._word}, or remove it"
        if not (self._blocks.samples or self.cells or self.file.array):
            hint += "; of objects on several lines each, `jq -c .` makes lines"
        if scanner.problem is not None and "names" in scanner.problem:
            hint = "name the fields to be read with spec=, or write the names as values of a list"
        what, at = f"{self._word} {line}{where}: {scanner.problem}", scanner.problem_offset
        return FormatError(what, self.file.real.path, at, hint)

    def _take(self, scanner: LineScanner, at: int) -> None:
        """Add the samples that the scanner has found up to a byte."""
        names = scanner.names
        self._names += [self._name(name) for name in names[len(self._names) :]]
        samples = self._blocks.samples + scanner.rows
        if samples * len(names) > max(self.file.lines.size * _CELLS_PER_BYTE, _ENOUGH_CELLS):
            raise FormatError(
                f"{samples} {self._word}s with {len(names)} different "
                "names would take a table that is far larger than the file",
                self.file.real.path,
                hint="name the fields to be read with spec=, or write the names as values of a list",
            )
        self._blocks.take(scanner, at / max(self.file.lines.size, 1))

    def _name(self, name: bytes) -> str:
        try:
            text = name.decode()
            # an empty name is a column that is not wanted
            if text != KEY and (text or not self.cells):
                parse_spec({text: "json"})
        except (UnicodeDecodeError, SpecError) as error:
            shown = name[:100].decode(errors="backslashreplace")
            raise FormatError(
                f"{shown!r} cannot be the name of a field, which "
                f"is text without a NUL, other than '' and {KEY!r}",
                self.file.real.path,
                hint="rename it, or name the fields to be read with spec=",
            ) from error
        return text

    def index(self, container: str, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table.

        Raises:
            FormatError: A file that a field names is missing.
            SpecError: The user declares a type that the values of a field cannot have.
        """
        spec = {name: as_text(field) for name, field in (options.spec or {}).items()}
        lines = self._blocks.lines(self.file.real.path)
        fields: dict[str, FieldExtents] = {}
        columns: dict[str, Column] = {}
        for number, name in enumerate(self._names):
            if name:
                facts = self._facts[number] if number < len(self._facts) else None
                line_field = LineField(name, self.file.lines, number, facts, cells=self.cells)
                if not line_field.occurs and self._blocks.samples:
                    continue
                checked = name not in options.recorded
                fields[name], column = line_field.table(
                    lines, spec.get(name), len(self.file.blocks), checked=checked
                )
                if column is not None:
                    columns[name] = column
        real = self.file.real
        table = ShardIndex(
            self._blocks.samples,
            stamps(shard, [real]),
            fields,
            container,
            columns=columns,
            blocks=self.file.blocks,
        )
        if self.file.blocks:  # else all extents are of bytes that were scanned
            table.check(real.path)
        return with_references(with_keys(table, shard), shard, options.spec)

    def recovered(self, container: str, shard: Shard, options: ReadOptions) -> Recovered:
        """Return the table of the lines that are not damaged, with a gap for each that is."""
        table = replace(self.index(container, shard, options), columns={})
        whole = np.ones(table.samples, np.bool_)
        return Recovered(table, whole, len(self._gaps), tuple(self._gaps), tuple(self._errors))


class LineContainer(Container):
    """A container of lines or records that are read from front to back.

    Attributes:
        alone: The ends of the names of files that are its only if they are named, not if they are
            in a folder.
    """

    stores_text = True

    @abstractmethod
    def scanned(self, shard: Shard, options: ReadOptions, fault: Fault | None) -> LineTable:
        """Return the table of a file; with a fault, the table of undamaged lines."""

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of one file, or a shard for each file of a folder of such files and pages about them."""
        ends = self.suffixes
        if not path.is_dir():
            ends += BUILT_IN[self.name].alone
        return file_shards(
            path, lambda name: name.endswith(ends), beside=lambda name: name.endswith(_ABOUT)
        )

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one file."""
        return self.scanned(shard, options, None).index(self.name, shard, options)

    def recover(self, shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
        """Return the table of the undamaged lines, with gaps for the rest."""
        return self.scanned(shard, options, fault).recovered(self.name, shard, options)


def scanner_of(names: list[str], delimiter: str = "", *, closed: bool = False) -> LineScanner:
    """Return a scanner of JSON, or of CSV with these columns."""
    encoded = [name.encode() for name in names]
    return LineScanner(encoded, ord(delimiter) if delimiter else 0, closed, _MOST_NAMES)


class _Jsonl(LineContainer):
    name = "jsonl"

    def scanned(self, shard: Shard, options: ReadOptions, fault: Fault | None) -> LineTable:
        """Return the table of all names, or, where that is impossible, of the declared ones."""
        file, names = open_lines(shard), list[str]()
        while True:
            table = LineTable(file, report=options.report, fault=fault)
            try:
                table.scan(scanner_of(names, closed=bool(names)), file.start)
            except FormatError:
                if names or not options.spec:
                    raise
                names = list(options.spec)  # perhaps there are too many names
            else:
                return table


CONTAINER = _Jsonl()
