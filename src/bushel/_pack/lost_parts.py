"""Find the parts of a run whose files were deleted after they were written, so that they can be written again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bushel._pack.run_folder import Record, RunFolder
from bushel._pack.run_plan import RunPlan
from bushel._runtime.parallel import parallel_map
from bushel.storage import AnyPath, walk_names
from bushel.storage.names import below, inside

_THREADS = 32


def is_lost(run: RunFolder, record: Record) -> bool:
    """Return whether a file of a committed part is gone. Files that are being renamed now do not count.

    Raises:
        OSError: A store refuses, or cannot be reached.
    """
    return (
        not _all_there(run, record) and not _is_staged(run, record) and not _all_there(run, record)
    )


def missing_parts(run: RunFolder, plan: RunPlan) -> list[int]:
    """Return the numbers of the parts that must be written, ascending: those without a record, and those that are lost.

    Raises:
        FormatError: The record of a part is damaged.
        OSError: A store refuses, or cannot be reached.
    """
    missing = set(run.missing(plan))
    written = [number for number in range(plan.parts) if number not in missing]
    there = _listing(run)

    def is_gone(number: int) -> bool:
        record = run.load_record(number)
        if record is None or all(str(path) in there for path in _paths(run, record)):
            return False
        return is_lost(run, record)

    gone = parallel_map(is_gone, written, threads=_THREADS, limit=2 * _THREADS, name="bushel-parts")
    return sorted(missing.union(number for number, lost in zip(written, gone, strict=True) if lost))


def _listing(run: RunFolder) -> frozenset[str]:
    """Return the paths of all objects of a target in a store, which take fewer requests together; none elsewhere."""
    if isinstance(run.root, Path) or run.single:
        return frozenset()
    return frozenset(str(below(run.target, name, any_text=True)) for name in walk_names(run.target))


def _paths(run: RunFolder, record: Record) -> Iterator[AnyPath]:
    """Yield the files of a part, with the files of its indexes."""
    root = run.root if run.single else run.part(record.part)
    for recorded in record.shards:
        shard = recorded.below(root)
        yield from shard.paths
        yield shard.sidecar


def _all_there(run: RunFolder, record: Record) -> bool:
    return all(path.exists() for path in _paths(run, record))


def _is_staged(run: RunFolder, record: Record) -> bool:
    place = inside(run.attempts, record.attempt)
    return place.exists() if isinstance(place, Path) else any(True for _ in walk_names(place))
