"""The arguments of `pack` and `convert` as one value, and a source that is ready to be packed.

That is its order, its fields, the encoder of its samples, and how they are written. A source is not
packed into itself.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from msgspec import Struct

from bushel._dataset.open.as_listed import discover
from bushel._dataset.open.binding import bind, stamps_of
from bushel._dataset.read.shards import OpenShard
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.mapped import Mapped
from bushel._index.identity import digest_of_value
from bushel._index.names import check_labels, names_of
from bushel._runtime.arrays import I64, check_count
from bushel._runtime.draws import Order
from bushel._runtime.order import Sequential, Shuffle
from bushel._runtime.public import check_list
from bushel._runtime.threads import cpu_count
from bushel._writer.target import WriterOptions
from bushel.engines import connect
from bushel.errors import FormatError, SpecError, StateError
from bushel.sources import Files, LabelledFolder, Source
from bushel.sources.foreign import StoredStream
from bushel.sources.samples import Stream, digest_of, in_memory
from bushel.spec import format_spec, parse_spec
from bushel.storage import AnyPath, as_path, is_object

from .encoder import Encoder

if TYPE_CHECKING:
    from bushel.transforms.by_field import Transforms


Treatment = Literal["check", "upright", "baseline", "tile"]
"""The treatment of an image whose bytes would be stored as they are: see `pack`."""

Images = Treatment | Iterable[Treatment] | None

Part = int | Literal["plan"] | None
"""The only part that a call writes, or only the plan of the run; None for all that are missing."""


class PackOptions(Struct, frozen=True, kw_only=True):
    """The arguments of `pack` and `convert` apart from source, target and progress: see `pack`.

    Raises:
        SpecError: A type stands for names of files.
        ValueError: There would be no thread.
    """

    fields: tuple[str, ...] | None
    rename: Mapping[str, str]
    spec: Mapping[str, str]
    transforms: Transforms | None
    images: frozenset[str]
    keys: bool | Callable[[str], str] | None
    seek: bool | None
    shuffle: Shuffle
    seed: int
    max_errors: float | None
    kind: str | None = None  # kind of the source; None if it is detected
    # whether the first error is raised as it is
    strict: bool = False
    threads: int | None
    processes: int
    engine: Any
    parts: int | None
    part: Part
    # how each dataset is written; names of classes, folders and seek tables follow from the source
    writer: WriterOptions

    def __post_init__(self) -> None:
        if self.threads is not None:
            check_count("threads", self.threads, least=1)
        check_count("processes", self.processes)
        of_files = [kind for kind in self.spec.values() if kind.endswith(("(path)", "(url)"))]
        if of_files:
            raise SpecError(
                f"{of_files[0]} is a type to read names of files with: pack "
                f"or convert bushel.open(source, spec={dict(self.spec)})"
            )

    @property
    def on_damage(self) -> Literal["warn", "raise"]:
        """Treatment of a damaged dataset (`bushel.open`): it is read as far as possible if samples may fail."""
        return "raise" if self.max_errors == 0 else "warn"

    @classmethod
    def of(cls, arguments: Mapping[str, Any], **changed: Any) -> PackOptions:
        """Return the arguments of a public function in their final types.

        Args:
            arguments: The arguments, as `locals()` has them at the beginning of `pack` or
                `convert`; others are skipped.
            changed: Arguments with other values, and further ones.

        Raises:
            SpecError: The labels are invalid.
            TypeError, ValueError: An argument is invalid.
        """
        options = {**arguments, **changed}
        names, engine = options["fields"], options["engine"]
        rename = options["rename"] or {}
        check_list("fields", names)
        if not isinstance(rename, Mapping):
            raise TypeError(
                f"rename={rename!r}: expected a mapping of old names to new ones, "
                "as in rename={'image': 'jpg'}"
            )
        labels = check_labels(options.get("labels") or {})
        images = frozenset(names_of(options["images"] or ()))
        if unknown := sorted(images.difference(get_args(Treatment))):
            raise ValueError(
                f"invalid images={unknown[0]!r}: write 'check', "
                "'upright', 'baseline' or 'tile', or several of them"
            )
        if not (isinstance(options["keys"], bool | None) or callable(options["keys"])):
            raise TypeError(f"keys={options['keys']!r}: expected a bool, or a function of a key")
        options |= {
            "fields": None if names is None else tuple(names),
            "rename": dict(rename),
            "spec": format_spec(parse_spec(options["spec"] or {})),
            "images": images,
            # here, so that a wrong name is an early error
            "engine": None if engine is None else connect(engine),
            # the source decides on seek tables, if the caller does not
            "writer": WriterOptions.of({**options, "labels": labels, "seek": False}),
        }
        return cls(**{name: options[name] for name in cls.__struct_fields__ if name in options})

    @property
    def in_parts(self) -> bool:
        """Whether parts are written, and not one dataset."""
        return self.parts is not None or self.engine is not None

    @property
    def at_once(self) -> int:
        """Number of batches of a part that are encoded at the same time."""
        usual = cpu_count() if self.engine is None else 1
        return self.processes or self.threads or usual


class BatchLimits(Struct, frozen=True):
    """How many items are encoded as one batch."""

    bytes: int  # by the mean of the items so far, or by their lengths where these are known
    items: int = 256
    first: int = 4  # items of the batches before the first result
    # whether the number of batches that wait for the writer is limited, and not their bytes: each
    # has a buffer
    by_number: bool = False


_SAMPLES = BatchLimits(1 << 20)
_DATASET = BatchLimits(16 << 20)
_REMOTE = BatchLimits(8 << 20)  # many objects are requested at once
_FILES = BatchLimits(3 << 20, by_number=True)  # in buffers of 4 MiB
_IN_MEMORY = BatchLimits(8 << 20, items=1 << 16, first=64)
_COMPARED_AT_ONCE = 1 << 16
_STAMPS = 1000  # shards, and files of each, whose times an identity contains, at most


class Prepared(Struct, frozen=True):
    """A source, and how its samples are packed."""

    source: Dataset | Source | Stream
    order: Order  # order of its items; a stream has an order of no items
    parts: int | None  # number of parts to write; None for one dataset
    spec: dict[str, str]  # field to type of the target
    encoder: Encoder  # encodes samples as the container stores them
    writing: WriterOptions  # how each dataset is written
    # maps every key to the stored key, or None; it is called in the order of the samples
    key: Callable[[str], str] | None
    limits: tuple[str, ...] = ()  # properties of the source that the target does not keep, in words
    # the shards of the dataset that is continued, which its writer takes over; None if it looks for
    # them
    existing: list[OpenShard] | None = None

    @property
    def items(self) -> int | None:
        """Number of items, or None for a stream."""
        if isinstance(self.source, Stream):
            return None
        return self.order.samples

    @property
    def batches(self) -> BatchLimits:
        """How many items are encoded as one batch."""
        if self.encoder.in_memory:
            return _IN_MEMORY
        if isinstance(self.source, Dataset | StoredStream):
            return _DATASET
        if self.encoder.by_columns:
            return _FILES
        remote = getattr(self.source, "remote", False)
        return _REMOTE if remote else _SAMPLES

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of the source with its spec; None if it has none of its own.

        The sizes and times of a thousand files of a shard at most enter, of a dataset without
        checksums. Files of a folder may be mended in between: they enter by their names alone.
        """
        source: Any = self.source
        fingerprint = getattr(source, "fingerprint", None)
        if fingerprint is None:
            return None
        facts: list[Any] = [dict(source.spec)]
        if isinstance(source, Dataset):
            facts += [
                {stamp.name: (stamp.size, stamp.mtime_ns) for stamp in shard.stamps[:_STAMPS]}
                for shard in source.shards[:_STAMPS]
                if not shard.checksums
            ]
        return f"{fingerprint} {digest_of_value(facts):08x}"

    @property
    def identity(self) -> str:
        """Which data the source holds: two calls, in different processes, pack the same items if it is equal.

        It is the fingerprint of the source, or a digest of its items.
        """
        fingerprint, source = self.fingerprint, self.source
        if fingerprint is not None:
            return fingerprint
        facts = [
            dict(source.spec),
            dict(getattr(source, "labels", {})),
            self.encoder.feed.origin(0),
        ]
        items, before = self.order.samples, digest_of_value(facts)
        digest = digest_of_items(source, Sequential(items, 0), 0, items, before)
        return f"{items} {digest:08x}"

    def lengths(self, positions: I64) -> I64 | None:
        """Return int64[n], the stored bytes of these items in a dataset; None for other sources."""
        if not isinstance(self.source, Dataset):
            return None
        total = np.zeros(len(positions), np.int64)
        for name in self.encoder.plans:
            total += np.maximum(self.source.lengths(positions, name), 0)
        return total


