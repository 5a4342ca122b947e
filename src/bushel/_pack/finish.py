"""Write the parts of a run, each a dataset like any other under a lock of its own, and join them.

A part is written once its manifest, which names the run, is in its place, as the last of its files.
Before that it is missing, and the next process writes it again. The finish compares the keys of the
parts, and joins their manifests to one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.open.completeness import marker_path, overwrite_folder, unfinished_shards
from bushel._dataset.open.locking import lock_of, lock_part, lock_run
from bushel._index.names import Labels, join_labels
from bushel._index.saving import save_manifest
from bushel._index.shard import FOLDER, Keys, repeated_hashes
from bushel._index.sidecar import Manifest, ManifestShard, load_index
from bushel._runtime.arrays import U64
from bushel._runtime.messages import log_warning
from bushel._runtime.parallel import parallel_map
from bushel._runtime.tasks import format_numbers
from bushel._writer.publishing import recover_target
from bushel.errors import InUseError, StateError, TooManyErrors
from bushel.spec import parse_spec
from bushel.storage import (
    AnyPath,
    Lock,
    below,
    list_names,
    recover,
    remove,
    walk_names,
    write_whole,
)

from .part import ErrorLimit
from .run_folder import RunFolder, RunPlan, Totals, note_in
from .side_files import ErrorList, error_lines, error_log_path

_LOOK_SECONDS = 0.2

OnPart = Callable[[int, int, int, int], None]
"""Called with the numbers of items, samples, errors and bytes of a part that is being written."""

WritePart = Callable[[int, Lock, ErrorLimit, ErrorList, OnPart | None], Totals]
"""Writes a part, whose lock it gets: see `PackJob.write`. It can be pickled."""


class PartReport(Struct, frozen=True):
    """The result of a task."""

    totals: Totals
    is_new: bool  # whether this call has written the part


class PartTask(Struct, frozen=True):
    """Writes the part with a number."""

    run: RunFolder  # the files of the run
    plan: RunPlan  # the plan that is there
    write: WritePart
    limit: ErrorLimit  # the treatment of errors, with the number in parts that are written

    def __call__(self, number: int, progress: OnPart | None = None) -> PartReport:
        """Write a part, unless it is written already. Wait for another process that writes it.

        Raises:
            TooManyErrors: More items failed than are allowed in the whole run.
            InUseError: Another writer is open for the target.
        """
        run = self.run
        path = run.part(number)
        with (
            lock_run(run.target, single=run.single, run=self.plan.fingerprint),
            _patient_lock(path) as lock,
        ):
            if isinstance(path, Path):
                recover_target(path)
            manifest = run.load_part(number, self.plan)
            if manifest is not None:
                return PartReport(Totals.of(manifest), is_new=False)
            run.forget_result()
            if not (isinstance(path, Path) or run.single):
                # a part that is not written whole
                remove_all(path, first=f"{FOLDER}/manifest.json")
            log = ErrorList(error_log_path(run.target))
            try:
                totals = self.write(number, lock, self.limit, log, progress)
            except TooManyErrors:
                publish_errors(run, self.plan, log.lines)
                raise
        return PartReport(totals, is_new=True)

    def after(self, number: int, report: PartReport) -> PartTask:
        """Return the task for the parts that are written after one, whose errors count."""
        errors = self.limit.errors + report.totals.errors
        items = self.limit.items + self.plan.items(number)
        return replace(self, limit=replace(self.limit, errors=errors, items=items))


def remove_all(folder: AnyPath, *, first: str) -> None:
    """Remove the objects in a folder of a store. The `first` one says that the others are whole."""
    for name in sorted(walk_names(folder), key=lambda name: name != first):
        remove(below(folder, name, any_text=True))


def _patient_lock(path: AnyPath) -> Lock:
    """Lock a part, once no other process has it."""
    try:
        return lock_part(path)
    except InUseError as error:
        log_warning("waiting for the process that writes this part: %s", error)
    while True:
        time.sleep(_LOOK_SECONDS)
        with suppress(InUseError):
            return lock_part(path)


def publish_errors(run: RunFolder, plan: RunPlan, more: Sequence[str] = ()) -> None:
    """Write the error log of a run that has not finished: the errors of the parts so far, and more lines."""
    lines: list[str] = []
    for number in range(plan.parts):
        manifest = run.load_part(number, plan)
        if manifest is not None:
            lines += note_in(manifest).errors
    _write_errors(run, [*lines, *more])


def _write_errors(run: RunFolder, lines: Sequence[str]) -> None:
    write_whole(error_log_path(run.target), error_lines(map(json.loads, lines)))


def check_errors(run: RunFolder, plan: RunPlan, errors: int, allowed: int | None) -> None:
    """Raise TooManyErrors, and write the error log, if the parts have more errors than are allowed together."""
    if allowed is None or errors <= allowed:
        return
    publish_errors(run, plan)
    raise TooManyErrors(
        f"{errors} items of {run.target} cannot be packed, but max_errors allows "
        f"{allowed}. They are listed in {error_log_path(run.target)}; finished "
        "parts are kept, and the same call with a larger max_errors continues",
        errors=errors,
    )


_THREADS = 8
_SHOWN = 5


def finish_run(run: RunFolder, plan: RunPlan, *, allowed: int | None = None) -> Totals:
    """Join the parts of a run: write the manifest and the error log.

    May be repeated, and called by several processes at the same time, with the same result. At most
    `allowed` items may fail in the whole run.

    Raises:
        InUseError: Another writer is open for the target.
        StateError: Parts are missing, or have keys that earlier parts have. Then nothing is joined.
        TooManyErrors: More items failed than are allowed.
    """
    result = run.load_result()
    if result is not None and not run.missing(plan):
        return result
    with lock_run(run.target, single=run.single, run=plan.fingerprint):
        return _finish(run, plan, allowed)


def _finish(run: RunFolder, plan: RunPlan, allowed: int | None) -> Totals:
    _complete_parts(run, plan)
    manifests: dict[str, Manifest] = {}  # by the names of the parts
    missing: list[int] = []

    def read(number: int) -> tuple[Manifest | None, list[U64]]:
        manifest = run.load_part(number, plan)
        if manifest is None:
            return None, []
        # copies, so that no table stays in memory
        return manifest, [np.array(keys.hashes) for keys in _keys_of(run, number, manifest)]

    hashes: list[U64] = []
    parts = parallel_map(read, range(plan.parts), threads=_threads(run), name="bushel-finish")
    for number, (manifest, hashes_of_part) in enumerate(parts):
        if manifest is None:
            missing.append(number)
            continue
        manifests[run.part(number).name] = manifest
        hashes += hashes_of_part
    if missing:
        raise StateError(
            f"{len(missing)} of {plan.parts} parts of {run.target} are "
            f"missing: {format_numbers(missing)}. Run the same `bushel pack` "
            "or `bushel convert` again, which writes only those"
        )
    notes = list(map(note_in, manifests.values()))
    errors = [line for note in notes for line in note.errors]
    check_errors(run, plan, len(errors), allowed)
    if len(repeated := repeated_hashes(hashes)):
        _refuse_taken_keys(run, plan, repeated)
    joined = _joined(plan, manifests)
    if errors:
        _write_errors(run, errors)
    else:
        remove(error_log_path(run.target))
    if not run.single:
        save_manifest(joined, marker_path(run.root, ""))
    limits = dict.fromkeys(limit for note in notes for limit in note.limits)
    samples = sum(entry.samples for entry in joined.shards)
    size = sum(note.bytes for note in notes)
    result = Totals(samples, size, len(errors), list(limits))
    run.save_result(result)
    _remove_locks(run, plan)
    return result


def _threads(run: RunFolder) -> int:
    """Return how many threads read parts: many wait for a store, and of a disk more than two only share the GIL."""
    return 2 if isinstance(run.root, Path) else _THREADS


def _complete_parts(run: RunFolder, plan: RunPlan) -> None:
    """Complete or undo the parts that killed or failed processes have left half in their places."""
    for path in map(run.part, range(plan.parts)):
        if not isinstance(path, Path):
            return
        root, file = (path.parent, path.name) if run.single else (path, None)
        if unfinished_shards(root, file) or overwrite_folder(path).is_dir():
            with suppress(InUseError), lock_part(path):  # another process may be writing it
                recover_target(path)
                for folder in unfinished_shards(root, file):
                    recover(root, folder)


def _remove_locks(run: RunFolder, plan: RunPlan) -> None:
    """Remove the locks of written parts that processes left in a store when they could not reach it any more."""
    if isinstance(run.root, Path):
        return
    left = set(list_names(lock_of(run.root).parent))
    for number in range(plan.parts):
        lock = lock_of(run.root, run.part(number).name)
        if lock.name in left:
            remove(lock)


def _keys_of(run: RunFolder, number: int, manifest: Manifest) -> Iterator[Keys]:
    """Yield the keys of each shard of a part."""
    for shard, entry in zip(run.shards(number, manifest), manifest.shards, strict=True):
        keys = load_index(shard.sidecar).keys if entry.keyed else None
        if keys is not None:
            yield keys


def _joined(plan: RunPlan, manifests: Mapping[str, Manifest]) -> Manifest:
    """Return the manifest of the whole dataset, given the manifests of its parts by their names."""
    entries: list[ManifestShard] = []
    spec: dict[str, str] = {}
    codecs: dict[str, str] = {}
    # the names of classes, each with the name of the first part that has just these
    labels: dict[str, tuple[str, Labels]] = {}
    for name, manifest in manifests.items():
        entries += [replace(entry, name=f"{name}/{entry.name}") for entry in manifest.shards]
        spec, codecs = manifest.spec | spec, manifest.codecs | codecs
        labels.setdefault(repr(manifest.labels), (name, manifest.labels))
    joined = join_labels(list(labels.values()), parse_spec(spec))
    return Manifest(plan.container, spec, codecs, entries, labels=joined)


def _refuse_taken_keys(run: RunFolder, plan: RunPlan, hashes: U64) -> None:
    """Raise StateError if parts have keys with these hashes that earlier parts have."""

    def read(number: int) -> tuple[int, list[str]]:
        manifest = run.load_part(number, plan)
        tables = () if manifest is None else _keys_of(run, number, manifest)
        return number, keys_with(hashes, tables)

    parts = parallel_map(read, range(plan.parts), threads=_threads(run), name="bushel-finish")
    first_with: dict[str, int] = {}
    taken = [
        (key, first, number)
        for number, keys in parts
        for key in keys
        if (first := first_with.setdefault(key, number)) != number
    ]
    if not taken:
        return
    shown = "; ".join(
        f"{key!r} in {run.part(first).name} and {run.part(number).name}"
        for key, first, number in taken[:_SHOWN]
    )
    more = f"; and {len(taken) - _SHOWN:,} more" * (len(taken) > _SHOWN)
    run.note_failure()
    raise StateError(
        f"samples in several parts of {run.target} have the same key: {shown}{more}. "
        "The parts are not joined. Give every sample a key of its own with keys=, "
        "and start again with mode='overwrite', or write to another path"
    )


def keys_with(hashes: U64, tables: Iterable[Keys]) -> list[str]:
    """Return the keys of a part that have one of these hashes, in order."""
    keys: list[str] = []
    for table in tables:
        rows = table.samples_at(np.flatnonzero(np.isin(table.hashes, hashes)))
        if len(rows):
            keys += table.take(np.sort(rows))
    return keys
