"""A run in parts: its plan, which has the contents of every part and the call that made it, and its files.

The plan and the result are in `TARGET/.bushel/run`, or in `.bushel/NAME.run` beside a target that
is one file. A part is written when its manifest is complete and names the plan, and the files that
it lists are there.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from operator import methodcaller
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.open.completeness import marker_path, place_of, run_folder, shard_of_entry
from bushel._index.headers import PartOfRun
from bushel._index.shard import Shard
from bushel._index.sidecar import Manifest, find_manifest
from bushel._runtime.parallel import parallel_map
from bushel._runtime.public import public
from bushel.containers import container_by_suffix
from bushel.errors import FormatError, StateError
from bushel.storage import (
    AnyPath,
    as_path,
    below,
    create_whole,
    read_whole,
    remove,
    walk_names,
    write_whole,
)

_VERSION = 1
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SHOWN = 80
_exists: Callable[[AnyPath], bool] = methodcaller("exists")


class RunPlan(Struct, frozen=True):
    """The plan of a run, as `plan.json` keeps it."""

    kind: str  # `pack`
    container: str  # name of the container of the target
    samples: int  # number of items of the source
    # index of the first item of each part in the order of the run, followed by `samples`
    starts: list[int]
    # the inputs that decide the bytes of the parts: fingerprint of the source, spec, transforms and
    # options
    arguments: dict[str, Any]
    # CRC-32 of the listing of the source that is beside the plan; None if the source is not a
    # folder
    listing: int | None = None
    version: int = _VERSION  # version of this layout
    id: str = ""  # a random name of the run, which the manifests of its parts have

    @property
    def parts(self) -> int:
        """Number of parts."""
        return len(self.starts) - 1

    def items(self, number: int) -> int:
        """Return the number of items of a part."""
        return self.starts[number + 1] - self.starts[number]

    def encode(self) -> bytes:
        """Return the content of `plan.json`."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"

    @property
    def fingerprint(self) -> str:
        """A name of the call, the same in all processes that take part, for their locks."""
        import hashlib  # which imports OpenSSL

        return hashlib.sha256(self.of_call().encode()).hexdigest()[:16]

    def of_call(self) -> RunPlan:
        """Return the plan without its id and its listing: equal calls have equal ones."""
        return replace(self, listing=None, id="")


def part_starts(samples: int, parts: int) -> list[int]:
    """Return the index of the first item of each part, followed by the number of samples. Sizes differ by one."""
    return [samples * number // parts for number in range(parts + 1)]


def refuse_difference(known: RunPlan, wanted: RunPlan, target: str) -> None:
    """Raise `StateError` for the first difference between the plan of a target and the plan of a call."""
    before, now = _flat(known), _flat(wanted)
    for name in dict.fromkeys((*now, *before)):
        if before.get(name) != now.get(name):
            raise StateError(
                f"{target} has the plan of another run, with {name}={_shown(before.get(name))}; "
                f"this call has {name}={_shown(now.get(name))}. Call it with the same "
                "arguments, write to another path, or start again with mode='overwrite'"
            )


def _flat(plan: RunPlan) -> dict[str, Any]:
    return {
        "kind": plan.kind,
        "parts": plan.parts,
        "container": plan.container,
        **plan.arguments,
        "samples": plan.samples,
    }


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) > _SHOWN:
        return f"{text[:_SHOWN]}…"
    return text


def describe(value: Any) -> Any:
    """Return a value as JSON that is the same in every process: of functions and objects, their names and parameters.

    Two calls with equal descriptions are taken to be the same call.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): describe(element) for name, element in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return list(map(describe, sorted(value) if isinstance(value, set | frozenset) else value))
    if isinstance(value, partial):
        return [describe(value.func), describe(value.args), describe(value.keywords)]
    if isinstance(value, MethodType):
        return [describe(value.__func__), describe(value.__self__)]
    if isinstance(value, FunctionType | BuiltinFunctionType | type):
        name = f"{value.__module__}.{value.__qualname__}"
        local = "<" in value.__qualname__ or value.__module__ == "__main__"
        if not (local and isinstance(value, FunctionType)):
            return name
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [
            f"{name} {_digest_of_code(value.__code__)}",
            describe(cells),
            describe(value.__defaults__),
        ]
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    names = getattr(value, "__struct_fields__", None)
    if names is None and is_dataclass(value):
        names = [member.name for member in fields(value)]
    if names is not None:
        return {"": kind, **{name: describe(getattr(value, name)) for name in names}}
    return f"{kind} {_ADDRESS.sub('', repr(value))}"


def _digest_of_code(code: CodeType) -> str:
    import hashlib

    digest = hashlib.sha256(code.co_code)
    for constant in code.co_consts:
        text = repr(constant)
        if isinstance(constant, CodeType):
            text = _digest_of_code(constant)
        digest.update(text.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def note_in(manifest: Manifest) -> PartOfRun:
    """Return the note of the run that has written a part; an empty one if no run has written the dataset."""
    return manifest.part or PartOfRun("", 0, [], [])


class Totals(Struct, frozen=True):
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
_RESULT, _PLAN = msgspec.json.Decoder(Totals), msgspec.json.Decoder(RunPlan)
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
            f"{target} does not exist, or has no plan of a run in parts: "
            "`bushel pack ... --parts` writes one"
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
        path, hint = self.folder / "plan.json", "start the run again elsewhere"
        try:
            plan = _PLAN.decode(read_whole(path))
        except (FileNotFoundError, NotADirectoryError):  # the target may be a file
            return None
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not the plan of a run: {error}", path, hint=hint) from error
        if plan.version != _VERSION:
            what = f"version {plan.version} of a plan; this Bushel knows {_VERSION}"
            raise FormatError(what, path)
        ascending = plan.starts == sorted(plan.starts)
        if [*plan.starts[:1], *plan.starts[-1:]] != [0, plan.samples] or not ascending:
            message = f"the parts of the plan do not divide its {plan.samples} items"
            raise FormatError(message, path, hint=hint)
        return plan

    def create_plan(self, plan: RunPlan) -> RunPlan:
        """Write the plan with an id of its own, unless there is one. Return the plan of the run."""
        plan = replace(plan, id=os.urandom(8).hex())
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
        is_there: Callable[[AnyPath], bool] = _exists,
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
        is_there = _exists
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
