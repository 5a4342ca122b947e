"""Finish a run: join its parts to one dataset, as a tree of tasks.

Leaves of some parts are read in threads, or on an engine, and leave files. The root joins these
without reading any of them whole, except for small ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from bushel._dataset.open.completeness import marker_path
from bushel._dataset.open.locking import lock_run
from bushel._index.class_names import Labels, join_labels
from bushel._index.sidecar import Manifest
from bushel._pack.key_hashes import RepeatedTask, keys_with, ranges_of_hashes, taken_keys
from bushel._pack.leaves import (
    LeafTask,
    indexes_of,
    join_names,
    leaf_file,
    leaf_size,
    load_totals,
    records_of,
)
from bushel._pack.lost_parts import missing_parts
from bushel._pack.run_folder import RunFolder, RunResult
from bushel._pack.run_plan import RunPlan
from bushel._pack.side_files import error_log_path
from bushel._runtime.arrays import U64
from bushel._runtime.parallel import parallel_map
from bushel._runtime.tasks.drive import map_on_engine
from bushel._runtime.tasks.engine import format_numbers
from bushel.engines import connect
from bushel.errors import StateError, TooManyErrors, naming
from bushel.spec import parse_spec
from bushel.storage import (
    AnyPath,
    make_folder,
    place_file,
    read_whole,
    remove,
    sync_folder,
    walk_names,
)
from bushel.storage.names import below, refuse_link, remove_tree

_LEAVES = 8  # if there are at least this many leaves, an engine reads them
_THREADS = 8
_SHOWN = 5
_FOLDER = "finish-"

T = TypeVar("T")


def finish_run(
    run: RunFolder, plan: RunPlan, *, allowed: int | None = None, engine: Any = None
) -> RunResult:
    """Join the parts of a run: publish the files that are not published yet, write the manifest and the error log.

    May be repeated, and called by several processes at the same time, with the same result. At most
    `allowed` items may fail in the whole run. If there are many leaves, the engine reads them.

    Raises:
        InUseError: Another writer is open for the target.
        StateError: Parts are missing, or have keys that earlier parts have. Then nothing is joined.
        TooManyErrors: More items failed than are allowed.
    """
    if (result := run.load_result()) is not None and not missing_parts(run, plan):
        return result
    with lock_run(run.target, single=run.single, run=plan.fingerprint):
        return _finish(run, plan, allowed, engine)


def _finish(run: RunFolder, plan: RunPlan, allowed: int | None, engine: Any) -> RunResult:
    if missing := missing_parts(run, plan):
        raise StateError(
            f"{len(missing)} of {plan.parts} parts of {run.target} are missing:"
            f" {format_numbers(missing)}. Run the "
            "same `bushel pack` or `bushel convert` again, which writes only those"
        )
    # the files that are made in it are then renamed
    place = run.folder if isinstance(run.folder, Path) else None
    if place is not None:
        refuse_link(place)
    try:
        import tempfile  # which a run in one part does not need

        with tempfile.TemporaryDirectory(prefix=_FOLDER, dir=place) as scratch:
            result = _join(run, plan, allowed, Path(scratch), engine)
    except (OSError, StateError):
        # another process was faster, and has removed what this one used
        if (known := run.load_result()) is not None:
            return known
        raise
    run.save_result(result)
    _remove_leftovers(run)
    return result


def _join(
    run: RunFolder, plan: RunPlan, allowed: int | None, scratch: Path, engine: Any
) -> RunResult:
    size = leaf_size(plan)
    count = -(-plan.parts // size)
    there = engine if count >= _LEAVES else None
    shared = scratch if there is None or isinstance(run.folder, Path) else run.folder / scratch.name
    keys = sum(_map(LeafTask(run, plan.parts, size, shared), count, there))
    samples = stored = errors = 0
    limits: dict[str, None] = {}
    spec: dict[str, str] = {}
    codecs: dict[str, str] = {}
    labels: Labels = {}
    for number in range(count):
        leaf = load_totals(shared, number)
        samples, stored, errors = samples + leaf.samples, stored + leaf.bytes, errors + leaf.errors
        limits |= dict.fromkeys(leaf.limits)
        spec, codecs = {**leaf.spec, **spec}, {**leaf.codecs, **codecs}
        labels = join_labels(
            [(str(run.target), labels), *join_names(leaf.labels)], parse_spec(spec)
        )
    if allowed is not None and errors > allowed:
        raise TooManyErrors(
            f"{errors} items of {run.target} cannot be packed, but max_errors allows {allowed}",
            errors=errors,
        )
    ranges = ranges_of_hashes(keys)
    repeated = RepeatedTask([leaf_file(shared, number, "keys") for number in range(count)], ranges)
    hashes = np.concatenate(_map(repeated, len(ranges), there))
    if len(hashes):
        _refuse_taken_keys(run, plan, hashes)
    log, entries = scratch / "errors", scratch / "entries"
    for path, kind in ((log, "errors"), (entries, "entries")):
        with naming(path), open(path, "wb") as file:
            for number in range(count):
                file.write(read_whole(leaf_file(shared, number, kind)))
    result = RunResult(samples, stored, errors, list(limits))
    _publish(error_log_path(run.target), log)
    if not run.single:
        names = {name: list(each) for name, each in labels.items()}
        manifest = Manifest(plan.container, spec, codecs, [], labels=names)
        _publish(marker_path(run.root, ""), _manifest_file(scratch, manifest, entries))
    return result


def _map(task: Callable[[int], T], count: int, engine: Any) -> list[T]:
    """Return the results of a task with the numbers from 0."""
    if engine is None:
        return list(parallel_map(task, range(count), threads=_THREADS, name="bushel-finish"))
    return map_on_engine(task, range(count), connect(engine))


def _refuse_taken_keys(run: RunFolder, plan: RunPlan, hashes: U64) -> None:
    """Raise StateError if parts have keys with these hashes that earlier parts have."""
    taken = taken_keys(_keys_of_parts(run, plan, hashes))
    if not taken:
        return
    shown = "; ".join(
        f"{key!r} in {run.part(first).name} and {run.part(number).name}"
        for key, first, number in taken[:_SHOWN]
    )
    more = f"; and {len(taken) - _SHOWN:,} more" * (len(taken) > _SHOWN)
    run.note_failure()
    raise StateError(
        f"samples in several parts of {run.target} have the same key: {shown}{more}. The parts"
        " are not joined. Give "
        "every sample a key of its own with keys=, and start again with mode='overwrite', or"
        " write to another path"
    )


def _keys_of_parts(run: RunFolder, plan: RunPlan, hashes: U64) -> Iterator[tuple[int, list[str]]]:
    """Yield the keys of each part that have one of these hashes."""

    def look(number: int) -> tuple[int, list[str]]:
        [record] = records_of(run, range(number, number + 1))
        return number, keys_with(
            hashes, (index.keys for _, index in indexes_of(run, record) if index.keys is not None)
        )

    return parallel_map(look, range(plan.parts), threads=_THREADS, name="bushel-finish")


def _manifest_file(scratch: Path, manifest: Manifest, entries: Path) -> Path:
    """Write a manifest whose entries are in a file. They may not fit into memory."""
    head, tail = msgspec.json.encode(manifest).split(b'"shards":[]', 1)
    path = scratch / "manifest"
    size = entries.stat().st_size
    with naming(path), open(path, "wb") as file, open(entries, "rb") as source:
        file.write(head + b'"shards":[\n')
        left = max(size - 2, 0)  # without the last comma
        while left:
            left -= file.write(source.read(min(left, 1 << 20)))
        file.write(b"]" + tail + b"\n")
    return path


def _publish(path: AnyPath, source: Path) -> None:
    """Put a file in its place. An empty one is not kept."""
    if source.stat().st_size == 0:
        remove(path)
        return
    if isinstance(path, Path):
        make_folder(path.parent)
        with open(source, "rb") as file:
            os.fsync(file.fileno())
    place_file(source, path)
    if isinstance(path, Path):
        sync_folder(path.parent)


def _remove_leftovers(run: RunFolder) -> None:
    """Remove what attempts and drivers that were killed have left."""
    if isinstance(run.folder, Path) and isinstance(run.attempts, Path):
        for folder in (run.attempts, *run.folder.glob(f"{_FOLDER}*")):
            remove_tree(folder)
        return
    for name in list(walk_names(run.folder)):
        if name.startswith((f"{run.attempts.name}/", _FOLDER)):
            remove(below(run.folder, name, any_text=True))
