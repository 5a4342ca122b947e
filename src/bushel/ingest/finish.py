"""Finish a run: join its parts to one dataset.

Leaves of up to `_LEAF` parts are read at a time, in threads, and leave only totals in memory: their entries of the
manifest, their errors and the hashes of their keys go to files, which are then joined without being read whole.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bushel.core.dataset.discovery import marker_path
from bushel.core.index.class_names import Labels, join_labels
from bushel.core.index.sidecar import Manifest, ManifestShard, load_index
from bushel.core.index.table import U64, Keys, Shard, ShardIndex
from bushel.core.parallel import parallel_map
from bushel.errors import SpecError, StateError, TooManyErrors
from bushel.ingest.commit import publish
from bushel.ingest.key_hashes import KeyHashes, taken_keys
from bushel.ingest.run_folder import Record, RunFolder, RunResult
from bushel.ingest.run_plan import RunPlan, format_numbers
from bushel.ingest.side_files import error_lines, error_log_path
from bushel.spec import parse_spec
from bushel.storage import AnyPath, make_folder, place_file, remove, sync_folder, walk_names

__all__ = ["TakenKeysError", "finish_run"]

_LEAF = 64
_THREADS = 8
_SHOWN = 5
_AGAIN = "must be written again without these: run the same `bushel pack` again"


class TakenKeysError(StateError):
    """Parts have keys that earlier parts have, and must be written again without these samples.

    Args:
        message: What to do.
        parts: Numbers of the parts.
        first: The error of the first such sample, as one machine meets it.
    """

    def __init__(self, message: str, parts: Sequence[int] = (), first: ValueError | None = None) -> None:
        super().__init__(message)
        self.parts = tuple(parts)
        self.first = first or ValueError(message)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """The totals of some parts."""

    samples: int
    bytes: int
    errors: int
    limits: tuple[str, ...]
    spec: dict[str, str]
    codecs: dict[str, str]
    labels: tuple[tuple[str, Labels], ...]


def finish_run(run: RunFolder, plan: RunPlan, *, allowed: int | None = None) -> RunResult:
    """Join the parts of a run: publish what is not published yet, write the manifest and the error log.

    May be repeated, and called by several processes at the same time, with the same result.

    Args:
        run: The files of the run.
        plan: Its plan.
        allowed: Number of items that may fail in the whole run; None for any number.

    Raises:
        StateError: Parts are missing.
        TooManyErrors: More items failed than are allowed.
        TakenKeysError: Samples of several parts have the same key, and the later ones must be left out: the run is not
            finished until these parts have been written again.
        SpecError: So it is in a conversion, which leaves out nothing.
    """
    if (result := run.load_result()) is not None:
        return result
    if missing := run.missing(plan):
        if run.with_taken_keys().intersection(run.committed()).issuperset(missing):
            raise TakenKeysError(
                f"parts {format_numbers(missing)} of {run.target} have keys of earlier parts and {_AGAIN}", missing
            )
        raise StateError(
            f"{len(missing)} of {plan.parts} parts of {run.target} are missing: {format_numbers(missing)}. Run the "
            "same `bushel pack` or `bushel convert` again, which writes only those"
        )
    for number in sorted(run.with_taken_keys()):
        if (again := run.load_record(number, again=True)) is not None:
            publish(run, again)
    place = run.folder if isinstance(run.folder, Path) else None  # the files that are made in it are then renamed
    try:
        with tempfile.TemporaryDirectory(prefix="finish-", dir=place) as scratch:
            result = _join(run, plan, allowed, Path(scratch))
    except TakenKeysError:
        raise
    except (OSError, StateError):
        if (result := run.load_result()) is not None:  # another process was faster, and has removed what this one used
            return result
        raise
    run.save_result(result)
    _remove_attempts(run)
    return result


def _join(run: RunFolder, plan: RunPlan, allowed: int | None, scratch: Path) -> RunResult:
    ranges = [range(first, min(first + _LEAF, plan.parts)) for first in range(0, plan.parts, _LEAF)]
    keys = KeyHashes(scratch)
    samples = size = errors = 0
    limits: dict[str, None] = {}
    spec: dict[str, str] = {}
    codecs: dict[str, str] = {}
    labels: Labels = {}
    entries, log = scratch / "entries", scratch / "errors"
    with open(entries, "wb") as entry_file, open(log, "wb") as log_file:
        leaves = parallel_map(
            lambda parts: _read_leaf(run, parts, keys), ranges, workers=_THREADS, name="bushel-finish"
        )
        for leaf, own_entries, own_errors in leaves:
            entry_file.write(own_entries)
            log_file.write(own_errors)
            samples, size, errors = samples + leaf.samples, size + leaf.bytes, errors + leaf.errors
            limits |= dict.fromkeys(leaf.limits)
            spec, codecs = {**leaf.spec, **spec}, {**leaf.codecs, **codecs}
            labels = join_labels([(str(run.target), labels), *leaf.labels], parse_spec(spec))
    if allowed is not None and errors > allowed:
        raise TooManyErrors(
            f"{errors} items of {run.target} cannot be packed, but max_errors allows {allowed}", errors=errors
        )
    if len(hashes := keys.repeated()) and (taken := taken_keys(hashes, _all_keys(run, plan))):
        _settle(run, plan, taken, errors, allowed)
    result = RunResult(samples, size, errors, list(limits))
    _publish(error_log_path(run.target), log)
    if not run.single:
        manifest = Manifest(
            plan.container, spec, codecs, [], labels={name: list(each) for name, each in labels.items()}
        )
        _publish(marker_path(run.root, ""), _manifest_file(scratch, manifest, entries))
    return result


def _settle(
    run: RunFolder, plan: RunPlan, taken: Mapping[int, Mapping[str, int]], errors: int, allowed: int | None
) -> None:
    """Note the keys that parts must do without, as those of earlier parts are kept.

    Raises:
        TakenKeysError: These parts must be written again.
        TooManyErrors: With these samples, more cannot be packed than are allowed.
        SpecError: It is a conversion.
    """
    count = sum(map(len, taken.values()))
    places = [(key, first, number) for number, own in taken.items() for key, first in own.items()]
    shown = "; ".join(
        f"{key!r} in {run.part(first).name} and {run.part(number).name}" for key, first, number in places[:_SHOWN]
    )
    what = f"{count} samples of {run.target} have the key of an earlier one: {shown}"
    advice = "Give every sample a key of its own with keys=, and start again with mode='overwrite'"
    if plan.kind != "pack":
        raise SpecError(f"{what}. {advice}")
    if allowed is not None and errors + count > allowed:
        raise TooManyErrors(
            f"{what}. With these, {errors + count} items cannot be packed, but max_errors allows {allowed}. {advice}; "
            "or allow more errors in the same call, which leaves the later samples out",
            errors=errors + count,
        )
    for number, own in taken.items():
        run.note_taken_keys(number, list(own))
    raise TakenKeysError(
        f"{what}. Parts {format_numbers(sorted(taken))} {_AGAIN}",
        sorted(taken),
        ValueError(f"key {places[0][0]!r} is in the dataset already"),
    )


def _read_leaf(run: RunFolder, parts: Sequence[int], keys: KeyHashes) -> tuple[_Leaf, bytes, bytes]:
    """Publish some parts, and return their totals, their entries of the manifest, and their errors."""
    entries: list[bytes] = []
    lines: list[str] = []
    samples = size = 0
    limits: dict[str, None] = {}
    spec: dict[str, str] = {}
    codecs: dict[str, str] = {}
    labels: dict[str, tuple[str, Labels]] = {}
    hashes: list[U64] = []
    for record in _records(run, parts):
        publish(run, record)
        name = run.part(record.part).name
        for shard, index in _indexes(run, record):
            if index.keys is not None:
                hashes.append(index.keys.hashes)
            entries.append(msgspec.json.encode(ManifestShard.of(f"{name}/{shard.name}", index)))
        samples, size = samples + record.samples, size + record.bytes
        limits |= dict.fromkeys(record.limits)
        spec, codecs = {**record.spec, **spec}, {**record.codecs, **codecs}
        own_labels = {field: tuple(each) for field, each in record.labels.items()}
        labels.setdefault(repr(own_labels), (name, own_labels))
        lines += record.errors
    keys.add(hashes)
    leaf = _Leaf(samples, size, len(lines), tuple(limits), spec, codecs, tuple(labels.values()))
    return leaf, b"".join(b"  " + entry + b",\n" for entry in entries), error_lines(map(msgspec.json.decode, lines))


def _records(run: RunFolder, parts: Sequence[int]) -> Iterator[Record]:
    for number in parts:
        record = run.load_record(number)
        if record is None:
            raise StateError(f"the record of part {number} of {run.target} was removed meanwhile")
        yield record


def _indexes(run: RunFolder, record: Record) -> Iterator[tuple[Shard, ShardIndex]]:
    root = run.root if run.single else run.part(record.part)
    for recorded in record.shards:
        files = tuple(name for name, _, _ in recorded.entry.files)
        shard = Shard(root, recorded.entry.name, files, recorded.sidecars)
        yield shard, load_index(shard.sidecar)


def _all_keys(run: RunFolder, plan: RunPlan) -> Iterator[tuple[int, Keys]]:
    for record in _records(run, range(plan.parts)):
        for _, index in _indexes(run, record):
            if index.keys is not None:
                yield record.part, index.keys


def _manifest_file(scratch: Path, manifest: Manifest, entries: Path) -> Path:
    """Write a manifest whose entries are in a file. They may not fit into memory."""
    head, tail = msgspec.json.encode(manifest).split(b'"shards":[]', 1)
    path = scratch / "manifest"
    size = entries.stat().st_size
    with open(path, "wb") as file, open(entries, "rb") as source:
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


def _remove_attempts(run: RunFolder) -> None:
    """Remove what attempts that were killed have left."""
    if isinstance(run.attempts, Path):
        shutil.rmtree(run.attempts, ignore_errors=True)
        return
    for name in list(walk_names(run.attempts)):
        remove(run.attempts / name)
