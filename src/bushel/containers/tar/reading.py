"""Reading the table of an archive in one pass over its headers. Memory does not grow with the archive."""

from __future__ import annotations

from collections import Counter

from bushel._index.class_names import Labels
from bushel.containers.tar.samples import SampleTable, Table, tabulate
from bushel.containers.tar.scan import (
    damage,
    fields_and_names,
    only_regular,
    pieces_of,
    report_junk,
    sparse_file,
    without_junk,
)
from bushel.containers.tar.starts import Comparison, recorded_starts, scan_parts
from bushel.errors import FormatError, SpecError
from bushel.kernels import MappedFile
from bushel.spec import Spec
from bushel.storage import AnyPath, File

_BLOCK = 512


def read_table(archive: AnyPath, file: File, spec: Spec | None) -> tuple[Table, Labels]:
    """Return the table of an archive, and the names of the classes of its fields.

    An index of Energon beside it is used and compared.

    Args:
        archive: Its path.
        file: Its bytes.
        spec: Fields that the user declared, or None.

    Raises:
        FormatError: The archive is damaged, a member is a sparse file, or members cannot be grouped
            into samples.
        SpecError: The declared fields do not fit those that the archive describes.
    """
    recorded = recorded_starts(archive, file.size)
    comparison = None if recorded is None else Comparison(*recorded, file)
    if recorded is not None and comparison is not None and not isinstance(file, MappedFile):
        members = scan_parts(file, recorded[1])
        if members is not None:
            comparison.add(members)
            comparison.finish()
            junk = Counter[str]()
            data = without_junk(members, junk)
            report_junk(file.path, junk)
            return tabulate(data, spec, file.path), {}
    one_pass = _Pass(file, spec)
    comment = one_pass.run(comparison)
    if comment != one_pass.comment:  # fields are described after the first members
        one_pass = _Pass(file, spec, comment)
        one_pass.run(None)
    return one_pass.result()


class _Pass:
    """A pass over the headers of an archive."""

    def __init__(self, file: File, declared: Spec | None, comment: bytes | None = None) -> None:
        self.comment = comment  # which describes the fields
        self._file, self._declared = file, declared
        self._table: SampleTable | None = None
        self._labels: Labels = {}
        # an error of the samples; damage is reported before it
        self._error: FormatError | SpecError | None = None

    def run(self, comparison: Comparison | None) -> bytes:
        """Read all headers, and return the comment of the archive.

        Raises:
            FormatError: The archive is damaged, or a member is a sparse file.
        """
        file, sparse, junk = self._file, None, Counter[str]()
        for scanned in pieces_of(file):
            sparse = sparse or sparse_file(scanned, file.path)
            members = only_regular(scanned)
            if comparison is not None:
                comparison.add(members)
            try:
                if self.comment is None or self._table is None:
                    self._begin(scanned.comment if self.comment is None else self.comment)
                if self._table is not None and self._error is None:
                    self._table.add(without_junk(members, junk), scanned.end / max(file.size, 1))
            except (FormatError, SpecError) as error:
                self._error = self._error or error
        if (problem := damage(scanned, file) or sparse) is not None:
            raise problem
        if comparison is not None:
            comparison.finish()
        report_junk(file.path, junk)
        return scanned.comment

    def _begin(self, comment: bytes) -> None:
        self.comment = comment
        spec, self._labels = fields_and_names(comment, self._declared, self._file.path)
        self._table = SampleTable(spec, self._file.path, self._file.size // _BLOCK)

    def result(self) -> tuple[Table, Labels]:
        """Return the table, and the names of classes.

        Raises:
            FormatError: Members cannot be grouped into samples, or the comment cannot be read.
            SpecError: The declared fields do not fit the comment.
        """
        if self._error is not None or self._table is None:
            raise self._error or FormatError("no members were read", file=self._file.path)
        return self._table.finish(), self._labels