def digest_of_items(source: Any, order: Order, first: int, last: int, before: int) -> int:
    """Return a digest of the items of an order from one number up to another, continued from that of those before.

    It is of all items that are in memory. Of items that are computed when they are read, it is of
    the numbers 0, 1, 2, 4, 8, 16, ….
    """
    last = min(last, order.samples)
    powers = [0, *(1 << power for power in range(last.bit_length()))]
    numbers: Sequence[int] = [number for number in powers if first <= number < last]
    if in_memory(source):
        numbers = range(first, last)
    for start in range(0, len(numbers), _COMPARED_AT_ONCE):
        some = np.asarray(numbers[start : start + _COMPARED_AT_ONCE], np.int64)
        before = digest_of(source, order.take(0, some), before)
    return before


def describe_skipped(skipped: Mapping[str, int]) -> str:
    """Return the numbers of skipped files by kind: `3 .nef, 1 .mp4`."""
    return ", ".join(f"{number:,} {kind}" for kind, number in skipped.items())


_Place = tuple[str, ...]  # the parts of a resolved path, or of a URL


def refuse_own_source(
    source: Any, opened: Dataset | Source | Stream, target: AnyPath, options: PackOptions
) -> None:
    """Check that a target is not the source, is not in the folder of the source, and does not contain the source.

    With `mode="overwrite"` it may be the source or contain it, as the new dataset then replaces the
    old one when it is complete; but not in parts, which replace the old parts one by one.

    Args:
        source: The source as it was given: a path, a list of paths, or any object.
        opened: The same source, opened.
        target: The path to write to.
        options: The arguments of `pack`.

    Raises:
        FileExistsError: It is one of these.
        StateError: The target is to be replaced by samples of a dataset there that has changed
            since it was opened.
    """
    if isinstance(source, Mapped):
        source = opened = source.dataset
    place_of_target = _resolved(target)
    replaces = options.writer.mode == "overwrite" and not options.in_parts
    if replaces and isinstance(source, Dataset) and target.exists():
        _refuse_changed(source, target, place_of_target)
    for path, place in _places(source, opened, place_of_target):
        is_inside = len(place) < len(place_of_target)
        if not overlap(place, place_of_target) or (replaces and not is_inside):
            continue
        if place == place_of_target:
            what = f"{target} is the source itself"
        elif is_inside:
            what = f"{target} is in the source {path}"
        else:
            what = f"{target} contains the source {path}"
        advice = "write to another path"
        if isinstance(opened, Dataset) and not is_inside:
            advice += ", or replace the source with mode='overwrite'"
            advice += " and without parts" * options.in_parts
        raise FileExistsError(f"{what}: {advice}")


