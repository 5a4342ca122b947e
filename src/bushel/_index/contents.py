"""The wanted contents of a shard's index apart from extents: scans and columns, which are made by reading values."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from bushel.codecs import get_codec
from bushel.spec import Spec

from .column_names import (
    AUTO,
    NONE,
    ColumnOf,
    column_of,
    expanded,
    known_column_of,
    names_of,
    usual_columns,
)
from .column_scan import ValueFiles, add_columns
from .columns import LONGEST_TEXT
from .scans import FRAMES, SEEK_TABLES, SEGMENTS, Scanned, has_pyav, scanned_in
from .table import MISSING, FieldExtents, ShardIndex

# writers record texts that have at most this many bytes on average: names, not captions
_USUAL_TEXT = 32


class ColumnRequest(Struct, frozen=True):
    """The columns that an index should have."""

    # names of columns, and such as `*.width`; those that the fields cannot have are left out
    names: tuple[str, ...] = ()
    usual: bool = False  # whether to add the columns that writers record

    @classmethod
    def given(cls, columns: str | Iterable[str] | None, fields: Spec) -> ColumnRequest:
        """Parse the columns of a user: names, in a list or a text with commas, and `auto`; None for the usual ones.

        `fields` is empty if they are not known yet.

        Raises:
            KeyError, SpecError: As `column_of`.
        """
        names = (AUTO,) if columns is None else names_of(columns)
        explicit = tuple(name for name in names if name not in (AUTO, NONE))
        for name in expanded(explicit, fields) if fields else ():
            column_of(name, fields)
        return cls(explicit, AUTO in names)

    def of(self, index: ShardIndex) -> list[ColumnOf]:
        """Return the columns of this request that a table lacks."""
        fields: Spec = {name: column.field for name, column in index.fields.items()}
        requested = {name: known_column_of(name, fields) for name in expanded(self.names, fields)}
        if self.usual:
            usual = {
                column.name: column
                for column in usual_columns(fields)
                if _is_usual(column, index.fields[column.field.name])
            }
            requested = {**usual, **requested}
        return [
            column
            for column in requested.values()
            if column is not None
            and column.name not in index.columns
            and column.reading not in ("bytes", "elements")
        ]


def _is_usual(requested: ColumnOf, column: FieldExtents) -> bool:
    """Return whether a writer records a column that it may record."""
    if requested.reading not in ("value", "length") or get_codec(column.codec).layout is not None:
        return True
    lengths = column.length[column.length != MISSING]
    short = bool(len(lengths)) and float(lengths.mean()) <= _USUAL_TEXT
    if requested.reading == "value":
        return short
    # else the texts have their lengths
    return bool(len(lengths)) and (not short or int(lengths.max()) > LONGEST_TEXT)


class Contents(Struct, frozen=True):
    """The wanted contents of an index apart from extents."""

    # segments and seek tables of JPEGs, and packets of clips
    scans: frozenset[Scanned] = frozenset()
    columns: ColumnRequest = ColumnRequest()  # values of samples

    @classmethod
    def of(cls, index: ShardIndex) -> Contents:
        """Return the contents of a table."""
        return cls(scanned_in(index), ColumnRequest(tuple(index.columns)))

    @classmethod
    def to_keep(cls, index: ShardIndex) -> Contents:
        """Return the contents that appended samples inherit from a table.

        That follows from the table alone, so that a writer which was killed and one which was not
        decide alike. A table without one of the usual columns was written without them. If it has
        them all, the samples that follow get the usual columns of their own shard: a text that is
        short here may be long there.
        """
        usual = not ColumnRequest(usual=True).of(index)
        usual_ones = (
            usual_columns({name: column.field for name, column in index.fields.items()})
            if usual
            else ()
        )
        decided = {usual_column.name for usual_column in usual_ones}
        names = tuple(name for name in index.columns if name not in decided)
        return cls(scanned_in(index), ColumnRequest(names, usual))

    def __or__(self, other: Contents) -> Contents:
        """Return the union of both."""
        names = dict.fromkeys((*self.columns.names, *other.columns.names))
        columns = ColumnRequest(tuple(names), self.columns.usual or other.columns.usual)
        return Contents(self.scans | other.scans, columns)

    def add_to(
        self,
        index: ShardIndex,
        files: ValueFiles,
        before: ShardIndex | None = None,
        *,
        all_frames: bool = False,
    ) -> ShardIndex:
        """Return a table with the contents that it lacks. Values are read.

        Args:
            index: The table.
            files: The files of the shard.
            before: The table of the shard before it grew: only the values that came later are
                scanned, except for columns.
            all_frames: Whether packets of clips are found whenever PyAV is installed.

        Raises:
            ExtentError: A file is shorter than an extent in the table requires.
            SpecError: Columns of clips are wanted, and PyAV is not installed.
        """
        for scan in (SEGMENTS, SEEK_TABLES):
            if scan.attribute in self.scans:
                index = scan.add(index, files.file_of, before)
        if all_frames and FRAMES.fields(index) and has_pyav():
            index = FRAMES.add(index, files.file_of, before)
        return add_columns(index, self.columns.of(index), files)

    def without_usual_columns(self) -> Contents:
        """Return this without the columns that writers record by default."""
        return replace(self, columns=replace(self.columns, usual=False))
