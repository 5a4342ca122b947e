"""Lines or an array of JSON, read in place: an object is a sample, and its names are fields.

docs/format-jsonl.md has the rules.
"""

from __future__ import annotations

from bushel._index.table import Shard
from bushel.containers.array_lines import ARRAYS
from bushel.containers.base import ReadOptions
from bushel.containers.line_scan import COMPRESSED, LineContainer, LineTable, open_lines, scanner_of
from bushel.containers.recovery import Fault
from bushel.errors import FormatError


def _scanned(shard: Shard, options: ReadOptions, fault: Fault | None) -> LineTable:
    file = open_lines(shard)
    try:
        return _filled(LineTable(file, report=options.report, fault=fault), [])
    except FormatError:
        if options.spec is None:
            raise
    # perhaps too many names
    return _filled(LineTable(file, report=options.report, fault=fault), list(options.spec))


def _filled(table: LineTable, names: list[str]) -> LineTable:
    table.scan(scanner_of(names, closed=bool(names)), table.file.start)
    return table


CONTAINER = LineContainer(
    "jsonl",
    _scanned,
    tuple(suffix + end for suffix in (".jsonl", ".ndjson") for end in ("", *COMPRESSED)),
    ARRAYS,
)
