"""The wanted contents of a shard's index apart from extents: scans and columns, which are made by reading values."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .column_names import usual_columns
from .column_scan import ColumnRequest, ValueFiles, add_columns
from .scans import FRAMES, SEEK_TABLES, SEGMENTS, Scanned, has_pyav, scanned_in
from .table import ShardIndex


@dataclass(frozen=True, slots=True)
class Contents:
    """The wanted contents of an index apart from extents."""

    # segments and seek tables of JPEGs, and packets of clips
    scans: frozenset[Scanned] = frozenset()
    columns: ColumnRequest = field(default_factory=ColumnRequest)  # values of samples

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
        return add_columns(index, self.columns, files)

    def without_usual_columns(self) -> Contents:
        """Return this without the columns that writers record by default."""
        return replace(self, columns=replace(self.columns, usual=False))
