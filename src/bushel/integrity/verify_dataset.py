"""Verifying a whole dataset against its index and its checksums."""

from __future__ import annotations

import threading
from collections.abc import Container, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from bushel._dataset.open.caller_fields import warn_withheld
from bushel._dataset.open.completeness import LoadManifest, listed_names, manifest_path
from bushel._dataset.open.removal_lists import lists_beside
from bushel._dataset.read.key_file import NAME, damage
from bushel._dataset.read.remaining import removed_in
from bushel._dataset.read.shards import OpenShard
from bushel._index.identity import manifest_of_tables
from bushel._index.names import Labels, join_labels
from bushel._index.shard import Keys, Shard, may_lack_samples, repeated_hashes
from bushel._index.sidecar import Manifest, load_manifest
from bushel._runtime.arrays import NO_NUMBERS, check_count
from bushel._runtime.parallel import map_each
from bushel._runtime.progress import OnProgress, Progress, ShowProgress, callback_of, user_call
from bushel._runtime.public import public
from bushel._runtime.tasks import AnyEngine
from bushel._runtime.threads import cpu_count
from bushel.containers import container_names
from bushel.containers.base import unreported
from bushel.engines import connect
from bushel.errors import FormatError, SpecError
from bushel.spec import Field
from bushel.storage import AnyLocation, AnySource, below

from .check_shard import Checks, ShardCheck, check_shard
from .discover import Place, discover
from .problems import Findings, VerifyResult


class _Stopped(BaseException):
    """Ends the check of a shard after verification was stopped."""


@public()
@user_call("verifying")
def verify(
    source: AnySource,
    *,
    checksums: bool = True,
    decode: bool = False,
    container: str | None = None,
    threads: int | None = None,
    pickle: bool = False,
    max_problems: int = 1000,
    index: AnyLocation = "auto",
    engine: AnyEngine | None = None,
    progress: ShowProgress = None,
) -> VerifyResult:
    """Check a whole dataset and list its problems. Nothing is written.

    For every shard it checks that all files exist and have a valid structure, that the table which
    `bushel.index` would make is that of the index, with its columns (unless the files changed after
    it was made), that the bytes of every field have the CRC-32 that the index or the container
    stores, that no key appears twice, that all shards number their classes in the same way, that
    the manifest says the same, and that the key file is not damaged.

    Args:
        source: As for `bushel.open`.
        checksums: Whether to compare bytes with their checksums, which reads all data.
        decode: Whether to decode every value, too, which finds images that were broken before they
            were packed.
        container: Name of the container, if a folder holds files of several.
        threads: Number of shards to check at once; by default the number of CPUs.
        pickle: Whether to use codecs that run code, such as `pickle`, where the files name them,
            and to read pickled gulp metadata: only if you trust the author of the files.
        max_problems: Number of problems to list; further ones are counted.
        index: The folder of the index, if that is not the folder of the data.
        engine: Where shards are checked: see `bushel.pack`. By default in threads of this process.
        progress: True for a bar in a terminal or notebook; or a function that is called with the
            bytes checked so far and the bytes of all files.

    Raises:
        FileNotFoundError: `source` does not exist.
        FormatError: `source` is not a dataset.
        ValueError: `threads` or `max_problems` is less than 1.

    Examples:
        >>> result = bushel.verify("train/")
        >>> result.ok, result.samples
        (True, 12)
    """
    if threads is None:
        threads = cpu_count()
    check_count("threads", threads, least=1)
    findings = Findings(check_count("max_problems", max_problems, least=1))
    load: Any = cache(load_manifest)  # each is read once
    places = discover(source, container, findings, index, load)
    on_progress = callback_of(progress)
    stop, meter = threading.Event(), _Meter(places, findings, on_progress)

    def tick(size: int) -> None:
        if stop.is_set():
            raise _Stopped
        meter.add(size)

    report, connected = tick, None
    if engine is not None:  # the driver counts shards
        report, connected = unreported, connect(engine)
    check = partial(check_shard, checks=Checks(checksums, decode, pickle, max_problems, report))
    results = map_each(
        check,
        places,
        threads=threads,
        finished=on_progress and partial(meter.add, 0),
        engine=connected,
        stop=stop,
    )
    samples = 0
    for result in results:
        findings.add_shard(result.found, samples)
        samples += result.index.samples
    if decode and not pickle:
        fields = chain.from_iterable(result.index.spec.values() for result in results)
        warn_withheld(fields, str(source))
    by_split: dict[str, list[ShardCheck]] = {}  # samples of two splits may have the same keys
    for result in results:
        by_split.setdefault(result.place.split, []).append(result)
    for checks_of_split in by_split.values():
        _check_keys(checks_of_split, findings)
        labels = _joined_labels(checks_of_split, findings)
        check_manifest(checks_of_split, labels, load, findings)
        first = checks_of_split[0]
        if first.fitting is not None:
            check_names_file(first.place, first.fitting.labels, findings)
    if len(by_split) > 1:
        _joined_labels(results, findings)
    return VerifyResult(
        tuple(problem for problem, _ in findings.problems),
        samples,
        len(places),
        sum(result.bytes_checked for result in results),
        all(result.complete for result in results) and bool(places),
        findings.more,
        sum(result.index.nbytes for result in results),
        checksums,
    )


