"""Checking one shard: its structure, its index, its checksums, its values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.open.binding import stamp_of, stamps_of, with_checksums
from bushel._dataset.open.caller_fields import CallerFields
from bushel._dataset.read.shards import OpenShard
from bushel._dataset.views.dataset import Dataset
from bushel._index.column_scan import ValueFiles
from bushel._index.contents import Contents, has_pyav
from bushel._index.identity import Comparison, compare_values, table_digest
from bushel._index.shard import FileStamp, Shard, sizes_of
from bushel._index.table import MISSING, FieldExtents, ShardIndex, opener
from bushel._runtime.arrays import total_of
from bushel._runtime.messages import count
from bushel.codecs import get_codec
from bushel.containers.base import Report
from bushel.errors import CodecError, FormatError, MissingPackageError
from bushel.kernels import ExtentError
from bushel.spec import KEY
from bushel.storage import File, mapped_once

from .compare import Difference, content_differences, differences, name_differences
from .discover import Place, tables_of
from .problems import Findings
from .whole_samples import readable

FileOf = Callable[[int], File]
"""Opens a file or block file of a shard, given its number."""

_ACCEPT = "`bushel index` records them"
_FORCE = "restore the file, or accept it with `bushel index --force`"


class Checks(Struct, frozen=True):
    """Options of a check."""

    checksums: bool  # whether to compare all bytes with their checksums
    decode: bool  # whether to decode every value
    pickle: bool  # whether codecs that run code may be used, and pickled gulp metadata be unpickled
    room: int  # number of problems to keep per shard
    # called with the number of bytes checked since the last call; raises to end the work
    tick: Report


def check_shard(place: Place, checks: Checks) -> ShardCheck:
    """Check one shard, and continue after every problem."""
    check = ShardCheck(place, checks, Findings(checks.room))
    try:
        with mapped_once():
            check.run()
    except FormatError as missing:
        check.found.add_error(missing)
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else place.shard.path(0)
        check.found.add_file(name, "read", error.strerror or str(error))
    return check


class ShardCheck(Struct):
    """The check of one shard, and its result."""

    place: Place
    checks: Checks
    found: Findings
    index: ShardIndex = ShardIndex(0, (), {}, "")  # the best available table, empty without any
    bytes_checked: int = 0  # number of stored bytes that were compared with a checksum
    complete: bool = False  # whether all stored bytes were compared
    # the table of the index, if it describes the files as they are
    fitting: ShardIndex | None = None

    def run(self) -> None:
        """Check the shard.

        Raises:
            FormatError: A file is missing.
            OSError: A file cannot be read.
        """
        container, shard = self.place.container, self.place.shard
        checks, found = self.checks, self.found
        stamps = stamps_of(shard)
        recorded, fits, built, faults, retyped = tables_of(self.place, stamps, checks.pickle, found)
        kept, known = (recorded, None) if fits else (None, recorded)
        for fault in faults:
            found.add_error(fault)
        index = built if kept is None else kept
        if index is None and known is not None:
            index = within_files(known, shard, stamps, found)
        if index is None:
            return
        shard = index.shard_with_files(shard)
        file_of = opener(index, shard)
        if kept is not None and kept.digest != table_digest(kept):
            found.add_file(
                shard.sidecar,
                "index",
                "its digest is not that of its contents: run `bushel index --force` on the dataset",
            )
        if kept is not None and built is not None:
            self._compare(kept, shard, differences(kept, built))
        elif known is not None and built is not None:
            for difference in name_differences(known, built, changed=True):
                found.add_file(shard.path(0), "index", difference.what, field=difference.field)
        checked, complete = 0, False
        if checks.checksums:
            for error in container.check_stored(shard, checks.tick):
                found.add_error(error, "checksum")
            checked, complete = self._check_crcs(index, shard, file_of)
        if known is not None and built is not None:
            more, complete = self._check_changed(known, built, shard, file_of)
            checked += more
        if checks.checksums and kept is not None:
            self._check_contents(kept, shard, built, file_of)
        if all(problem.warning for problem, _ in found.problems):
            if kept is None:
                self._check_types(retyped)
            elif checks.checksums:
                self._check_stamps(kept, file_of)
        if checks.decode:
            self._check_values(index)
        self.index, self.fitting = index, kept
        self.bytes_checked, self.complete = checked, complete

    # Comparing the index with the files

    def _compare(self, kept: ShardIndex, shard: Shard, differing: Iterable[Difference]) -> None:
        """Report differences of a stored table and the files, which did not change after it was made.

        Values whose damage was reported are left out.
        """
        damaged = self.found.damaged
        before = damaged.copy()
        for difference in differing:
            sample, field, offset = difference.sample, difference.field, difference.offset
            if field is not None and sample is not None:
                if (field, sample) in before:
                    continue
                damaged.add((field, sample))
            file = str(shard.path(0))
            if difference.file is not None:
                file, at = shard.locate(kept.place(difference.file, offset or 0))
                offset = None if offset is None else at
            refs = self.place.container.file_of_references(shard)
            if difference.referred and refs is not None:
                file, offset = f"{shard.root}/{refs}", None  # the records themselves are unchanged
            self.found.add_value(
                kept.keys,
                sample,
                (file, offset),
                field,
                "index",
                f"{difference.what}; the modification time "
                "is unchanged, so one of the two is damaged",
            )

    def _check_contents(
        self, kept: ShardIndex, shard: Shard, built: ShardIndex | None, file_of: FileOf
    ) -> None:
        """Make columns, segments, packets and seek tables again as `bushel index` does, and compare them.

        Values that are known to be damaged are left out: what was made of them differs, too.
        """
        bare = {
            name: replace(extents, segments=None, frames=None, seek=None)
            for name, extents in kept.fields.items()
        }
        columns = {}
        if built is not None:
            columns = {name: built.columns[name] for name in built.columns if name in kept.columns}
        found, contents = self.found, Contents.of(kept)
        try:
            now = contents.add_to(
                replace(kept, fields=bare, columns=columns),
                ValueFiles(file_of),
                frames="frames" in contents.scans and has_pyav(),
            )
        except MissingPackageError as error:
            found.add_file(
                shard.sidecar,
                "unchecked",
                f"columns or packets of the index are not compared: {error}",
            )
        except FormatError as error:
            found.add_error(error, "checksum")
        except ExtentError as error:  # bytes that cannot be read have no column
            found.add_file(shard.path(0), "checksum", str(error))
        else:
            self._compare(kept, shard, content_differences(kept, now))

    def _check_types(self, retyped: Iterable[tuple[str, str, str]]) -> None:
        """Report fields that get other types when the changed files are opened."""
        for field, was, is_now in retyped:
            self.found.add_file(
                self.place.shard.path(0),
                "index",
                f"its type is recorded as {was}, and is {is_now} in the files now: "
                "restore them, or accept the new type with `bushel index --force`",
                field=field,
            )

    def _check_stamps(self, kept: ShardIndex, file_of: FileOf) -> None:
        """Report files whose first or last bytes differ from the index.

        A byte that no value and no checksum covers was changed: of a header, or of a comment.
        """
        for number, stamp in enumerate(kept.files):
            if stamp.crc32 is not None and stamp_of(file_of(number)) != stamp.crc32:
                self.found.add_file(
                    file_of(number).path,
                    "index",
                    "bytes that belong to no value differ from the index, although "
                    "the modification time is unchanged; all values with checksums "
                    "are intact: `bushel repair` writes the samples again",
                )

    def _check_values(self, index: ShardIndex) -> None:
        """Decode every field of every sample on its own."""
        opened = OpenShard.of(
            self.place.container.name,
            self.place.shard,
            index,
            stored=False,
            asked=CallerFields(pickle=self.checks.pickle),
        )
        dataset = Dataset([opened], verify=False)

        def read(positions: Sequence[int]) -> list[dict[str, Any]]:
            self.checks.tick(0)
            return dataset.read(positions, decode=False)

        def report(_: int, error: Exception) -> None:
            if not isinstance(error, FormatError):
                raise error
            self.found.add_error(error)

        for position, sample in readable(read, range(len(dataset)), report):
            del sample[KEY]
            for name, stored in sample.items():
                decode = get_codec(opened.index.fields[name].codec).decode
                for what in _undecodable(decode, stored):
                    place, keys = dataset.location(position, name), opened.index.keys
                    self.found.add_value(keys, position, place, name, "decode", what)

    # Comparing bytes with checksums

    def _check_crcs(self, index: ShardIndex, shard: Shard, file_of: FileOf) -> tuple[int, bool]:
        """Compare every field that has a checksum with it.

        Returns:
            The number of bytes compared, and whether all bytes were compared.
        """
        recorded = {
            name: column for name, column in index.fields.items() if column.crc32 is not None
        }
        complete, tick = len(recorded) == len(index.fields), self.checks.tick
        bare = _unchecked(replace(index, fields=recorded))
        try:
            now = with_checksums(bare, file_of, report=tick)
        except FormatError:  # repeat it field by field, to find those that cannot be read
            columns = dict[str, FieldExtents]()
            for name in recorded:
                try:
                    columns |= with_checksums(bare.select([name]), file_of, report=tick).fields
                except FormatError as error:
                    self.found.add_error(error, "checksum")
                    complete = False
            now = replace(bare, fields=columns)
        wrong = {
            name: recorded[name]
            for name, column in now.fields.items()
            if not np.array_equal(column.crc32, recorded[name].crc32)  # type: ignore[arg-type]  # both have some
        }
        if wrong:
            self._report_values(shard, compare_values(replace(index, fields=wrong), now))
        return now.nbytes, complete

    def _report_values(self, shard: Shard, compared: Comparison) -> None:
        """Report the values whose bytes do not have the recorded checksum."""
        now = compared.now
        for value in compared.differences():
            message = f"should have the CRC-32 {value.expected:08x}, found {value.found:08x}"
            if value.element is not None:
                message = f"element {value.element} {message}"
            place = shard.locate(value.place)
            self.found.damaged.add((value.field, value.sample))
            self.found.add_value(now.keys, value.sample, place, value.field, "checksum", message)

    def _check_changed(
        self, known: ShardIndex, built: ShardIndex, shard: Shard, file_of: FileOf
    ) -> tuple[int, bool]:
        """Compare the values of a shard with the checksums in a table that does not fit its files.

        Args:
            known: The recorded table, checked.
            built: The table made from the files.
            shard: The shard.
            file_of: Opens a file of the shard; unless checksums are compared, none is.

        Returns:
            The number of bytes of fields without a checksum in the files themselves that were
            compared with a recorded checksum, and whether all of them were.
        """
        if not self.checks.checksums:
            bare = _unchecked(known)
            self._report_changes(shard, bare, compare_values(bare, built))
            return 0, False
        try:
            now = with_checksums(built, file_of, report=self.checks.tick)
        except FormatError as error:
            self.found.add_error(error, "checksum")
            return 0, False
        compared = compare_values(known, now)
        self._report_changes(shard, known, compared)
        checked, complete = 0, True
        for name, column in built.fields.items():
            if column.crc32 is None:
                rows = compared.compared[name]
                checked += total_of(column.length[rows])
                complete = complete and bool(rows[column.present].all())
        return checked, complete

    def _report_changes(self, shard: Shard, known: ShardIndex, compared: Comparison) -> None:
        """Add the problems that a comparison shows."""
        add = partial(self.found.add_file, shard.path(0))
        differing = compared.differing
        if (
            known.samples
            and compared.now.samples
            and (known.keys is None) != (compared.now.keys is None)
        ):
            was, now = "positions", "keys of their own"
            if known.keys is not None:
                was, now = now, was
            add(
                "replaced",
                f"samples had {was} as keys when the file was indexed, and have {now} now: {_ACCEPT}",
            )
        if (
            compared.gone
            or compared.missing
            or compared.empties
            or (differing and not compared.equal)
        ):
            counts = [
                (compared.gone, f"of {known.samples} recorded samples are gone"),
                (compared.missing, "values with a recorded checksum are gone"),
                (
                    compared.empties,
                    "sequences are recorded as empty and are missing now, or the other way round",
                ),
                (differing, "values differ from their recorded checksum"),
                (compared.added, "samples are new"),
            ]
            what = ", ".join(f"{number} {text}" for number, text in counts if number)
            add("replaced", f"the file was replaced after it was indexed: {what}; {_FORCE}")
        elif compared.added:
            were = "was" if compared.added == 1 else "were"
            samples = count(compared.added, "sample")
            add("appended", f"{samples} {were} added after the file was indexed: {_ACCEPT}")
        elif not differing and not self.found.problems:
            if not known.has_checksums:
                add(
                    "stale",
                    "the file changed after it was indexed, and no checksums were compared",
                )
            elif any(entry.crc32 is not None for entry in known.files):
                add(
                    "stale",
                    "the file was written again with the values "
                    "that the index has: `bushel index` notes it",
                )
        if compared.equal or not differing:
            self._report_values(shard, compared)


def _unchecked(index: ShardIndex) -> ShardIndex:
    """Return a table without its checksums."""
    fields = {name: replace(column, crc32=None) for name, column in index.fields.items()}
    return replace(index, fields=fields)


def _undecodable(decode: Callable[[Any], object], stored: Any) -> Iterator[str]:
    """Yield the error of a value, or of each element of a sequence, that cannot be decoded."""
    if isinstance(stored, list):
        for number, element in enumerate(stored):
            yield from (f"element {number}: {error}" for error in _undecodable(decode, element))
        return
    try:
        decode(stored)
    except CodecError as error:
        yield str(error)


def within_files(
    known: ShardIndex, shard: Shard, stamps: tuple[FileStamp, ...], found: Findings
) -> ShardIndex | None:
    """Return a recorded table for files whose own structure is damaged, without the values that no longer are in them.

    Returns:
        None if the shard has other files than the table.
    """
    names = [[entry.name.rpartition("/")[2] for entry in files] for files in (known.files, stamps)]
    if names[0] != names[1] or not known.has_checksums:
        return None
    columns, lost = {}, Counter[str]()
    for name, column in known.fields.items():
        columns[name] = column
        outside = column.present & (
            column.offset + column.length > _room(known, column.file, stamps)
        )
        if outside.any():
            place = known.place(column.file, int(column.offset[outside][0]))
            lost[shard.locate(place)[0]] += int(outside.sum())
            columns[name] = replace(column, length=np.where(outside, MISSING, column.length))
    for file, number in lost.items():
        found.add_file(file, "format", f"it lacks {count(number, 'recorded value')}")
    return replace(known, files=stamps, fields=columns)


def _room(known: ShardIndex, file: int, stamps: tuple[FileStamp, ...]) -> int:
    """Return how many bytes of a file or block file are still there: up to the first block that is cut off."""
    blocks = known.blocks_of(file)
    if blocks is None:
        return stamps[file].size
    # the last stands for the table
    sizes = np.append(sizes_of(stamps), np.iinfo(np.int64).max)
    left = sizes[blocks.file] - blocks.offset
    cut = np.flatnonzero(left < blocks.length)
    if not len(cut):
        return blocks.size
    first = int(cut[0])
    return int(blocks.start[first]) + (
        max(int(left[first]), 0) if bool(blocks.is_stored(cut[:1])[0]) else 0
    )
