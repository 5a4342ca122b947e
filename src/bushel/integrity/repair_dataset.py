"""Repairing a dataset: writing its intact samples to a new one, and listing the damaged ones."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bushel.codecs import get_codec
from bushel.containers import container_by_suffix
from bushel.containers.base import ReadOptions
from bushel.containers.checksums import with_checksums
from bushel.containers.recover_shard import recover_shard
from bushel.containers.recovery import Bools
from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.shards import OpenShard, labels_beside
from bushel.core.dataset.tables import bind, stamps_of
from bushel.core.index.class_names import Labels, labels_of_fields
from bushel.core.index.matching import checked, compare_values
from bushel.core.index.sidecar import load_index
from bushel.core.index.table import FileStamp, Keys, ShardIndex
from bushel.core.progress import OnProgress
from bushel.core.writer.target import holds_dataset
from bushel.errors import BushelError, CorruptError, FormatError
from bushel.ingest import convert
from bushel.integrity.check_shard import ReportsFaults
from bushel.integrity.compare import differences
from bushel.integrity.discover import Place, discover
from bushel.integrity.problems import Findings, Problem
from bushel.sources.stored import stored_unchanged
from bushel.spec import KEY, Spec, parse_spec
from bushel.storage import as_path, open_file

__all__ = ["RepairResult", "repair"]

_CHUNK = 64
"""Number of samples that are checked in one read."""


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of `bushel.repair`.

    Attributes:
        container: Container of both datasets.
        samples: Number of samples in the new dataset.
        lost: Number of samples that are known to have existed and are damaged. If `checked` is False, there may be
            more: nobody knows how many samples a damaged part of a tar held.
        checked: Whether every byte that was written has been compared with a checksum. Otherwise a sample counts as
            whole if its extents are valid.
        problems: What was damaged, left out or renamed.
        more: Number of problems that are not listed.
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
        return f"<RepairResult: {self.samples:,} samples written, {self.lost:,} lost, {problems} problems>"


def repair(
    source: Any,
    target: str | os.PathLike[str],
    *,
    container: str | None = None,
    decode: bool = False,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    mode: Literal["create", "resume"] = "create",
    max_problems: int = 1000,
    workers: int | None = None,
    progress: OnProgress | None = None,
) -> RepairResult:
    """Write the intact samples of a damaged dataset to a new one. The source is not changed.

    For every shard the best available table is used: Bushel's index with its checksums if the files match it; else the
    container's own; else what can be recovered from the framing of the format (docs/integrity.md). A sample is left out
    if one of its fields cannot be read or does not match its checksum. `~2` is appended to the second use of a key.

    Args:
        source: As for `bushel.open`.
        target: As for `bushel.Writer`.
        container: Name of the container, if a folder holds files of several.
        decode: Whether to leave out samples with a value that cannot be decoded, too.
        shard_samples: As for `bushel.Writer`. For a folder of several shards, the default is the number of samples in
            the largest one.
        shard_bytes: As for `bushel.Writer`.
        mode: As for `bushel.Writer`: `resume` continues an interrupted repair with the same arguments.
        max_problems: Number of problems to list; further ones are counted.
        workers: Number of threads; by default the number of CPUs.
        progress: Called with the number of samples written so far.

    Raises:
        FileNotFoundError: The path does not exist.
        FileExistsError: `target` already holds a dataset, complete or unfinished.
        ValueError: `target` has the suffix of another container.
        FormatError: The source is not a dataset, has no intact sample, or has shards of several containers.
    """
    found = Findings(max_problems)
    places = discover(source, container, found)
    kinds = {place.container.name for place in places}
    if len(kinds) > 1:
        message = f"found shards of {' and '.join(sorted(kinds))}: repair one container at a time, with container="
        raise FormatError(message, file=str(source))
    named = container_by_suffix(as_path(target).name)
    if named is not None and not kinds <= {named.name}:
        message = f"{target} is the name of a {named.name} file, but {source} is {', '.join(kinds)}"
        raise ValueError(f"{message}: repair it first, then convert it")
    if mode == "create" and as_path(target).exists() and holds_dataset(places[0].container, as_path(target)):
        raise FileExistsError(
            f"{target} already holds a dataset, but a repair writes a new one: use another path (mode='resume' "
            "continues an interrupted repair)"
        )
    shards: list[OpenShard] = []
    masks: list[Bools] = []
    listed = 0
    for place in places:
        parts, missing = _open(place, found)
        labels = _labels(place)
        for opened, _ in parts:
            opened.labels = labels_of_fields(labels, [field.name for field in opened.fields])
        shards += [opened for opened, _ in parts]
        masks += [whole for _, whole in parts]
        listed += missing + (parts[0][0].samples if parts else 0)
    dataset = Dataset(shards, verify=True)
    located = np.flatnonzero(np.concatenate([np.zeros(0, np.bool_), *masks]))
    whole = list(_whole_samples(dataset, located.tolist(), decode, found))
    if not whole:
        problems = "; ".join(str(problem) for problem, _ in found.problems[:3])
        raise FormatError(f"no sample is intact: {problems}", file=str(source))
    if named is None and shard_samples is None and shard_bytes is None and len(shards) > 1:
        shard_samples = max(opened.samples for opened in shards)
    done = convert(
        dataset[whole],
        target,
        container=places[0].container.name,
        keys=_unique_names(places[0].container.name, found) if any(opened.keyed for opened in shards) else None,
        shard_samples=shard_samples,
        shard_bytes=shard_bytes,
        generation=_generation(places),
        mode=mode,
        workers=workers,
        progress=progress,
    )
    dataset.close()
    return RepairResult(
        done.container,
        done.kept + done.samples,
        listed - len(whole),
        all(opened.checksums for opened in shards),
        tuple(problem for problem, _ in found.problems),
        found.more,
    )


def _open(place: Place, found: Findings) -> tuple[list[tuple[OpenShard, Bools]], int]:
    """Return the shard with its best available table, and the number of samples known to be missing from it.

    The table comes with bool[samples]: whether the extents of a sample are known. If the index does not locate all
    samples, there is a second table, for those that are found elsewhere in the damaged files.
    """
    name, shard = place.container.name, place.shard
    built, faults = _table_from_files(place)
    kept, fresh = _stored_table(place)
    proven = kept is not None and (fresh or built is None or not any(differences(kept, built)))
    for fault in faults:
        if not (proven and isinstance(fault, CorruptError)):  # found again when the sample is read
            found.add_error(fault)
    if proven and kept is not None:
        opened = OpenShard.of(name, shard, kept, stored=False)
        everything = np.ones(kept.samples, np.bool_)
        if built is not None or kept.keys is None:
            return [(opened, everything)], 0
        return _with_moved_samples(place, opened, kept, kept.keys), 0
    repeated = built is not None and built.keys is not None and bool(built.keys.duplicates())
    if built is not None and not faults and not repeated:
        built = _with_known_checksums(place, kept, built)
        return [(OpenShard.of(name, shard, built, stored=False), np.ones(built.samples, np.bool_))], 0
    recovered = recover_shard(name, shard, None if kept is None else _spec(kept), found.add_error)
    if recovered is None:
        return [], 0
    index = _with_known_checksums(place, kept, recovered.index)
    return [(OpenShard.of(name, shard, index, stored=False), recovered.whole)], recovered.lost


def _with_known_checksums(place: Place, known: ShardIndex | None, index: ShardIndex) -> ShardIndex:
    """Return the table of a changed shard with the checksums on record of its values, unless no value has its own."""
    if known is None:
        return index
    shard = place.shard
    try:
        files = [open_file(shard.path(number)) for number in range(len(shard.files))]
        now = with_checksums(index, files, join=place.container.join)
        compared = compare_values(checked(known, str(shard.sidecar)), now)
    except (FormatError, OSError):  # the values that cannot be read are found when they are read
        return index
    return compared.expected() if compared.equal else index


def _with_moved_samples(place: Place, opened: OpenShard, kept: ShardIndex, keys: Keys) -> list[tuple[OpenShard, Bools]]:
    """Return the table of the index, and one for samples that moved in the file and still match their checksums."""
    name, shard = place.container.name, place.shard
    everything = np.ones(kept.samples, np.bool_)
    own = list(_whole_samples(Dataset([opened], verify=True), list(range(kept.samples)), False, Findings(0)))
    if len(own) == kept.samples:
        return [(opened, everything)]
    recovered = recover_shard(name, shard, _spec(kept), lambda _: None)
    if recovered is None or recovered.index.keys is None:
        return [(opened, everything)]
    files = [open_file(shard.path(number)) for number in range(len(shard.files))]
    index = with_checksums(recovered.index, files, join=place.container.join)
    missing = np.setdiff1d(np.arange(kept.samples), own)
    wanted = {keys[sample]: _checksums(kept, sample) for sample in missing.tolist()}
    names = recovered.index.keys.take(np.arange(index.samples, dtype=np.int64))
    moved = np.array(
        [key in wanted and _checksums(index, row) == wanted[key] for row, key in enumerate(names)], np.bool_
    )
    moved &= recovered.whole
    if not moved.any():
        return [(opened, everything)]
    again = {names[row] for row in np.flatnonzero(moved).tolist()}
    everything[[sample for sample in missing.tolist() if keys[sample] in again]] = False
    return [(opened, everything), (OpenShard.of(name, shard, index, stored=False), moved)]


def _checksums(index: ShardIndex, sample: int) -> dict[str, list[tuple[int, int]]]:
    """Return size and CRC-32 of the values of a sample."""
    found = {}
    for name, column in index.columns.items():
        rows = column.rows_of(np.array([sample], np.int64))[0]
        crc32 = column.crc32 if column.crc32 is not None else np.zeros(column.rows, np.uint32)
        found[name] = list(zip(column.length[rows].tolist(), crc32[rows].tolist(), strict=True))
    return found


def _labels(place: Place) -> Labels:
    """Return the names of classes in the index of a shard, whether it fits or not; else those of the dataset."""
    labels: Labels = {}
    with suppress(FormatError, OSError):  # the index is missing or damaged
        labels = load_index(place.shard.sidecar).labels
    return labels or labels_beside(place.container.name, [place.shard])


def _spec(index: ShardIndex) -> Spec:
    return {name: column.field for name, column in index.columns.items()}


def _table_from_files(place: Place) -> tuple[ShardIndex | None, list[FormatError]]:
    """Return the table made from the files, and the errors in them."""
    try:
        stamps_of(place.shard)  # names a missing file
        built = place.container.index(place.shard, ReadOptions())
    except FormatError as error:
        return None, [error]
    return built, place.container.faults(place.shard) if isinstance(place.container, ReportsFaults) else []


def _stored_table(place: Place) -> tuple[ShardIndex | None, bool]:
    """Return the table of the sidecar if it has checksums, and whether the files are unchanged since it was made."""
    try:
        index = load_index(place.shard.sidecar, check=True)
        index.check(str(place.shard.sidecar))
    except (FileNotFoundError, FormatError):
        return None, False
    if any(column.crc32 is None for column in index.columns.values()):
        return None, False
    stamps: tuple[FileStamp, ...] = ()
    with suppress(FormatError):  # a file is missing; the extents in the others are still known
        stamps = stamps_of(place.shard)
    fresh = bool(stamps) and bind(index.files, stamps, place.shard) is not None
    return replace(index, files=stamps or index.files), fresh


def _whole_samples(dataset: Dataset, located: list[int], decode: bool, found: Findings) -> Iterator[int]:
    """Yield the located samples whose fields can all be read, match their checksums and, on request, be decoded."""
    for first in range(0, len(located), _CHUNK):
        positions = located[first : first + _CHUNK]
        try:
            _read(dataset, positions, decode)
        except (BushelError, OSError):
            yield from (position for position in positions if _is_whole(dataset, position, decode, found))
        else:
            yield from positions


def _read(dataset: Dataset, positions: list[int], decode: bool) -> None:
    """Read samples. Values that are not stored as they are must be valid in any case: writing encodes them again."""
    dataset.read(positions, decode=decode)
    fields = parse_spec(dataset.spec)
    encoded = [name for name, field in fields.items() if not stored_unchanged(field.codec)]
    if encoded:
        for sample in dataset.read(positions, encoded, decode=True):
            for name in sample.keys() - {KEY}:
                encode = get_codec(fields[name].codec).encode
                for value in sample[name] if fields[name].sequence else (sample[name],):
                    encode(value)


def _is_whole(dataset: Dataset, position: int, decode: bool, found: Findings) -> bool:
    try:
        _read(dataset, [position], decode)
    except CorruptError as error:
        message = error.message
        if error.found is not None and error.expected is not None:
            message = f"should have the CRC-32 {error.expected:08x}, found {error.found:08x}"
        found.add(Problem(error.file, error.offset, error.key, error.field, "checksum", message))
    except FormatError as error:
        found.add_error(error)
    except (BushelError, OSError) as error:
        found.add(Problem(None, None, dataset.keys[position], None, "decode", str(error)))
    else:
        return True
    return False


def _unique_names(container: str, found: Findings) -> Callable[[str], str]:
    """Return a function that renames repeated and invalid keys. It is called with the key of each sample, in order."""
    seen: Counter[str] = Counter()

    def name(key: str) -> str:
        valid = _valid_text(key) if container == "recordio" else key.replace("\0", "\ufffd")
        if valid != key:
            found.add(Problem(None, None, valid, None, "key", f"the key {key!r} is invalid; it is now {valid!r}"))
            key = valid
        seen[key] += 1
        while seen[key] > 1:
            other = f"{key}~{seen[key]}"
            if other not in seen:
                seen[other] += 1
                found.add(
                    Problem(None, None, key, None, "key", f"another sample has this key; this one is now {other!r}")
                )
                return other
            seen[key] += 1
        return key

    return name


def _valid_text(key: str) -> str:
    """Return a key that an `.idx` can hold: valid text without control characters and leading spaces."""
    text = key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return re.sub(r"[\x00-\x1f]", "\ufffd", text).lstrip() or "\ufffd"


def _generation(places: Sequence[Place]) -> Any:
    """Return the generation to write: that of the first shard that shows one, with B instead of A."""
    for place in places:
        with suppress(FormatError):
            generation = place.container.generation(place.shard)
            return "B" if generation == "A" else generation
    return None
