"""WebDataset.jl in Python: a dataset descriptor, its stages as iterators, and loaders of several threads.

Names and defaults are those of the Julia package. A Julia pair `rule => function` is a tuple `(rule, function)`, a
Julia `take!(channel)` is `channel.take()`. `docs/compat-webdataset.md` lists the differences.
"""

from __future__ import annotations

import json
import random
import re
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, TypeAlias

from bushel.codecs import get_codec
from bushel.compat.webdataset.channel import Channel
from bushel.compat.webdataset.gopen import Pipe
from bushel.compat.webdataset.permission import check_commands
from bushel.compat.webdataset.rules import Continue, Rename, Rule, Rules, map_by_rules
from bushel.compat.webdataset.tariterators import member_contents
from bushel.containers.tar import split_name
from bushel.errors import FormatError, TooManyErrors
from bushel.storage import expand_braces

__all__ = [
    "Channel",
    "Continue",
    "DatasetDescriptor",
    "Rename",
    "Rule",
    "Rules",
    "allsplitext",
    "braceexpand",
    "clsdecode",
    "dataloader",
    "debugloader",
    "default_decoders",
    "generic_open",
    "imdecode",
    "jsondecode",
    "last_exception",
    "loadproc",
    "map_by_rules",
    "max_exceptions",
    "num_exceptions",
    "samplebatching",
    "sampleiterator",
    "sampleshuffle",
    "sampletransforms",
    "tariterator",
    "transpose_batch",
]

Sample: TypeAlias = dict[str, Any]
Source: TypeAlias = str | Sequence[str]
"""A path, `pipe:` and a command, or the words of a command."""
Handle: TypeAlias = Literal["ignore", "raise"]

max_exceptions = 999999999
"""Exceptions of transforms after which there is an error. Programs set it."""

num_exceptions: int
"""Exceptions of transforms in this process so far."""

last_exception: Exception | None
"""The last of them."""

_CLASSES = 999999