class _Meter:
    """Counts checked bytes. A finished shard counts with all its bytes, even those without checksums."""

    def __init__(
        self, places: Sequence[Place], found: Findings, progress: OnProgress | None
    ) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._errors = len(found.problems) + found.more
        self._total = self._checked = self._finished = 0
        if progress is not None:
            self._total = sum(map(_size, places))

    def add(self, size: int, finished: ShardCheck | None = None) -> None:
        """Count bytes that were just checked, or a finished shard."""
        if self._progress is None:
            return
        with self._lock:
            self._checked += size
            if finished is not None:
                self._finished += _size(finished.place)
                self._errors += len(finished.found.problems) + finished.found.more
            done = min(max(self._finished, self._checked), self._total)
            self._progress(Progress(done, self._total, "bytes", bytes=done, errors=self._errors))


def _size(place: Place) -> int:
    return sum(int(path.stat().st_size) for path in place.shard.paths if path.exists())


def _check_keys(checks: Sequence[ShardCheck], found: Findings) -> None:
    """Find keys that several samples have, in one shard or in several. Removed samples do not count."""
    keys_of = [check.index.keys or Keys.of(()) for check in checks]
    repeated = repeated_hashes([keys.hashes for keys in keys_of])
    if not len(repeated):
        return
    shards = [
        OpenShard.of(
            check.place.container.name, check.place.shard, check.index, stored=False, checked=True
        )
        for check in checks
    ]
    removed = NO_NUMBERS
    with suppress(FormatError, OSError):  # a damaged list is reported
        removed = removed_in(shards)
    first_with: dict[str, Shard] = {}
    start = 0
    for keys, opened in zip(keys_of, shards, strict=True):
        places = np.flatnonzero(np.isin(keys.hashes, repeated))
        samples = np.setdiff1d(keys.samples_at(places) + start, removed) - start
        start += opened.samples
        for key in keys.take(samples):
            first = first_with.get(key)
            if first is None:
                first_with[key] = opened.shard
                continue
            message = f"a sample of {first.path(0)} has this key, too"
            if first is opened.shard:
                message = "several samples have this key"
            found.add_file(opened.path(0), "key", message, key=key)


def _joined_labels(checks: Sequence[ShardCheck], found: Findings) -> Labels | None:
    """Return the names of classes of all shards; None, and a problem, if they number classes in different ways.

    A field has the type of the first shard that has it, as in the manifest.
    """
    fields = dict[str, Field]()
    for check in reversed(checks):
        fields.update(check.index.spec)
    named: list[tuple[str, Labels]] = []  # paths of very many shards take long
    for check in checks:
        if not named or named[-1][1] != check.index.labels:
            named.append((str(check.place.shard.path(0)), check.index.labels))
    try:
        return join_labels(named, fields)
    except SpecError as error:
        found.add_file(None, "labels", str(error))
        return None


