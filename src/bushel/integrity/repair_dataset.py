"""Repairing a dataset: writing its intact samples to a new one, and listing the damaged ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from bushel._dataset.open.sources import splits_of
from bushel._dataset.read.listed import each_shard
from bushel._dataset.read.shards import OpenShard
from bushel._dataset.views.dataset import Dataset
from bushel._index.shard import Keys
from bushel._pack import convert
from bushel._pack.reshape import of_whole
from bushel._runtime.arrays import I64, offsets_of
from bushel._runtime.messages import count
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
from bushel.errors import FormatError
from bushel.storage import AnyLocation, AnyPath, AnySource, as_path, below

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
        splits: Number of samples in the new dataset of each split; empty without splits.

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
    splits: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing was damaged."""
        return not self.problems and not self.more

    def __repr__(self) -> str:
        problems = len(self.problems) + self.more
        return f"<RepairResult: {self.written}, {self.lost:,} lost, {count(problems, 'problem')}>"

    @property
    def written(self) -> str:
        """What was written, in words: `7 samples written (train: 4, val: 3)`."""
        of_splits = ", ".join(f"{split}: {samples:,}" for split, samples in self.splits.items())
        return f"{count(self.samples, 'sample')} written{f' ({of_splits})' if of_splits else ''}"


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
    its checksum. `~2` is appended to the second use of a key. Each split of a folder of splits,
    such as `train/` and `val/`, becomes a dataset of its own below `target`.

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
        ValueError: `target` has the suffix of another container, or of a file although the source
            has splits; or the source's container is only read and none is named to write.
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
    splits = splits_of(source).paths
    is_new = mode == "create" and parts is None and engine is None
    targets = _targets(source, target, splits, kind if is_new else None)
    is_folder = container_by_suffix(as_path(target).name) is None
    inspect = partial(inspect_shard, decode=decode, room=max_problems)
    inspected = each_shard(places, inspect, threads=threads or cpu_count(), engine=engine)
    intact = _by_split(places, inspected, splits, findings)
    whole = sum(len(rows) for samples in intact.values() for _, rows in samples)
    if kind is None or not whole:
        problems = "; ".join(str(problem) for problem, _ in findings.problems[:3])
        reason = f"no sample is intact: {problems}"
        if not problems:
            reason = "it has no samples, and no damage: there is nothing to repair"
        raise FormatError(reason, source)
    generation = _generation(places) if kind is places[0].container else None
    written, size = dict.fromkeys(targets, 0), 0
    for split, place in targets.items():
        samples = intact[split]
        if not any(len(rows) for _, rows in samples):
            message = f"no sample of the split {split!r} is intact, and it is not written"
            findings.add_file(splits[split][0], "format", message)
            continue
        most = shard_samples
        if shard_samples is None and shard_bytes is None and is_folder and len(samples) > 1:
            most = max(opened.samples for opened, _ in samples)
        view, keyed = _view_of(samples, kind.name, findings)
        with view:
            packed = convert(
                view,
                place,
                container=kind.name,
                keys=keyed or None,
                parts=parts,
                shard_samples=most,
                shard_bytes=shard_bytes,
                generation=generation,
                mode=mode,
                threads=threads,
                engine=engine,
                progress=of_whole(callback_of(progress), sum(written.values()), size, whole),
            )
        written[split], size = packed.kept + packed.samples, size + packed.bytes
    return RepairResult(
        kind.name,
        sum(written.values()),
        sum(of_shard.known for of_shard in inspected) - whole,
        all(of_shard.checked for of_shard in inspected),
        tuple(problem for problem, _ in findings.problems),
        findings.more,
        written if splits else {},
    )


