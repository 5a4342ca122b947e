"""The files of a run in parts: its plan, its parts, and its result.

The plan and the result are in `TARGET/.bushel/run`, or in `.bushel/NAME.run` beside a target that
is one file. A part is written when its manifest is complete and names the plan, and the files that
it lists are there.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from operator import methodcaller
from pathlib import Path

import msgspec
from msgspec import Struct

from bushel._dataset.open.completeness import marker_path
from bushel._dataset.open.folders import place_of, run_folder, shard_of_entry
from bushel._index.headers import PartOfRun
from bushel._index.manifest import find_manifest
from bushel._index.shard import Shard
from bushel._index.sidecar import Manifest
from bushel._runtime.parallel import parallel_map
from bushel._runtime.public import public
from bushel.containers import container_by_suffix
from bushel.errors import FormatError
from bushel.storage import (
    AnyPath,
    as_path,
    create_whole,
    read_whole,
    remove,
    walk_names,
    write_whole,
)
from bushel.storage.names import below

from .run_plan import RunPlan, decode_plan


def note_in(manifest: Manifest) -> PartOfRun:
    """Return the note of the run that has written a part; an empty one if no run has written the dataset."""
    return manifest.part or PartOfRun("", 0, [], [])


class Totals(msgspec.Struct, frozen=True):
    """The totals of a part, or of a finished run, as `result.json` keeps them."""

    samples: int
    bytes: int  # stored bytes of the fields
    errors: int  # number of items that could not be packed
    limits: list[str]  # properties of the samples that the container does not keep, in words

    @classmethod
    def of(cls, manifest: Manifest) -> Totals:
        """Return the totals of the part with a manifest."""
        part = note_in(manifest)
        samples = sum(entry.samples for entry in manifest.shards)
        return cls(samples, part.bytes, len(part.errors), part.limits)


# made at import: msgspec 0.22 prepares a Struct when it is first decoded, and crashes if two
# threads do that at once
_RESULT = msgspec.json.Decoder(Totals)
_THREADS = 32


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
        """Write the plan with an id of its own, unless there is one. Return the plan of the run."""
        plan = msgspec.structs.replace(plan, id=os.urandom(8).hex())
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
                "the listing of the source is damaged", path, hint="start the run elsewhere"
            )
        return list(filter(None, data.decode("utf-8", "surrogateescape").split("\0")))

    # The parts

    def load_part(
        self,
        number: int,
        plan: RunPlan,
        is_there: Callable[[AnyPath], bool] = methodcaller("exists"),
    ) -> Manifest | None:
        """Return the manifest of a part; None if the run has not written it, or its files are gone.

        `is_there` returns whether a file exists.

        Raises:
            OSError: A store refuses, or cannot be reached.
        """
        path = self._marker(number)
        if not is_there(path):
            return None
        manifest = find_manifest(path)
        if manifest is None or not manifest.complete or note_in(manifest).run != plan.id:
            return None
        files = (
            path
            for shard in self.shards(number, manifest)
            for path in (*shard.paths, shard.sidecar)
        )
        if all(map(is_there, files)):
            return manifest
        return None

    def _marker(self, number: int) -> AnyPath:
        return marker_path(*place_of(self.part(number), single=self.single))

    def shards(self, number: int, manifest: Manifest) -> list[Shard]:
        """Return the shards of a part."""
        root = self.root if self.single else self.part(number)
        return [shard_of_entry(root, entry.name, entry) for entry in manifest.shards]

    def written(self, plan: RunPlan) -> dict[int, Totals]:
        """Return the totals of the parts that are written, by their numbers, ascending.

        Raises:
            OSError: A store refuses, or cannot be reached.
        """
        is_there: Callable[[AnyPath], bool] = methodcaller("exists")
        if not (isinstance(self.root, Path) or self.single):  # which takes fewer requests
            names = walk_names(self.target)
            is_there = {below(self.target, name, any_text=True) for name in names}.__contains__

        def look(number: int) -> Totals | None:
            manifest = self.load_part(number, plan, is_there)
            return None if manifest is None else Totals.of(manifest)

        numbers = range(plan.parts)
        limit = 2 * _THREADS
        looked = parallel_map(look, numbers, threads=_THREADS, limit=limit, name="bushel-parts")
        pairs = zip(numbers, looked, strict=True)
        return {number: totals for number, totals in pairs if totals is not None}

    def missing(self, plan: RunPlan) -> list[int]:
        """Return the numbers of the parts that must be written, ascending."""
        written = self.written(plan)
        return [number for number in range(plan.parts) if number not in written]

    def forget(self, number: int) -> None:
        """Remove the manifest of a part, so that the part is written again."""
        remove(self._marker(number))

    # Failures

    def note_failure(self) -> None:
        """Note that the run cannot go on: another one may take its place, or with `overwrite` the same one."""
        write_whole(self.folder / "failed", b"")

    def has_failed(self) -> bool:
        """Return whether that was noted."""
        return (self.folder / "failed").exists()

    # The end of the run

    def load_result(self) -> Totals | None:
        """Return the totals of the run, or None if it has not finished."""
        path = self.folder / "result.json"
        try:
            return _RESULT.decode(read_whole(path))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not the result of a run: {error}", path) from error

    def save_result(self, result: Totals) -> None:
        """Note that the run has finished."""
        write_whole(self.folder / "result.json", msgspec.json.encode(result))

    def forget_result(self) -> None:
        """Note that the run has to be finished again, since a part is written again."""
        remove(self.folder / "result.json")
