"""WebDataset.jl in Python: a dataset descriptor, its stages as iterators, and loaders with several threads.

Names and defaults are as in the Julia package. A Julia pair `rule => function` is a tuple
`(rule, function)`, and `take!(channel)` is `channel.take()`. `docs/compat-webdataset.md` lists the
differences.
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
from bushel.compat.batching import in_batches
from bushel.errors import FormatError, TooManyErrors
from bushel.loader import shuffle_buffer
from bushel.storage import expand_braces

from .channel import Channel as Channel
from .gopen import Pipe
from .permission import check_commands
from .tariterators import base_plus_ext, member_contents
from .utils import Sample

Source: TypeAlias = str | Sequence[str]
"""A path, `pipe:` and a command, or the words of a command."""
Handle: TypeAlias = Literal["ignore", "raise"]

# rules: which function is applied to which field of a sample

Match: TypeAlias = str | re.Pattern[str] | type
"""The end of a field's name (`""` matches every field), a regular expression, or the type of a value."""


@dataclass(frozen=True)
class Rename:
    """A rule whose result is renamed: `new` replaces the matching portion of the field's name in lower case.

    `Rename(".jpg", ".img")` makes `.left.img` of `.left.jpg`; `new=None` keeps the field's name.
    """

    rule: Match
    new: str | None


@dataclass(frozen=True)
class Continue(Rename):
    """A rule after which the next rules are tried too, with the same value; `new=None` keeps the field's name."""

    new: str | None = None


Rule: TypeAlias = Match | Rename
Rules: TypeAlias = Iterable[tuple[Rule, Callable[[Any], Any]]] | Mapping[Any, Callable[[Any], Any]]
"""Pairs of a rule and a function; the first rule that matches counts."""


def _span(rule: Match, field: str, value: Any) -> tuple[int, int] | None:
    """Return start and end of the match in a field's name, or None."""
    name = field.lower()
    if isinstance(rule, type):
        return (0, len(name)) if isinstance(value, rule) else None
    if isinstance(rule, str):
        return (len(name) - len(rule), len(name)) if name.endswith(rule.lower()) else None
    match = rule.search(name)
    return None if match is None else match.span()


def _pairs(rules: Rules) -> list[tuple[Rule, Callable[[Any], Any]]]:
    return [*(rules.items() if isinstance(rules, Mapping) else rules)]