_MEND = "`bushel index` writes the manifest again"


def check_manifest(
    checks: Sequence[ShardCheck], labels: Labels | None, load: LoadManifest, found: Findings
) -> None:
    """Report what the manifest says otherwise than the tables of the shards that describe their files as they are.

    Damage of lists of removed samples is reported, too, and that of the key file, by which keys
    would seem to be missing.

    Args:
        checks: The shards.
        labels: The names of classes of all shards; None if shards number classes in different ways.
        load: Returns the manifest at a path.
        found: Gets the problems.
    """
    shards = [check.place.shard for check in checks]
    path, manifest = manifest_path(shards), None
    try:
        if may_lack_samples(shards):
            lists_beside(shards)
    except FormatError as error:
        found.add_error(error, "index")
    if isinstance(path, Path) and (key_file := path.with_name(NAME)).exists():
        wrong = damage(key_file)
        if wrong is not None:
            found.add_file(key_file, "index", wrong)
    try:
        if path is not None:
            manifest = load(path)
    except FormatError as error:
        found.add_error(error, "index")
    if manifest is None:
        return
    container = checks[0].place.container.name
    if manifest.container != container:
        if manifest.container not in container_names():
            found.add_file(
                path,
                "index",
                f"the manifest is of the container {manifest.container!r}, "
                f"but the files are {container}: {_MEND}",
            )
        return
    named = zip(listed_names(shards), checks, strict=True)
    described = {name: check.fitting for name, check in named if check.fitting is not None}
    now = manifest_of_tables(container, list(described), list(described.values()))
    listed = {entry.name for entry in manifest.shards}
    whole = len(described) == len(manifest.shards) == len(listed) and manifest.complete
    now = structs.replace(now, labels=manifest.labels if labels is None else labels)
    facts = _facts(manifest, described, fields=whole), _facts(now, listed, fields=whole)
    for what in facts[0] | facts[1]:
        was, is_now = (side.get(what, "nothing") for side in facts)
        if was != is_now:
            found.add_file(
                path,
                "index",
                f"{what} is {was} in the manifest, but {is_now} in the shards: {_MEND}",
            )


def _facts(manifest: Manifest, names: Container[str], *, fields: bool) -> dict[str, object]:
    """Return the facts in a manifest about the shards of these names, without times, and about fields."""
    facts: dict[str, object] = {
        f"{fact} of shard {entry.name!r}": value
        for entry in manifest.shards
        if entry.name in names
        for fact, value in (
            structs.asdict(entry) | {"files": [(name, size) for name, size, _ in entry.files]}
        ).items()
    }
    if fields:
        for name, classes in manifest.labels.items():
            facts |= {
                f"class {number} of field {name!r}": repr(class_name)
                for number, class_name in enumerate(classes)
            }
        facts |= {f"the type of field {name!r}": kind for name, kind in manifest.spec.items()}
        facts |= {f"the codec of field {name!r}": codec for name, codec in manifest.codecs.items()}
    return facts


def check_names_file(place: Place, labels: Labels, found: Findings) -> None:
    """Report a file with the names of classes, which original tools read, that differs from the index."""
    container, root = place.container, place.shard.root
    if container.names_file is None or not labels:
        return
    path = below(root, container.names_file)
    if not path.exists():
        return
    named = container.class_names(root)
    for field, names in labels.items():
        if field in named and named[field] != names:
            found.add_file(
                path,
                "labels",
                "its names of classes differ from those in the "
                f"index, which are {', '.join(names[:5])} …",
            )
    if not named:
        found.add_file(path, "format", "it has no usable names of classes, but the index has some")
