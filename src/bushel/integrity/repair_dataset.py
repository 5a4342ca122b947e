"""Writing a damaged dataset again without what is damaged, and saying what that was."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bushel.containers import container_by_suffix
from bushel.containers.base import ReadOptions
from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.shards import OpenShard, stamps_of, unchanged
from bushel.core.index.sidecar import load_index
from bushel.core.index.table import FileStamp, ShardIndex
from bushel.core.writer.output_paths import finds
from bushel.errors import BushelError, CorruptError, FormatError, SpecError
from bushel.ingest import convert
from bushel.integrity.check_shard import Scrutinised
from bushel.integrity.compare import differences
from bushel.integrity.discover import Place, discover
from bushel.integrity.recover_shard import salvage
from bushel.integrity.report import Findings, Problem
from bushel.storage import as_path

__all__ = ["Repair", "repair"]

_CHUNK = 64
"""Samples that are checked in one read."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What `bushel.repair` did.

    Attributes:
        container: Container of both datasets.
        samples: Samples of the new dataset.
        lost: Samples that are known to have been there and are not whole. Where `checked` is false there may be more:
            nothing tells how many samples a damaged stretch of a tar held.
        checked: Whether there was a checksum for every byte written; without, a sample is whole if its place is.
        problems: What is damaged, left out or renamed.
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
        """Whether nothing was wrong."""
        return not self.problems and not self.more


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
    report: Callable[[int, int | None], None] | None = None,
) -> Repair:
    """Write what is whole of a damaged dataset as a new one. The source is not changed.

    Of every shard the best table is used: that of Bushel's index if the files fit it, with its checksums; else the
    container's own; else what `bushel.integrity.recover_shard` finds by the format's framing. Samples of which a field
    cannot be read or does not match its checksum are left out; the second sample with a key gets `~2` behind it.

    Args:
        source: As for `bushel.open`; no streams.
        target: As for `bushel.Writer`.
        container: Its name, where a folder holds files of several.
        decode: Whether to leave out samples with a value that does not decode, too.
        shard_samples: As for `bushel.Writer`. By default, in a folder, as many as the largest shard of the source has,
            if it has several.
        shard_bytes: As for `bushel.Writer`.
        mode: As for `bushel.Writer`: `resume` goes on with a repair that was interrupted, with the same arguments.
        max_problems: Problems to list; further ones are counted.
        report: Called with the number of samples written so far, and that of all.

    Raises:
        FileNotFoundError: Nothing is there.
        FileExistsError: There is a dataset at `target`, whole or unfinished.
        ValueError: `target` has the suffix of another container.
        FormatError: There is no dataset at all, nothing of it is whole, or its shards are of several containers.
    """
    found = Findings(max_problems)
    places = discover(source, container, found)
    kinds = {place.container.name for place in places}
    if len(kinds) > 1:
        message = f"shards of {' and '.join(sorted(kinds))}: repair one at a time, with container="
        raise FormatError(message, file=str(source))
    named = container_by_suffix(as_path(target).name)
    if named is not None and not kinds <= {named.name}:
        message = (
            f"{target} is the name of a {named.name} file, and {source} is {', '.join(kinds)}: convert it afterwards"
        )
        raise ValueError(message)
    if mode == "create" and as_path(target).exists() and finds(places[0].container, as_path(target)):
        raise FileExistsError(
            f"{target} is a dataset already, and a repair makes a new one: use another path (mode='resume' goes on "
            "with an interrupted repair)"
        )
    beside = as_path(target).parent
    with tempfile.TemporaryDirectory(prefix=".bushel-repair-", dir=beside if isinstance(beside, Path) else None) as tmp:
        tried = [_open(place, Path(tmp) / f"{number:06d}", found) for number, place in enumerate(places)]
        shards = [opened for opened, _ in tried if opened is not None]
        dataset = Dataset(shards, verify=True)
        whole = list(_whole_samples(dataset, decode, found))
        if not whole:
            problems = "; ".join(str(problem) for problem, _ in found.problems[:3])
            raise FormatError(f"nothing of it is whole: {problems}", file=str(source))
        if named is None and shard_samples is None and shard_bytes is None and len(shards) > 1:
            shard_samples = max(opened.samples for opened in shards)
        done = convert(
            dataset[whole],
            target,
            container=places[0].container.name,
            keys=_names(found) if any(opened.keyed for opened in shards) else None,
            shard_samples=shard_samples,
            shard_bytes=shard_bytes,
            generation=_generation(places),
            mode=mode,
            progress=None if report is None else lambda now: report(now.done, now.total),
        )
        dataset.close()
    return Repair(
        done.container,
        done.kept + done.samples,
        len(dataset) - len(whole) + sum(lost for _, lost in tried),
        all(opened.checksums for opened in shards),
        tuple(problem for problem, _ in found.problems),
        found.more,
    )


