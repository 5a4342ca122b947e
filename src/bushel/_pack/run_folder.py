"""The files of a run in parts: its plan, the record of every part, and where attempts are written.

They are in `TARGET/.bushel/run`, or in `.bushel/NAME.run` beside a target that is one file.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bushel._dataset.open.folders import run_folder
from bushel._index.sidecar import ManifestShard
from bushel._index.table import Shard
from bushel._pack.run_plan import RunPlan, decode_plan
from bushel._runtime.public import public
from bushel._runtime.structs import Struct
from bushel.containers import container_by_suffix
from bushel.errors import FormatError
from bushel.storage import (
    AnyPath,
    as_path,
    create_whole,
    read_text,
    read_whole,
    remove,
    walk_names,
    write_whole,
)
from bushel.storage.names import below, inside


class RecordedShard(msgspec.Struct, frozen=True):
    """A shard of a part."""

    entry: ManifestShard  # its entry in the manifest of the part
    sidecars: str  # the folder of its index, relative to the part
    stamps: list[int | None]  # the stamp of each file, a CRC-32 of some of its blocks

    def below(self, root: AnyPath) -> Shard:
        """Return the files of the shard, given the folder of the part."""
        return Shard(
            root, self.entry.name, tuple(name for name, _, _ in self.entry.files), self.sidecars
        )


class Record(msgspec.Struct, frozen=True):
    """The record of a part. The first attempt that creates it has won, and its files become the part."""

    part: int  # number of the part
    attempt: str  # name of the attempt
    samples: int
    bytes: int  # stored bytes of the fields
    shards: list[RecordedShard]
    spec: dict[str, str]  # field to type
    codecs: dict[str, str]  # field to the codec of the stored bytes
    labels: dict[str, list[str]]  # field to the names of its classes
    errors: list[str]  # items that could not be packed: lines of the error log, as JSON in ASCII
    limits: list[str]  # properties of the samples that the container does not keep, in words


class RunResult(msgspec.Struct, frozen=True):
    """The totals of a finished run, as `result.json` keeps them."""

    samples: int
    bytes: int  # stored bytes of the fields
    errors: int  # number of items that could not be packed
    limits: list[str]  # properties of the samples that the container does not keep, in words


# made at import: msgspec 0.22 prepares a Struct when it is first decoded, and crashes if two
# threads do that at once
_RECORD = msgspec.json.Decoder(Record)
_RESULT = msgspec.json.Decoder(RunResult)

_ATTEMPT = re.compile(r"([0-9]{5,18})-[0-9a-f]{12}", re.ASCII)
_NUMBERED = re.compile(r"[0-9]{5,18}\.json", re.ASCII)
_ERRORS = re.compile(r"([0-9]{5,18})-([0-9]{1,18})", re.ASCII)
_HINT = "it is damaged or forged: write to another path, or start again with mode='overwrite'"


def _check(record: Record, number: int, path: AnyPath) -> None:
    """Check what a record names. Its attempt is a folder that is moved and removed.

    Raises:
        FormatError: It is the record of another part, or a name in it leads out of its folder.
    """
    attempt = _ATTEMPT.fullmatch(record.attempt)
    if record.part != number or attempt is None or int(attempt[1]) != number:
        found = f"part {record.part} by the attempt {record.attempt!r}"
        raise FormatError(
            f"expected the record of part {number}, found one of {found}",
            file=str(path),
            hint=_HINT,
        )
    for shard in record.shards:
        for name in (
            shard.entry.name or "x",
            shard.sidecars,
            *(name for name, _, _ in shard.entry.files),
        ):
            try:
                below(path.parent, name)
            except FormatError as error:
                raise FormatError(
                    f"not the record of a part: {error.message}", file=str(path), hint=_HINT
                ) from None


@public("bushel.runs")
def part_path(target: AnyPath, number: int, suffix: str) -> AnyPath:
    """Return the path of a part.

    Args:
        target: The `target` of `pack`.
        number: Number of the part, from 0.
        suffix: Suffix of the container's files; empty if a dataset is always a folder.

    Examples:
        >>> str(bushel.runs.part_path(Path("train.tar"), 3, ".tar"))
        'train-part-00003.tar'
    """
    if suffix and target.name.endswith(suffix):
        return target.parent / f"{target.name.removesuffix(suffix)}-part-{number:05d}{suffix}"
    return target / f"part-{number:05d}"


def find_run(target: object) -> tuple[RunFolder, RunPlan]:
    """Return the files and the plan of the run at a target.

    Raises:
        FileNotFoundError: The target has no run.
        FormatError: The plan is damaged.
    """
    path = as_path(target)
    container = container_by_suffix(path.name)
    run = RunFolder(path, "" if container is None else container.suffix)
    plan = run.load_plan()
    if plan is None:
        raise FileNotFoundError(
            f"{target} has no plan of a run in parts: `bushel pack ... --parts` writes one"
        )
    return run, plan


def planned_listing(target: object) -> list[str] | None:
    """Return the listing of the source that the plan of a target holds; None without a plan or a listing.

    Raises:
        FormatError: The plan or the listing is damaged.
    """
    try:
        run, plan = find_run(target)
    except FileNotFoundError:
        return None
    return run.load_listing(plan)


class RunFolder(Struct, frozen=True):
    """The files of a run."""

    target: AnyPath  # the target of the run
    suffix: str  # suffix of the container's files if each part is one file

    @property
    def single(self) -> bool:
        """Whether each part is one file."""
        return bool(self.suffix) and self.target.name.endswith(self.suffix)

    @property
    def root(self) -> AnyPath:
        """The folder that contains the parts."""
        return self.target.parent if self.single else self.target

    @property
    def folder(self) -> AnyPath:
        """The folder of the files of the run."""
        return run_folder(self.target, single=self.single)

    @property
    def attempts(self) -> AnyPath:
        """The folder in which attempts write."""
        return self.folder / "attempts"

    def part(self, number: int) -> AnyPath:
        """Return the final path of a part."""
        return part_path(self.target, number, self.suffix)

    # The plan

    def load_plan(self) -> RunPlan | None:
        """Return the plan, or None without a run. Raise FormatError if it is damaged."""
        path = self.folder / "plan.json"
        try:
            return decode_plan(read_whole(path), str(path))
        except FileNotFoundError:
            return None

    def create_plan(self, plan: RunPlan) -> RunPlan:
        """Write the plan, unless there is one. Return the plan of the run."""
        create_whole(self.folder / "plan.json", plan.encode())
        return self.load_plan() or plan

    def save_listing(self, names: Sequence[str]) -> int:
        """Store the listing of the source, before the plan. Return its CRC-32."""
        data = "\0".join(names).encode("utf-8", "surrogateescape")
        write_whole(self.folder / f"listing-{zlib.crc32(data):08x}", data)
        return zlib.crc32(data)

    def load_listing(self, plan: RunPlan) -> list[str] | None:
        """Return the listing of the source, or None if it has none. Raise FormatError if it is damaged."""
        if plan.listing is None:
            return None
        path = self.folder / f"listing-{plan.listing:08x}"
        data = read_whole(path)
        if zlib.crc32(data) != plan.listing:
            raise FormatError(
                "the listing of the source is damaged",
                file=str(path),
                hint="start the run elsewhere",
            )
        return data.decode("utf-8", "surrogateescape").split("\0") if data else []

    # The records of parts

    def committed(self) -> set[int]:
        """Return the numbers of the parts that have a record."""
        return self._numbers("parts")

    def missing(self, plan: RunPlan) -> list[int]:
        """Return the numbers of the parts that have no record, ascending."""
        committed = self.committed()
        return [number for number in range(plan.parts) if number not in committed]

    def commit(self, record: Record) -> bool:
        """Create the record of a part. Return False if another attempt has created it."""
        return create_whole(self._record(record.part), msgspec.json.encode(record))

    def commit_lost(self, record: Record) -> None:
        """Put the record of a part whose files were lost, and are staged now, in the place of the one that is there."""
        write_whole(self._record(record.part), msgspec.json.encode(record))

    def load_record(self, number: int) -> Record | None:
        """Return the record of a part, or None if no attempt has won yet.

        Raises:
            FormatError: It is damaged.
        """
        path = self._record(number)
        try:
            record = _RECORD.decode(read_whole(path))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not the record of a part: {error}", file=str(path)) from error
        _check(record, number, path)
        return record

    def forget(self, number: int) -> None:
        """Remove the record of a part, so that the part is written again."""
        for name in [name for name in self._names("errors") if name.startswith(f"{number:05d}-")]:
            remove(inside(self.folder, f"errors/{name}"))
        remove(self._record(number))

    def _record(self, number: int) -> AnyPath:
        return self.folder / "parts" / f"{number:05d}.json"

    # Failures

    def note_failure(self) -> None:
        """Note that the run cannot go on: another one may take its place, or with `overwrite` the same one."""
        write_whole(self.folder / "failed", b"")

    def has_failed(self) -> bool:
        """Return whether that was noted."""
        return (self.folder / "failed").exists()

    def note_errors(self, record: Record) -> None:
        """Make the number of errors of a part known to the parts that follow."""
        if record.errors:
            write_whole(
                self.folder / "errors" / f"{record.part:05d}-{len(record.errors)}", b"", sync=False
            )

    def errors(self) -> dict[int, int]:
        """Return the numbers of errors of the parts that have any."""
        found: dict[int, int] = {}
        for name in self._names("errors"):
            if (match := _ERRORS.fullmatch(name)) is not None:
                number, count = map(int, match.groups())
                found[number] = max(found.get(number, 0), count)  # more, if it was written again
        return found

    # The end of the run

    def load_result(self) -> RunResult | None:
        """Return the totals of the run, or None if it has not finished."""
        path = self.folder / "result.json"
        try:
            return _RESULT.decode(read_whole(path))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not the result of a run: {error}", file=str(path)) from error

    def save_result(self, result: RunResult) -> None:
        """Note that the run has finished."""
        write_whole(self.folder / "result.json", msgspec.json.encode(result))

    def forget_result(self) -> None:
        """Note that the run has to be finished again, since a part was lost."""
        remove(self.folder / "result.json")

    def save_status(self, status: dict[str, Any]) -> None:
        """Write `status.json`, for others who look at the run."""
        write_whole(self.folder / "status.json", msgspec.json.encode(status), sync=False)

    def load_status(self) -> dict[str, Any]:
        """Return `status.json`; empty if it is missing or damaged."""
        try:
            status = msgspec.json.decode(read_text(self.folder / "status.json"))
        except (OSError, ValueError):
            return {}
        return status if isinstance(status, dict) else {}

    def _numbers(self, kind: str) -> set[int]:
        """Return the numbers of the parts that have a file in a folder of the run."""
        return {
            int(name.removesuffix(".json"))
            for name in self._names(kind)
            if _NUMBERED.fullmatch(name)
        }

    def _names(self, kind: str) -> Iterator[str]:
        """Yield the names of the files in a folder of the run."""
        folder = self.folder / kind
        names: Iterable[str]
        if isinstance(folder, Path):
            try:
                names = os.listdir(folder)
            except FileNotFoundError:
                names = ()
        else:
            names = walk_names(folder)
        yield from (name for name in names if name[:1].isdigit())