def _refuse_changed(dataset: Dataset, target: AnyPath, place: _Place) -> None:
    """Check that a dataset whose files are to be replaced is as it was when the caller opened it.

    Another writer may have had the target since then, and what that one wrote would be lost.
    """
    overlapping = [
        shard
        for shard in dataset.shards
        if overlap((*_resolved(shard.shard.root), *shard.shard.files[:1]), place)
    ]
    if not overlapping:
        return
    opened = {os.path.realpath(str(shard.path(0))) for shard in overlapping}
    later = (str(shard.path(0)) for shard in discover([target], allow_incomplete=True).shards)
    new = (path for path in later if os.path.realpath(path) not in opened)
    changed = (str(shard.path(0)) for shard in overlapping if not _is_as_opened(shard))
    for path in chain(new, changed):
        raise StateError(
            f"{path} was written after the source was opened, and would be "
            "replaced without its samples: give the path of the source, which is "
            "opened when no other process can write it, or open the source again"
        )


def _is_as_opened(shard: OpenShard) -> bool:
    try:
        now = stamps_of(shard.shard)
        if shard.loaded:  # it has the times that its files had when it was opened
            facts = attrgetter("name", "size", "mtime_ns")
            return list(map(facts, shard.stamps)) == list(map(facts, now))
        return bind(shard.stamps, now, shard.shard) is not None
    except FormatError:  # a file was deleted
        return False


def overlap(one: _Place, other: _Place) -> bool:
    """Return whether two places are the same, or one is in the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _resolved(path: AnyPath) -> _Place:
    if isinstance(path, Path):
        return Path(os.path.realpath(path)).parts
    return tuple(str(path).rstrip("/").split("/"))


def _places(
    source: Any, opened: Dataset | Source | Stream, target: _Place
) -> Iterator[tuple[str, _Place]]:
    """Yield the paths of a source, and its files."""
    is_list = isinstance(source, list | tuple)
    paths = source if is_list and isinstance(opened, Dataset) else [source]
    for path in filter(_is_path, paths):
        yield str(path), _resolved(as_path(path))
    if isinstance(opened, Files | LabelledFolder):
        folder = _resolved(opened.root)
        if not is_list:
            yield str(opened.root), folder
        else:  # only the files that are named, not the folder that they have in common
            yield from (
                (f"{opened.root}/{name}", (*folder, *name.split("/"))) for name in opened.listing
            )
    if not isinstance(opened, Dataset):
        return
    shards = {(str(shard.shard.root), shard.shard.name): shard.shard for shard in opened.shards}
    shards_in = Counter(above for above, _ in shards)
    roots: dict[str, _Place] = {}
    for (above, name), shard in shards.items():
        if (root := roots.get(above)) is None:
            root = roots[above] = _resolved(shard.root)
        if not name:  # the folder is the shard
            yield above, root
            continue
        for file in [shard.own_folder] if shard.own_folder else shard.files:
            path, place = f"{above}/{file}", (*root, *file.split("/"))
            if os.path.islink(path):  # it stands for the file that it names
                place = _resolved(Path(path))
            # other shards of the source would stay
            if place == target and shards_in[above] > 1:
                yield above, place[:-1]
            yield path, place


def _is_path(source: Any) -> bool:
    if isinstance(source, str):
        return source != "-" and not source.startswith("pipe:")
    return isinstance(source, os.PathLike) or is_object(source)