def _targets(
    source: Any, target: str | os.PathLike[str], splits: Iterable[str], kind: Container | None
) -> dict[str, AnyPath]:
    """Return the path of each new dataset by its split, under an empty name without splits.

    Raises:
        ValueError: There are splits, and the target is the name of a file.
        FileExistsError: One already holds a dataset of the container `kind`; None is not looked for.
    """
    path = as_path(target)
    targets = {split: below(path, split) for split in splits}
    if targets and container_by_suffix(path.name) is not None:
        message = f"{source} has the splits {', '.join(splits)}, and {target} is the name of a file"
        raise ValueError(f"{message}: name a folder for their datasets")
    for place in (path, *targets.values()):
        if kind is not None and place.exists() and holds_dataset(kind, place):
            raise FileExistsError(
                f"{place} already holds a dataset, but a repair writes a new one: "
                "use another path (mode='resume' continues an interrupted repair)"
            )
    return targets or {"": path}


Intact = list[tuple[OpenShard, I64]]
"""Shards, some perhaps without keys, and the rows of the intact samples of each: int64[n], ascending."""


def _by_split(
    places: Sequence[Place],
    inspected: Sequence[Inspected],
    splits: Mapping[str, Sequence[str]],
    found: Findings,
) -> dict[str, Intact]:
    """Return the intact samples by split, under an empty name without splits. `found` gets the problems.

    A folder of photos is one shard with the samples of all splits: their keys name the split.
    """
    intact: dict[str, Intact] = {split: [] for split in splits or ("",)}
    samples_before = 0
    for place, of_shard in zip(places, inspected, strict=True):
        found.add_shard(of_shard.findings, samples_before)
        samples_before += sum(opened.samples for opened in of_shard.shards)
        first = 0
        for opened in of_shard.shards:
            begin, end = np.searchsorted(of_shard.whole, [first, first + opened.samples])
            rows = of_shard.whole[begin:end] - first
            first += opened.samples
            if place.split or not splits:
                intact[place.split].append((opened, rows))
                continue
            keys = (opened.index.keys or Keys.of(())).tolist()
            for split, folders in splits.items():
                prefix = f"{as_path(folders[0])}/".removeprefix(f"{place.shard.root}/")
                named = [row for row in rows.tolist() if keys[row].startswith(prefix)]
                shard = _with_keys(opened, [key.removeprefix(prefix) for key in keys])
                intact[split].append((shard, np.array(named, np.int64)))
    return intact


def _view_of(samples: Intact, container: str, found: Findings) -> tuple[Dataset, bool]:
    """Return a view of the samples to write, each with a key that the container can have, and whether they have keys.

    `found` gets the keys that are changed.
    """
    shards = [opened for opened, _ in samples]
    keyed = any(opened.keyed for opened in shards)
    if keyed:
        shards = _with_unique_keys(samples, container, found)
    starts = offsets_of(opened.samples for opened in shards)[:-1]
    positions = [rows + start for (_, rows), start in zip(samples, starts, strict=True)]
    return Dataset(shards, verify=True)[np.concatenate(positions)], keyed


def _with_keys(opened: OpenShard, keys: Sequence[str]) -> OpenShard:
    """Return a shard whose samples have other keys."""
    index = replace(opened.index, keys=Keys.of(keys), labels=opened.labels)
    return OpenShard.of(opened.container, opened.shard, index, stored=False, damage=opened.damage)


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
        message = (
            f"found shards of {' and '.join(sorted(kinds))}: "
            "repair one container at a time, with container="
        )
        raise FormatError(message, source)
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


def _with_unique_keys(samples: Intact, container: str, found: Findings) -> list[OpenShard]:
    """Return the shards with tables in which the samples to write have valid keys, and no key twice.

    `container` is the name of the container; `found` gets the keys that are changed.
    """
    name = _unique_names(container, found)
    changed: list[OpenShard] = []
    first = 0
    for opened, rows in samples:
        old = opened.index.keys
        before = [str(row + first) for row in range(opened.samples)]
        if old is not None:
            before = old.tolist()
        after = list(before)
        for row in rows.tolist():
            after[row] = name(before[row])
        if old is None or after != before:
            opened = _with_keys(opened, after)
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
            message = f"another sample has this key; this one is now {unique!r}"
            found.add_file(None, "key", message, key=key)
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
