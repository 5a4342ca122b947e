"""Lines of JSON, read where they lie: a line is a sample, and the names in its objects are fields.

docs/format-jsonl.md has the rules.
"""

from __future__ import annotations

from typing import Literal

from bushel._index.table import ShardIndex
from bushel.containers.base import ReadOptions, Shard
from bushel.containers.line_scan import COMPRESSED, LineTable, line_shards, open_lines, scanner_of
from bushel.containers.recovery import Fault, Recovered
from bushel.errors import FormatError
from bushel.storage import AnyPath

__all__ = ["CONTAINER"]


class _JsonLines:
    name = "jsonl"
    stores_text: Literal[True] = True
    suffixes = tuple(each + end for each in (".jsonl", ".ndjson") for end in ("", *COMPRESSED))

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of one file, or a shard for each file of a folder, sorted by name."""
        return line_shards(path, self.suffixes)

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one file, which is read from front to back."""
        return _scanned(shard, options).index(self.name, shard, options)

    def recover(self, shard: Shard, options: ReadOptions, fault: Fault) -> Recovered:
        """Return the table of the lines that are not damaged, with gaps for the others."""
        return _scanned(shard, options, fault).recovered(self.name, shard, options)


CONTAINER = _JsonLines()


def _scanned(shard: Shard, options: ReadOptions, fault: Fault | None = None) -> LineTable:
    file = open_lines(shard)
    try:
        return _filled(LineTable(file, report=options.report, fault=fault), [])
    except FormatError:
        if options.spec is None:
            raise
    return _filled(LineTable(file, report=options.report, fault=fault), list(options.spec))  # perhaps too many names


def _filled(table: LineTable, names: list[str]) -> LineTable:
    table.scan(scanner_of(names, closed=bool(names)), table.file.start)
    return table
