"""Write a dataset from a source: lock the target, prepare the source, write one dataset or parts, and sum up."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from bushel._pack.pack_job import pack_in_parts, pack_whole
from bushel._pack.pack_options import PackOptions
from bushel._pack.prepare import prepare_source
from bushel._pack.prepared import describe_skipped
from bushel._pack.side_files import error_log_path
from bushel._runtime.progress import OnProgress
from bushel._runtime.public import public
from bushel._writer.overwrite import lock_for_writing
from bushel.containers import container_for, get_writable
from bushel.containers.base import Container
from bushel.errors import UnsupportedError
from bushel.storage import AnyPath, workplace
from bushel.storage.lock import Lock


@public("bushel.runs")
@dataclass(frozen=True, slots=True)
class PackResult:
    """The result of `pack`, `convert`, `merge` and, for each dataset, `split`.

    Attributes:
        container: Name of the container.
        paths: Paths of the datasets written: one, or one for each part.
        samples: Samples written.
        kept: Samples that the dataset had before: with `mode="resume"` of this source, with
            `mode="append"` others.
        errors: Items that could not be packed.
        error_logs: Paths of the files that list them, with a JSON object in each line: position,
            key, path, error.
        bytes: Stored bytes of the fields written.
        seconds: Time taken.
        spec: Field to type, with the codecs that were chosen for images without a type.
        limits: Properties of the samples that the container does not keep, in words.
        skipped: Files of the source that are not samples, by kind: `{".nef": 3}`.

    Examples:
        >>> done = bushel.pack("photos/", "out/", container="tar")
        >>> done.samples, done.errors, done.paths
        (12, 0, ('out',))
    """

    container: str
    paths: tuple[str, ...]
    samples: int
    kept: int
    errors: int
    error_logs: tuple[str, ...]
    bytes: int
    seconds: float
    spec: dict[str, str]
    limits: tuple[str, ...]
    skipped: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {kind}" for name, kind in self.spec.items())
        counts = f"{self.samples:,} samples" + (f" after {self.kept:,}" if self.kept else "")
        errors = ""
        if self.errors:
            errors = f", {self.errors:,} errors (see {', '.join(self.error_logs)})"
        if self.skipped:
            errors += f", skipped {describe_skipped(self.skipped)}"
        if len(self.paths) == 1:
            target = self.paths[0]
        else:
            target = f"{len(self.paths)} parts"
        return (
            f"<PackResult {target}: {counts} as {self.container} ({fields}), {self.bytes:,} bytes "
            f"in {self.seconds:.1f} s{errors}>"
        )


def write_dataset(
    source: Any, target: AnyPath, options: PackOptions, progress: OnProgress | None
) -> PackResult:
    """Write a source as one dataset, or as the parts of one: the work of `pack` and `convert`, which see."""
    if workplace(target) is None:
        raise UnsupportedError(
            f"cannot pack to {target}: expected a local path, or the URL of an object store"
        )
    name = options.writer.container
    container = get_writable(name) if name else container_for(target.name)
    # locked with the other processes of the run
    if options.run.parts is not None or options.run.engine is not None:
        return _write_locked(source, target, container, options, None, progress)
    with lock_for_writing(target, options.writer) as lock:
        return _write_locked(source, target, container, options, lock, progress)


def _write_locked(
    source: Any,
    target: AnyPath,
    container: Container,
    options: PackOptions,
    lock: Lock | None,
    progress: OnProgress | None,
) -> PackResult:
    started = time.monotonic()
    prepared = prepare_source(source, target, container, options)
    options = replace(options, writer=prepared.writing)
    if prepared.parts is None:
        totals = pack_whole(prepared, target, container.suffix, options, lock, progress)
    else:
        totals = pack_in_parts(
            prepared, prepared.parts, target, container.suffix, options, progress
        )
    log = error_log_path(target)
    return PackResult(
        container=container.name,
        paths=totals.paths,
        samples=totals.samples,
        kept=totals.kept,
        errors=totals.errors,
        error_logs=(str(log),) if totals.errors and log.exists() else (),
        bytes=totals.bytes,
        seconds=time.monotonic() - started,
        spec=prepared.spec,
        limits=totals.limits + prepared.limits,
        skipped=prepared.skipped,
    )