def map_by_rules(sample: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """Apply the first rule that matches to each field; fields without one are left out, and names with `_` copied.

    Two fields that get the same name are a ValueError.
    """
    pairs = _pairs(rules)
    result: dict[str, Any] = {}
    for name, value in sample.items():
        if name.startswith("_"):
            result[name] = value
            continue
        for pattern, function in pairs:
            rule = pattern if isinstance(pattern, Rename) else Rename(pattern, None)
            span = _span(rule.rule, name, value)
            if span is None:
                continue
            renamed = name
            if rule.new is not None:
                renamed = name[: span[0]] + rule.new + name[span[1] :]
            if renamed in result:
                raise ValueError(
                    f"two fields of sample {sample.get('__key__')!r} "
                    f"become {renamed!r}: {name!r} is the second"
                )
            result[renamed] = function(value)
            if not isinstance(rule, Continue):
                break
    return result


max_exceptions = 999999999
"""Number of failed transforms that are tolerated. Programs set it."""

num_exceptions = 0
"""Number of failed transforms in this process so far."""

last_exception: Exception | None = None
"""The exception of the last failed transform."""

_CLASSES = 999999
_counting = threading.Lock()


def _counted(error: Exception) -> int:
    """Count a failed transform of any thread, and return how many there were so far."""
    global num_exceptions, last_exception
    with _counting:
        num_exceptions += 1
        last_exception = error
        return num_exceptions


# the descriptor


def _identity(value: Any) -> Any:
    return value


def _everything() -> list[tuple[Rule, Callable[[Any], Any]]]:
    return [("", _identity)]


@dataclass
class DatasetDescriptor:
    """A description of a dataset and of how to load it.

    Attributes:
        sources: The shards: paths, `pipe:` and a command, or the words of a command.
        shuffle: Samples in the shuffle buffer; 0 for none.
        batchsize: Samples in a batch; 0 for single samples. Batches do not span shards.
        decoding: Rules for the bytes of files.
        augmenting: Rules for decoded values.
        mapping: A function of whole samples, applied after these.
        collating: Rules for the lists of a batch.
        csize: Batches to prefetch.
        ntasks: Number of threads. Each reads one shard at a time.
        verbose: Whether to print the names of shards.
        debug: Whether to print the keys of samples too.
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
    """Decode a class: decimal text of at most six digits.

    Raises:
        CodecError: The data are not a number.
        ValueError: The number is out of range.
    """
    number: int = get_codec("cls").decode(data)
    if not -_CLASSES <= number <= _CLASSES:
        raise ValueError(f"class {number} is out of range: -{_CLASSES} to {_CLASSES}")
    return number


def imdecode(data: bytes) -> Any:
    """Decode an image to uint8 HxWx3, or HxW if it is greyscale. Raise CodecError if the data are not an image."""
    return get_codec("image").decode(data)


def jsondecode(data: bytes) -> Any:
    """Decode JSON."""
    return json.loads(data)


default_decoders: list[tuple[Rule, Callable[[Any], Any]]] = [
    (".cls", clsdecode),
    (Rename(re.compile(r"\.(jpg|jpeg|png|p[bgpn]m)$"), ".img"), imdecode),
    (".json", jsondecode),
]
"""Classes, common images (whose fields become `.img`) and JSON."""


# stages


def braceexpand(pattern: str | Iterable[str]) -> list[str]:
    """Expand `{000..146}` in a pattern or in several patterns. Other braces stay, because commands use them."""
    patterns = [pattern] if isinstance(pattern, str) else pattern
    return [name for braced in patterns for name in expand_braces(braced, only_ranges=True)]


def generic_open(source: Source, *, allow_commands: bool | None = None) -> Any:
    """Open a shard for reading: a path, `pipe:` and a command (run without a shell), or the words of a command.

    Commands run only if `allow_commands` (None: `BUSHEL_ALLOW_COMMANDS=1`) allows them.
    """
    if isinstance(source, str) and not source.startswith("pipe:"):
        return open(source, "rb")
    check_commands(source, allow_commands)
    return Pipe(source.removeprefix("pipe:").split() if isinstance(source, str) else list(source))


def allsplitext(path: str) -> tuple[str, str] | tuple[None, None]:
    """Split a path at the first dot of its name. Return two None if the file belongs to no sample."""
    key, extension = base_plus_ext(path)
    return (None, None) if key is None else (key, f".{extension}")


def tariterator(stream: Any) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the files of an archive. Raise FormatError if the archive is damaged or truncated."""
    return member_contents(stream)


def sampleiterator(stream: Any) -> Iterator[Sample]:
    """Yield the samples of an archive: dicts of bytes by extension (with its dot), and `__key__`.

    Raises:
        FormatError: The archive is damaged or truncated, or a sample has two files for a field.
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


def sampleshuffle(
    source: Iterable[Any], bufsize: int = 1000, rng: random.Random | None = None
) -> Iterator[Any]:
    """Shuffle samples in a buffer of `bufsize` samples; 0 keeps the order. `rng` defaults to a new generator."""
    return shuffle_buffer(
        source, bufsize, (random.Random() if rng is None else rng).randrange, initial=1
    )


def _mapped(source: Iterable[Any], function: Callable[[Any], Any], handle: Handle) -> Iterator[Any]:
    for sample in source:
        try:
            result = function(sample)
        except Exception as error:
            if handle == "raise":
                raise
            count = _counted(error)
            key = sample.get("__key__") if isinstance(sample, Mapping) else None
            reason = "".join(traceback.format_exception_only(error)).strip()
            print(f"sample {key!r} is left out: {reason}", file=sys.stderr)
            if count > max_exceptions:
                raise TooManyErrors(
                    f"{count} samples failed; max_exceptions is {max_exceptions}"
                ) from error
            continue
        yield result


def sampletransforms(
    source: Iterable[Mapping[str, Any]], rules: Rules, handle: Handle = "ignore"
) -> Iterator[Sample]:
    """Apply rules to the fields of samples (or of batches).

    A sample whose transform fails is counted, reported on standard error, and left out, up to
    `max_exceptions` in this process; with `handle="raise"` the exception is raised.
    """
    pairs = _pairs(rules)
    return _mapped(source, lambda sample: map_by_rules(sample, pairs), handle)


def transpose_batch(samples: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn samples into lists of the values of each field."""
    fields = dict.fromkeys(name for sample in samples for name in sample)
    for name in fields:
        lacking = next((sample for sample in samples if name not in sample), None)
        if lacking is not None:
            raise KeyError(
                f"sample {lacking.get('__key__')!r} has no "
                f"field {name!r}, which others of its batch have"
            )
    return {name: [sample[name] for sample in samples] for name in fields}


def samplebatching(
    source: Iterable[Mapping[str, Any]], batchsize: int, *, minsize: int = 1
) -> Iterator[Sample]:
    """Make batches: dicts of lists, with the list of keys. A batchsize of 0 yields single samples.

    A last batch of fewer than `minsize` samples is left out.
    """
    if batchsize <= 0:
        return map(dict, source)
    return (
        transpose_batch(batch) for batch in in_batches(source, batchsize) if len(batch) >= minsize
    )


# loaders


def _batches(
    source: Source, desc: DatasetDescriptor, handle: Handle, allow_commands: bool | None
) -> Generator[Sample]:
    """Yield the batches of one shard."""
    if desc.verbose or desc.debug:
        print(f"reading {source}", file=sys.stderr)
    with generic_open(source, allow_commands=allow_commands) as stream:
        raw = _printed(sampleiterator(stream)) if desc.debug else sampleiterator(stream)
        shuffled = sampleshuffle(raw, desc.shuffle)
        decoded = sampletransforms(shuffled, desc.decoding, handle)
        augmented = sampletransforms(decoded, desc.augmenting, handle)
        mapped = (
            augmented if desc.mapping is _identity else _mapped(augmented, desc.mapping, handle)
        )
        batched = samplebatching(mapped, desc.batchsize)
        yield from sampletransforms(batched, desc.collating, handle)
    if desc.verbose or desc.debug:
        print(f"finished {source}", file=sys.stderr)


def _printed(samples: Iterator[Sample]) -> Iterator[Sample]:
    for sample in samples:
        print(
            (
                f"sample {sample['__key__']}: "
                f"{', '.join(name for name in sample if name != '__key__')}"
            ),
            file=sys.stderr,
        )
        yield sample


def loadproc(
    desc: DatasetDescriptor,
    sources: Iterable[Source],
    put: Callable[[Sample], bool],
    *,
    handle: Handle = "ignore",
    allow_commands: bool | None = None,
) -> None:
    """Run one task of a loader: put the batches of its shards until `put` returns False.

    `sources` may be a thread-safe iterator that several tasks share.
    """
    for source in sources:
        with closing(_batches(source, desc, handle, allow_commands)) as batches:
            for batch in batches:
                if not put(batch):
                    return


def dataloader(desc: DatasetDescriptor, *, allow_commands: bool | None = None) -> Channel:
    """Load a dataset with `desc.ntasks` threads.

    Iterate over the result, or `take()` a batch. The threads end with the iteration, or with
    `close()`. An error in a task (a shard that cannot be opened or is damaged, samples with
    different fields) is raised there.
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
    """Load up to `maxcount` batches without threads. Exceptions of transforms are raised unchanged."""

    def batches() -> Generator[Sample]:
        for source in desc.sources if sources is None else sources:
            yield from _batches(source, desc, "raise", allow_commands)

    return Channel(islice(batches(), maxcount))
