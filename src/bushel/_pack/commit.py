"""Write a part, commit it, and give its files their final names.

An attempt writes in a folder of its own. When its files are complete, it creates the record of the
part, if no other attempt has: that is the commit. The files of the attempt that the record names
then get their final names. Anyone who finds the record can do that, so nothing is lost by a kill in
between. Other attempts remove what they wrote.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bushel._dataset.open.discovery import find
from bushel._dataset.open.locking import lock_run
from bushel._dataset.open.tables import stamps_of
from bushel._dataset.read.listed import write_manifest
from bushel._dataset.read.shards import OpenShard
from bushel._index.saving import save_index
from bushel._index.sidecar import FOLDER, ManifestShard, load_index
from bushel._pack.lost_parts import is_lost
from bushel._pack.part import ErrorLimit
from bushel._pack.run_folder import Record, RecordedShard, RunFolder
from bushel._pack.side_files import ErrorList, error_lines, error_log_path
from bushel._runtime.structs import Struct
from bushel.errors import FormatError, InUseError, StateError, TooManyErrors, noted_in
from bushel.storage import (
    AnyPath,
    make_folder,
    move_object,
    remove,
    sync_folder,
    walk_names,
    workplace,
    write_whole,
)
from bushel.storage.lock import Lock
from bushel.storage.names import below, inside, refuse_link, remove_tree

_LOOK_SECONDS = 0.05

OnPart = Callable[[int, int, int, int], None]
"""Called with the numbers of items, samples, errors and bytes of a part that is being written."""


class Written(Struct, frozen=True):
    """The result of writing a part."""

    bytes: int  # stored bytes of the fields
    # properties of the samples that the container does not keep, in words
    limits: tuple[str, ...] = ()


WritePart = Callable[[int, AnyPath, ErrorLimit, ErrorList, OnPart | None], Written]
"""Writes a part: see `PackJob.write`. It can be pickled."""


class PartReport(Struct, frozen=True):
    """The result of a task."""

    samples: int
    bytes: int  # stored bytes of the fields
    errors: int  # number of items that could not be packed
    won: bool  # whether this call has committed the part
    seconds: float  # time taken


class PartTask(Struct, frozen=True):
    """Writes and commits the part with a number."""

    run: RunFolder  # the files of the run
    write: WritePart
    starts: tuple[int, ...]  # index of the first item of each part, for messages
    limit: ErrorLimit  # the treatment of errors in the whole run
    fingerprint: str  # fingerprint of the run

    def __call__(self, number: int, progress: OnPart | None = None) -> PartReport:
        """Write and commit a part, unless it is committed already.

        Raises:
            TooManyErrors: More items failed than are allowed in the whole run.
            InUseError: Another writer is open for the target.
        """
        with lock_run(self.run.target, single=self.run.single, run=self.fingerprint):
            return self._write_and_commit(number, progress)

    def _write_and_commit(self, number: int, progress: OnPart | None) -> PartReport:
        started = time.monotonic()
        record = self.run.load_record(number)
        lost = record is not None and is_lost(self.run, record)
        if record is not None and not lost:
            return self._report(record, started, won=False)
        name = f"{number:05d}-{os.urandom(6).hex()}"
        place = self.run.attempts / name
        try:
            record = self._write(number, name, progress)
        except BaseException as error:
            with noted_in(error):
                remove_attempt(place, self.run.part(number).name)
            # who has finished the run meanwhile has removed the files of this attempt
            other = (
                self.run.load_record(number) if isinstance(error, Exception) and not lost else None
            )
            if other is None:
                raise
            return self._report(other, started, won=False)
        if lost:
            self.run.forget_result()
            self.run.commit_lost(record)
            return self._report(record, started, won=True)
        # if the answer is lost, the attempt stays for the one who finishes the run
        won = self.run.commit(record)
        if not won:
            remove_attempt(place, self.run.part(number).name)
            record = self.run.load_record(number) or record
        return self._report(record, started, won=won)

    def _write(self, number: int, attempt: str, progress: OnPart | None) -> Record:
        target = self.run.attempts / attempt / self.run.part(number).name
        log = ErrorList(error_log_path(self.run.target))
        limit = replace(self.limit, errors=self._other_errors(number), items=self._other_items)
        try:
            written = self.write(number, target, limit, log, progress)
            self._check_errors(number, len(log.lines))
        except TooManyErrors:
            publish_errors(self.run, log.lines)
            raise
        return _record(number, attempt, target, written, log.lines)

    def _check_errors(self, number: int, own: int) -> None:
        """Check the errors of all parts again, as others have been committed while this one was written."""
        allowed = self.limit.allowed
        if allowed is None or not own or (count := own + self._other_errors(number)) <= allowed:
            return
        raise TooManyErrors(
            f"{count} items cannot be packed, but max_errors allows {allowed}. Those so far are"
            " listed in "
            f"{error_log_path(self.run.target)}; finished parts are kept, and the same call with"
            " a larger max_errors "
            "continues",
            errors=count,
        )

    def _other_errors(self, number: int) -> int:
        return sum(count for part, count in self.run.errors().items() if part != number)

    def _other_items(self) -> int:
        return sum(self.starts[number + 1] - self.starts[number] for number in self.run.committed())

    def _report(self, record: Record, started: float, *, won: bool) -> PartReport:
        publish(self.run, record)
        seconds = time.monotonic() - started
        return PartReport(record.samples, record.bytes, len(record.errors), won, seconds)


def publish_errors(run: RunFolder, more: Sequence[str] = ()) -> None:
    """Write the error log of a run that has not finished: the errors of the parts so far, and more lines."""
    records = filter(None, (run.load_record(part) for part in sorted(run.errors())))
    lines = [*(line for record in records for line in record.errors), *more]
    write_whole(error_log_path(run.target), error_lines(map(json.loads, lines)))


def _record(
    number: int, attempt: str, target: AnyPath, written: Written, errors: list[str]
) -> Record:
    found = find([target])
    shards: list[RecordedShard] = []
    spec: dict[str, str] = {}
    codecs: dict[str, str] = {}
    labels: dict[str, list[str]] = {}
    for shard in found.shards:
        index = load_index(shard.sidecar)
        entry = ManifestShard.of(shard.name, index)
        shards.append(RecordedShard(entry, shard.sidecars, [stamp.crc32 for stamp in index.files]))
        spec.update({name: column.field.type for name, column in index.fields.items()})
        codecs.update({name: column.codec for name, column in index.fields.items()})
        labels.update({name: list(each) for name, each in index.labels.items()})
    samples = sum(each.entry.samples for each in shards)
    limits = list(written.limits)
    return Record(
        number, attempt, samples, written.bytes, shards, spec, codecs, labels, errors, limits
    )


# Files


def publish(run: RunFolder, record: Record) -> None:
    """Give the files of a committed part their final names. May be repeated, and called by several at the same time.

    Raises:
        StateError: The files are neither there nor among the attempts.
    """
    run.note_errors(record)
    place, final = inside(run.attempts, record.attempt), run.part(record.part)
    if isinstance(place, Path) and isinstance(final, Path):
        _publish_local(place, final)
    else:
        _publish_objects(run, place, final, record)
    for shard in record.shards:
        for file, _, _ in shard.entry.files:
            path = below(final.parent if run.single else final, file)
            if not path.exists():
                raise StateError(
                    f"part {record.part} of {run.target} was committed, but {path} is missing."
                    " Run the same "
                    "`bushel pack` or `bushel convert` again, which writes this part again"
                )


def _publish_local(place: Path, final: Path) -> None:
    """Rename the folder of a part, or each of the files that belong to one file: its index first, and itself last."""
    staged, unfinished = place / final.name, place.exists()
    refuse_link(staged)
    if staged.is_dir():
        left = staged / FOLDER / "staging"
        if left.exists():  # what the writer could not remove at the end
            remove_tree(left)
            sync_folder(left.parent)
        if final.exists():
            _replace(place, final)
        else:
            with suppress(FileNotFoundError):  # another process has renamed it
                os.rename(staged, final)
    elif staged.exists():
        files = [path for path in place.rglob("*") if path.is_file()]
        for path in sorted(files, key=lambda path: (FOLDER not in path.parts, path == staged)):
            target = inside(final.parent, path.relative_to(place).as_posix(), any_text=True)
            make_folder(target.parent)
            with suppress(FileNotFoundError):
                os.replace(path, target)
                sync_folder(target.parent)
    if unfinished:  # also if another process has renamed the files, which may not have got further
        sync_folder(final.parent)
    remove_attempt(place, final.name)


def _replace(place: Path, final: Path) -> None:
    """Replace the part of an earlier run by this one. Only one process does it, and others wait for that."""
    staged = place / final.name
    while staged.exists():
        try:
            lock = Lock([(place / "writer", False)], final)
        except InUseError:
            time.sleep(_LOOK_SECONDS)
            continue
        if staged.exists():  # no other process was faster
            # a kill after this leaves a missing part, which the next process publishes
            if final.exists():
                final.rename(place / "old")
            staged.rename(final)
        lock.release()


def _publish_objects(run: RunFolder, place: AnyPath, final: AnyPath, record: Record) -> None:
    """Move the objects of a part. Their stamps change with that, so the indexes are written for the new ones.

    Raises:
        FormatError: A staged index does not belong to a shard of the run.
    """
    names = sorted(walk_names(place), key=lambda name: f"{FOLDER}/" in name)
    if not names:
        return
    root, old = (final.parent, place) if run.single else (final, place / final.name)
    plan = run.load_plan()
    wanted = None if plan is None else plan.container
    indexes = {shard.entry.name: _load_index(old, shard, wanted) for shard in record.shards}
    for name in names:
        if f"{FOLDER}/" not in name and not name.startswith(f"{FOLDER}/"):
            with suppress(FileNotFoundError):  # another process has moved it
                move_object(
                    below(place, name, any_text=True), below(final.parent, name, any_text=True)
                )
    opened = []
    for recorded in record.shards:
        shard, index = recorded.below(root), indexes[recorded.entry.name]
        if index is not None:
            stamps = tuple(
                replace(new, crc32=stamp.crc32)
                for new, stamp in zip(stamps_of(shard), index.files, strict=True)
            )
            index = replace(index, files=stamps)
            save_index(index, shard.sidecar)
            opened.append(OpenShard.of(index.container, shard, index, stored=True))
    if opened and root == final and len(opened) == len(record.shards):
        write_manifest(opened)
    remove_attempt(place, final.name)


def _load_index(root: AnyPath, recorded: RecordedShard, container: str | None) -> Any:
    path = recorded.below(root).sidecar
    try:
        index = load_index(path)
    except FileNotFoundError:  # another process has published it
        return None
    files = [entry.name for entry in index.files]
    if (container or index.container) != index.container or files != [
        name for name, _, _ in recorded.entry.files
    ]:
        message = (
            f"this index belongs to {', '.join(files)} as {index.container!r}, not to"
            f" {recorded.entry.name!r}"
        )
        raise FormatError(
            message,
            file=str(path),
            hint="start the run elsewhere, or again with mode='overwrite'",
        )
    return index


def remove_attempt(place: AnyPath, name: str) -> None:
    """Remove what an attempt has written, on this machine and in the store."""
    if isinstance(place, Path):
        remove_tree(place)
        return
    for staged in filter(None, (workplace(place), workplace(place / name))):
        remove_tree(staged)
    for file in list(walk_names(place)):
        remove(below(place, file, any_text=True))