class _Exceptions:
    """What has gone wrong in the transforms of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0
        self.last: Exception | None = None

    def add(self, error: Exception) -> int:
        """Count one."""
        with self._lock:
            self.count += 1
            self.last = error
            return self.count


_exceptions = _Exceptions()


def __getattr__(name: str) -> Any:
    if name == "num_exceptions":
        return _exceptions.count
    if name == "last_exception":
        return _exceptions.last
    raise AttributeError(f"module 'bushel.compat.webdataset.jl' has no attribute {name!r}")


def _identity(value: Any) -> Any:
    return value


def _everything() -> list[tuple[Rule, Callable[[Any], Any]]]:
    return [("", _identity)]


@dataclass
class DatasetDescriptor:
    """All that a loader needs to know.

    Attributes:
        sources: The shards: paths, `pipe:` and a command, or the words of a command.
        shuffle: Samples in the shuffle buffer; 0 for none.
        batchsize: Samples in a batch; 0 for single samples. Batches do not span shards.
        decoding: Rules that take the bytes of files.
        augmenting: Rules that take what became of them.
        mapping: A function of whole samples behind these.
        collating: Rules that take the lists of a batch.
        csize: Batches that are made ahead.
        ntasks: Threads, each of which reads one shard at a time.
        verbose: Whether to say which shards are read.
        debug: Whether to say which samples are, too.
    """

    sources: Sequence[Source] = field(default_factory=list)
    shuffle: int = 1000
    batchsize: int = 16
    decoding: Rules = field(default_factory=_everything)
    augmenting: Rules = field(default_factory=_everything)
    mapping: Callable[[Sample], Any] = _identity
    collating: Rules = field(default_factory=_everything)
    csize: int = 100
    ntasks: int = 4
    verbose: bool = False
    debug: bool = False


# decoders


def clsdecode(data: bytes) -> int:
    """A class: decimal text of at most six digits.

    Raises:
        CodecError: It is none.
        ValueError: It is out of range.
    """
    number: int = get_codec("cls").decode(data)
    if not -_CLASSES <= number <= _CLASSES:
        raise ValueError(f"class {number} is out of range: -{_CLASSES} to {_CLASSES}")
    return number


def imdecode(data: bytes) -> Any:
    """An image as uint8 HxWx3, or HxW if it is grey.

    Raises:
        CodecError: It is none.
    """
    return get_codec("image").decode(data)


def jsondecode(data: bytes) -> Any:
    """What is written as JSON."""
    return json.loads(data)


default_decoders: list[tuple[Rule, Callable[[Any], Any]]] = [
    (".cls", clsdecode),
    (Rename(re.compile(r"\.(jpg|jpeg|png|p[bgpn]m)$"), ".img"), imdecode),
    (".json", jsondecode),
]
"""Classes, common images (whose fields become `.img`) and JSON."""


# stages


def braceexpand(pattern: str | Iterable[str]) -> list[str]:
    """Expand `{000..146}` in a pattern, or in each of several. Other braces stay, as commands need them."""
    patterns = [pattern] if isinstance(pattern, str) else pattern
    return [name for one in patterns for name in expand_braces(one, only_ranges=True)]


def generic_open(source: Source, *, allow_commands: bool | None = None) -> Any:
    """Open a shard for reading.

    Args:
        source: A path; `pipe:` and the words of a command, which is run without a shell; or its words as a list.
        allow_commands: Whether commands may be run; None: if `BUSHEL_ALLOW_COMMANDS=1` is set.

    Raises:
        NotAllowedError: A command was given, and commands are not allowed.
        OSError: There is no such file or command.
    """
    if isinstance(source, str) and not source.startswith("pipe:"):
        return open(source, "rb")
    check_commands(source, allow_commands)
    return Pipe(source.removeprefix("pipe:").split() if isinstance(source, str) else list(source))


def allsplitext(path: str) -> tuple[str, str] | tuple[None, None]:
    """Folder and name up to the first dot, and the rest with its dot; two None for what belongs to no sample."""
    split = split_name(path.encode("utf-8", "surrogateescape"))
    if split is None:
        return None, None
    key, extension = (part.decode("utf-8", "surrogateescape") for part in split)
    return key, "." + extension


def tariterator(stream: Any) -> Iterator[tuple[str, bytes]]:
    """The files of an archive: names and contents.

    Raises:
        FormatError: The archive is damaged or cut.
    """
    return member_contents(stream)


def sampleiterator(stream: Any) -> Iterator[Sample]:
    """The samples of an archive: dicts of bytes by extension (with its dot), and `__key__`.

    Raises:
        FormatError: The archive is damaged or cut, or a sample has two files for a field.
    """
    sample: Sample = {}
    for name, data in tariterator(stream):
        key, extension = allsplitext(name)
        if key is None or extension is None:
            continue
        if key != sample.get("__key__"):
            if sample:
                yield sample
            sample = {"__key__": key}
        if extension in sample:
            raise FormatError(f"{name!r}: its sample has a file {extension!r} already")
        sample[extension] = data
    if sample:
        yield sample


def sampleshuffle(source: Iterable[Any], bufsize: int = 1000, rng: random.Random | None = None) -> Iterator[Any]:
    """Let samples leave at random from a buffer, which grows by one for each that leaves until it is full.

    Args:
        source: The samples.
        bufsize: Samples in the buffer; 0: they stay in their order.
        rng: Where randomness comes from; a new generator if not given.
    """
    rng = random.Random() if rng is None else rng
    samples = iter(source)
    held: list[Any] = []
    for sample in samples:
        held.append(sample)
        if len(held) < bufsize:
            held.extend(islice(samples, 1))
        place = rng.randrange(len(held))
        held[place], held[-1] = held[-1], held[place]
        yield held.pop()
    rng.shuffle(held)
    yield from held


def _attempt(function: Callable[[Any], Any], sample: Any, handle: Handle) -> tuple[bool, Any]:
    """Apply a function; False and None if it failed, and that is to be ignored."""
    if handle == "raise":
        return True, function(sample)
    try:
        return True, function(sample)
    except Exception as error:
        count = _exceptions.add(error)
        key = sample.get("__key__") if isinstance(sample, Mapping) else None
        print(f"sample {key!r} is left out: {''.join(traceback.format_exception_only(error)).strip()}", file=sys.stderr)
        if count > max_exceptions:
            raise TooManyErrors(f"{count} samples failed; max_exceptions is {max_exceptions}") from error
        return False, None


def _mapped(source: Iterable[Any], function: Callable[[Any], Any], handle: Handle) -> Iterator[Any]:
    for sample in source:
        done, result = _attempt(function, sample, handle)
        if done:
            yield result


def sampletransforms(source: Iterable[Mapping[str, Any]], rules: Rules, handle: Handle = "ignore") -> Iterator[Sample]:
    """Apply rules to the fields of samples (or of batches).

    Args:
        source: The samples.
        rules: As for `map_by_rules`.
        handle: `"ignore"`: a sample whose transform fails is counted, said on standard error, and left out; `"raise"`.

    Raises:
        TooManyErrors: More than `max_exceptions` have failed in this process.
    """
    pairs = list(rules.items()) if isinstance(rules, Mapping) else list(rules)
    return _mapped(source, lambda sample: map_by_rules(sample, pairs), handle)


def transpose_batch(samples: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """From samples to lists of the values of each field.

    Raises:
        KeyError: A sample lacks a field that another has.
    """
    fields = dict.fromkeys(name for sample in samples for name in sample)
    for name in fields:
        lacking = next((sample for sample in samples if name not in sample), None)
        if lacking is not None:
            raise KeyError(f"sample {lacking.get('__key__')!r} has no field {name!r}, which others of its batch have")
    return {name: [sample[name] for sample in samples] for name in fields}


def samplebatching(source: Iterable[Mapping[str, Any]], batchsize: int, *, minsize: int = 1) -> Iterator[Sample]:
    """Batches: dicts of lists, that of the keys among them.

    Args:
        source: The samples.
        batchsize: How many make a batch; 0: they are given as they are.
        minsize: How many the last one has at least; a smaller one is left out.
    """
    if batchsize <= 0:
        yield from map(dict, source)
        return
    samples = iter(source)
    while batch := list(islice(samples, batchsize)):
        if len(batch) >= minsize:
            yield transpose_batch(batch)


# loaders


def _batches(source: Source, desc: DatasetDescriptor, handle: Handle, allow_commands: bool | None) -> Generator[Sample]:
    """The batches of one shard."""
    if desc.verbose or desc.debug:
        print(f"reading {source}", file=sys.stderr)
    with generic_open(source, allow_commands=allow_commands) as stream:
        raw = _said(sampleiterator(stream)) if desc.debug else sampleiterator(stream)
        shuffled = sampleshuffle(raw, desc.shuffle)
        decoded = sampletransforms(shuffled, desc.decoding, handle)
        augmented = sampletransforms(decoded, desc.augmenting, handle)
        mapped = augmented if desc.mapping is _identity else _mapped(augmented, desc.mapping, handle)
        batched = samplebatching(mapped, desc.batchsize)
        yield from sampletransforms(batched, desc.collating, handle)
    if desc.verbose or desc.debug:
        print(f"finished {source}", file=sys.stderr)


def _said(samples: Iterator[Sample]) -> Iterator[Sample]:
    for sample in samples:
        print(f"sample {sample['__key__']}: {', '.join(name for name in sample if name != '__key__')}", file=sys.stderr)
        yield sample


def loadproc(
    desc: DatasetDescriptor,
    sources: Iterable[Source],
    put: Callable[[Sample], bool],
    *,
    handle: Handle = "ignore",
    allow_commands: bool | None = None,
) -> None:
    """What one task of a loader does: batches of shards, one shard after another.

    Args:
        desc: The dataset.
        sources: Where the next shard comes from; several tasks may share one thread-safe iterator.
        put: Takes a batch; False: no more are wanted.
        handle: What becomes of samples whose transforms fail.
        allow_commands: Whether commands may be run; None: if `BUSHEL_ALLOW_COMMANDS=1` is set.
    """
    for source in sources:
        with closing(_batches(source, desc, handle, allow_commands)) as batches:
            for batch in batches:
                if not put(batch):
                    return


def dataloader(desc: DatasetDescriptor, *, allow_commands: bool | None = None) -> Channel:
    """Load a dataset with `desc.ntasks` threads.

    Args:
        desc: The dataset.
        allow_commands: Whether commands may be run; None: if `BUSHEL_ALLOW_COMMANDS=1` is set.

    Returns:
        The batches: iterate over them, or `take()` one. The threads end with the iteration, or with `close()`. An error
        in a task (a shard that cannot be opened or is damaged, samples with different fields) is raised there.

    Raises:
        ValueError: There are no tasks, or there is no room for batches.
    """

    def task(sources: Iterator[Source], put: Callable[[Sample], bool]) -> None:
        loadproc(desc, sources, put, allow_commands=allow_commands)

    return Channel.fed_by(task, desc.sources, tasks=desc.ntasks, size=desc.csize)


def debugloader(
    desc: DatasetDescriptor,
    sources: Iterable[Source] | None = None,
    *,
    maxcount: int = 10,
    allow_commands: bool | None = None,
) -> Channel:
    """Load a few batches without threads: whatever a transform raises is raised as it is.

    Args:
        desc: The dataset.
        sources: The shards; `desc.sources` if not given.
        maxcount: Batches.
        allow_commands: Whether commands may be run; None: if `BUSHEL_ALLOW_COMMANDS=1` is set.
    """

    def batches() -> Generator[Sample]:
        for source in desc.sources if sources is None else sources:
            yield from _batches(source, desc, "raise", allow_commands)

    return Channel(islice(batches(), maxcount))