def _open(place: Place, scratch: Path, found: Findings) -> tuple[OpenShard | None, int]:
    """The shard with the best table that there is of it, and how many samples that is known to lack."""
    name, shard = place.container.name, place.shard
    built, faults = _built(place)
    kept, fresh = _kept(place)
    proven = kept is not None and (fresh or built is None or not any(differences(kept, built)))
    for fault in faults:
        if not (proven and isinstance(fault, CorruptError)):  # which is found again where the sample is read
            found.fault(fault)
    if proven and kept is not None:
        return OpenShard.of(name, shard, kept, stored=False), 0
    if built is not None and not faults:
        return OpenShard.of(name, shard, built, stored=False), 0
    scratch.mkdir()
    left = salvage(name, shard, scratch, found.fault)
    if left.shard is None:
        return None, left.lost
    try:
        index = place.container.index(left.shard, ReadOptions())
        return OpenShard.of(name, left.shard, index, stored=False), left.lost
    except (FormatError, SpecError) as error:
        found.add(Problem(str(shard.path(0)), None, None, None, "format", f"what is left of it: {error}"))
        return None, left.lost


def _built(place: Place) -> tuple[ShardIndex | None, list[FormatError]]:
    """The table that the files give, and what is wrong with them."""
    try:
        built = place.container.index(place.shard, ReadOptions())
    except FormatError as error:
        return None, [error]
    return built, place.container.faults(place.shard) if isinstance(place.container, Scrutinised) else []


def _kept(place: Place) -> tuple[ShardIndex | None, bool]:
    """The table in the sidecar, if it has checksums to prove it by, and whether it is as new as the files."""
    try:
        index = load_index(place.shard.sidecar)
        index.check(str(place.shard.sidecar))
    except (FileNotFoundError, FormatError):
        return None, False
    if any(column.crc32 is None for column in index.columns.values()):
        return None, False
    stamps: tuple[FileStamp, ...] = ()
    with suppress(FormatError):  # a missing file: what lies in the others is still known
        stamps = stamps_of(place.shard)
    fresh = unchanged(index.files, stamps)
    return replace(index, files=stamps or index.files), fresh


def _whole_samples(dataset: Dataset, decode: bool, found: Findings) -> Iterator[int]:
    """The samples all of whose fields can be read, match their checksums and, if wanted, decode."""
    for first in range(0, len(dataset), _CHUNK):
        positions = range(first, min(first + _CHUNK, len(dataset)))
        try:
            dataset.read(positions, decode=decode)
        except (BushelError, OSError):
            yield from (position for position in positions if _is_whole(dataset, position, decode, found))
        else:
            yield from positions


def _is_whole(dataset: Dataset, position: int, decode: bool, found: Findings) -> bool:
    try:
        dataset.read([position], decode=decode)
    except CorruptError as error:
        message = error.message
        if error.found is not None and error.expected is not None:
            message = f"has the CRC-32 {error.found:08x} where {error.expected:08x} was written"
        found.add(Problem(error.file, error.offset, error.key, error.field, "checksum", message))
    except FormatError as error:
        found.fault(error)
    except (BushelError, OSError) as error:
        found.add(Problem(None, None, dataset.keys[position], None, "decode", str(error)))
    else:
        return True
    return False


def _names(found: Findings) -> Callable[[str], str]:
    """Gives keys that come again another name; called with the key of every sample, in order."""
    seen: Counter[str] = Counter()

    def name(key: str) -> str:
        seen[key] += 1
        while seen[key] > 1:
            other = f"{key}~{seen[key]}"
            if other not in seen:
                seen[other] += 1
                found.add(Problem(None, None, key, None, "key", f"another sample has this key: it is now {other!r}"))
                return other
            seen[key] += 1
        return key

    return name


def _generation(places: Sequence[Place]) -> Any:
    """The generation of the first shard that still tells it; C for a bag that has tables of its own."""
    for place in places:
        with suppress(FormatError):
            generation = place.container.generation(place.shard)
            return "B" if generation == "A" else generation
    return None
