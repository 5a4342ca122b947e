"""Repairing a dataset: writing its intact samples to a new one, and listing the damaged ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from bushel._dataset.read.shards import OpenShard
from bushel._dataset.views.dataset import Dataset
from bushel._index.shard import Keys
from bushel._pack import convert
from bushel._runtime.arrays import I64, NO_NUMBERS
from bushel._runtime.messages import count
from bushel._runtime.parallel import map_each
from bushel._runtime.progress import ShowProgress, callback_of, user_call
from bushel._runtime.public import public
from bushel._runtime.tasks import AnyEngine
from bushel._runtime.threads import cpu_count
from bushel._writer.target import holds_dataset
from bushel.containers import (
    Container,
    container_by_suffix,
    container_names,
    get_container,
    get_writable,
)
from bushel.engines import connect
from bushel.errors import FormatError
from bushel.storage import AnyLocation, AnySource, as_path

from .discover import Place, discover
from .problems import Findings, Problem
from .whole_samples import Inspected, inspect_shard


@public("bushel.integrity")
@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of `bushel.repair`.

    Attributes:
        container: Container of the new dataset.
        samples: Number of samples in the new dataset.
        lost: Number of samples that are known to have existed and are damaged. If `checked` is
            False, there may be more: the number of samples in a damaged part of a tar is unknown.
        checked: Whether every byte that was written has been compared with a checksum. Otherwise a
            sample counts as whole if its extents are valid.
        problems: Everything that was damaged, left out or renamed.
        more: Number of problems that are not listed.

    Examples:
        >>> done = bushel.repair("train/", "repaired/")
        >>> done.ok, done.samples, done.lost
        (True, 12, 0)
    """

    container: str
    samples: int
    lost: int
    checked: bool
    problems: tuple[Problem, ...]
    more: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing was damaged."""
        return not self.problems and not self.more

    def __repr__(self) -> str:
        problems = len(self.problems) + self.more
        return (
            f"<RepairResult: {count(self.samples, 'sample')} written, "
            f"{self.lost:,} lost, {count(problems, 'problem')}>"
        )


@public()
@user_call("repairing")
def repair(
    source: AnySource,
    target: str | os.PathLike[str],
    *,
    container: str | None = None,
    to: str | None = None,
    decode: bool = False,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    mode: Literal["create", "resume"] = "create",
    max_problems: int = 1000,
    index: AnyLocation = "auto",
    threads: int | None = None,
    parts: int | None = None,
    engine: AnyEngine | None = None,
    progress: ShowProgress = None,
) -> RepairResult:
    """Write the intact samples of a damaged dataset to a new one. The source is not changed.

    For every shard the best available table is used: Bushel's index with its checksums if the files
    match it; else the container's own; else what can be recovered from the framing of the format
    (docs/integrity.md). A sample is left out if one of its fields cannot be read or does not match
    its checksum. `~2` is appended to the second use of a key.

    Args:
        source: As for `bushel.open`.
        target: As for `bushel.Writer`.
        container: Name of the container, if a folder holds files of several.
        to: Name of the container of the new dataset. By default the container of the source; if
            Bushel only reads that, `to` or the suffix of `target` has to name one that it writes.
        decode: Whether to leave out samples with a value that cannot be decoded, too.
        shard_samples: As for `bushel.Writer`. For a folder of several shards, the default is the
            number of samples in the largest one.
        shard_bytes: As for `bushel.Writer`.
        mode: As for `bushel.Writer`: `resume` continues an interrupted repair with the same
            arguments.
        max_problems: Number of problems to list; further ones are counted.
        index: The folder of the index, if that is not the folder of the data.
        threads: Number of threads; by default the number of CPUs. With `engine`, threads of each
            part; by default 1.
        parts: Write the samples in this many parts, which are one dataset: see `bushel.pack`. By
            default one dataset, or, with `engine`, as many parts as there are shards. The same call
            joins the run.
        engine: Where shards are read and parts are written: see `bushel.pack`. By default in
            threads of this process.
        progress: True for a bar in a terminal or notebook; or a function that is called with the
            number of samples written so far.

    Raises:
        FileNotFoundError: The path does not exist.
        FileExistsError: `target` already holds a dataset, complete or unfinished, of another run.
        ValueError: `target` has the suffix of another container, or the source's container is only
            read and none is named to write.
        FormatError: The source is not a dataset, has no intact sample, or has shards of several
            containers.

    Examples:
        >>> done = bushel.repair("train/", "repaired/")
        >>> done.samples, done.lost
        (12, 0)
    """
    findings = Findings(max_problems)
    places = discover(source, container, findings, index)
    kind = _container_to_write(places, source, target, to)
    path = as_path(target)
    is_new = mode == "create" and parts is None and engine is None
    if is_new and kind is not None and path.exists() and holds_dataset(kind, path):
        raise FileExistsError(
            f"{target} already holds a dataset, but a repair writes a new one: "
            "use another path (mode='resume' continues an interrupted repair)"
        )
    inspect = partial(inspect_shard, decode=decode, room=max_problems)
    inspected = map_each(
        inspect,
        places,
        threads=threads or cpu_count(),
        engine=None if engine is None else connect(engine),
    )
    intact = _joined(inspected, findings)
    shards, positions = list(intact.shards), intact.whole
    if kind is None or not len(positions):
        problems = "; ".join(str(problem) for problem, _ in findings.problems[:3])
        reason = f"no sample is intact: {problems}"
        if not problems:
            reason = "it has no samples, and no damage: there is nothing to repair"
        raise FormatError(reason, source)
    is_folder = container_by_suffix(path.name) is None
    if shard_samples is None and shard_bytes is None and is_folder and len(shards) > 1:
        shard_samples = max(opened.samples for opened in shards)
    keyed = any(opened.keyed for opened in shards)
    if keyed:
        shards = _with_unique_keys(shards, positions, kind.name, findings)
    dataset = Dataset(shards, verify=True)
    packed = convert(
        dataset[positions],
        target,
        container=kind.name,
        keys=keyed or None,
        parts=parts,
        shard_samples=shard_samples,
        shard_bytes=shard_bytes,
        generation=_generation(places) if kind is places[0].container else None,
        mode=mode,
        threads=threads,
        engine=engine,
        progress=callback_of(progress),
    )
    dataset.close()
    return RepairResult(
        packed.container,
        packed.kept + packed.samples,
        intact.known - len(positions),
        intact.checked,
        tuple(problem for problem, _ in findings.problems),
        findings.more,
    )


def _container_to_write(
    places: Sequence[Place], source: Any, target: str | os.PathLike[str], to: str | None
) -> Container | None:
    """Return the container of the new dataset, by default the container of the shards; None without shards.

    Raises:
        FormatError: The shards have several containers.
        ValueError: `target` has the suffix of another container, or the container of the shards is
            only read.
    """
    kinds = {place.container.name for place in places}
    if len(kinds) > 1:
        raise FormatError(
            f"found shards of {' and '.join(sorted(kinds))}: "
            "repair one container at a time, with container=",
            source,
        )
    named = container_by_suffix(as_path(target).name)
    if to is None and places:
        place = places[0]
        to = place.container.name
        if not place.container.is_written:
            if named is None:
                written = ", ".join(container_names(written=True))
                raise ValueError(
                    f"{source} is a {to} dataset, which Bushel reads and does not "
                    f"write: name the container of the repaired one with to=: {written}"
                )
            to = named.name
    if to is None:
        return None
    if named is not None and named.name != to:
        message = f"{target} is the name of a {named.name} file, but the new dataset is {to}"
        raise ValueError(f"{message}: use another name, or pass to={named.name!r}")
    return get_writable(to)


def _joined(inspected: Iterable[Inspected], found: Findings) -> Inspected:
    """Return the samples of all shards. `found` gets the problems."""
    shards: list[OpenShard] = []
    positions = [NO_NUMBERS]
    known, samples, checked = 0, 0, True
    for of_shard in inspected:
        found.add_shard(of_shard.findings, samples)
        shards += of_shard.shards
        positions.append(of_shard.whole + samples)
        known += of_shard.known
        samples += sum(opened.samples for opened in of_shard.shards)
        checked &= of_shard.checked
    return Inspected(tuple(shards), np.concatenate(positions), known, checked, found)


def _with_unique_keys(
    shards: Sequence[OpenShard], whole: I64, container: str, found: Findings
) -> list[OpenShard]:
    """Return the shards with tables in which the samples to write have valid keys, and no key twice.

    Args:
        shards: The shards. Some may have no keys.
        whole: int64[n], ascending positions of the samples to write.
        container: Name of the container.
        found: Gets the keys that are changed.
    """
    name = _unique_names(container, found)
    changed: list[OpenShard] = []
    first = 0
    for opened in shards:
        begin, end = np.searchsorted(whole, [first, first + opened.samples])
        old = opened.index.keys
        if old is None:
            before = [str(row + first) for row in range(opened.samples)]
        else:
            before = old.tolist()
        after = list(before)
        for row in (whole[begin:end] - first).tolist():
            after[row] = name(before[row])
        if old is None or after != before:
            index = replace(opened.index, keys=Keys.of(after), labels=opened.labels)
            opened = OpenShard.of(
                opened.container, opened.shard, index, stored=False, damage=opened.damage
            )
        changed.append(opened)
        first += opened.samples
    return changed


def _unique_names(container: str, found: Findings) -> Callable[[str], str]:
    """Return a function that renames repeated and invalid keys. It is called with the key of each sample, in order."""
    seen: dict[str, int] = {}
    mended_key = get_container(container).mended_key

    def name(key: str) -> str:
        valid = mended_key(key)
        if valid != key:
            found.add_file(
                None, "key", f"the key {key!r} is invalid; it is now {valid!r}", key=valid
            )
            key = valid
        unique = key
        while unique in seen:
            seen[key] += 1
            unique = f"{key}~{seen[key]}"
        seen[unique] = 1
        if unique != key:
            found.add_file(
                None, "key", f"another sample has this key; this one is now {unique!r}", key=key
            )
        return unique

    return name


def _generation(places: Sequence[Place]) -> Any:
    """Return the generation to write: the generation of the first shard that shows one, or its writable successor."""
    for place in places:
        with suppress(FormatError):
            generation = place.container.generation(place.shard)
            if generation is not None:
                return place.container.written_as(generation)
    return None
