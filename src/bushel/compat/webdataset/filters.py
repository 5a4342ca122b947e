"""All stages by their names, and the functions that they are made from, which take the source first."""

from __future__ import annotations

import fcntl
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from io import BytesIO
from typing import IO, Any, Literal

from bushel.compat.errors import WrongTypeError, WrongUseError

from .autodecode import _decode as _decode
from .autodecode import decode as decode
from .flow import *  # noqa: F403
from .flow import _batched, _rsample, _select, _slice, _unbatched, _unlisted
from .flow import _shuffle as _shuffle
from .handlers import Handler, reraise_exception
from .permission import check_pickle
from .stages import *  # noqa: F403
from .stages import handled, map_ahead, pipelinefilter
from .utils import PipelineStage as PipelineStage
from .utils import Sample as Sample
from .utils import identity as identity

Transform = Callable[[Any], Any]
StreamDecoder = Callable[[Any], Any]
Rules = Sequence[tuple[str, StreamDecoder | Literal[False]]]


def getfirst(
    a: Mapping[str, Any],
    keys: str | Iterable[str],
    default: Any = None,
    missing_is_error: bool = True,
) -> Any:
    """Return the value of the first of several keys (a list, or text like `jpg;png`) that a sample has."""
    if isinstance(keys, str):
        if " " in keys:
            raise WrongUseError(f"{keys!r}: alternatives are separated by ';'")
        keys = keys.split(";")
    keys = list(keys)
    for key in keys:
        if key in a:
            return a[key]
    if missing_is_error:
        raise ValueError(f"didn't find {keys} in {list(a.keys())}")
    return default


def parse_field_spec(fields: str | Iterable[str]) -> list[list[str]]:
    """Turn `"jpg;png cls"` into `[["jpg", "png"], ["cls"]]`."""
    return [field.split(";") for field in (fields.split() if isinstance(fields, str) else fields)]


def transform_with(
    sample: Sequence[Any], transformers: Sequence[Transform | None] | None
) -> Sequence[Any]:
    """Apply one function to each of the first values; None leaves a value as it is."""
    if not transformers:
        return sample
    if len(transformers) > len(sample):
        raise WrongUseError(f"{len(transformers)} functions for {len(sample)} values")
    result = list(sample)
    for i, f in enumerate(transformers):
        if f is not None:
            result[i] = f(sample[i])
    return result


def _map(
    data: Iterable[Any], f: Callable[[Any], Any], handler: Handler = reraise_exception
) -> Iterator[Any]:
    """Apply a function to samples. A sample for which it returns None is left out; a dict keeps its `__key__`.

    Several threads call a function whose attribute `concurrent` is true, some samples ahead; the
    order stays.
    """
    return (result for result in map_ahead(data, _Keyed(f), handler) if result is not None)


class _Keyed:
    """A function of samples that keeps `__key__`."""

    def __init__(self, f: Callable[[Any], Any]) -> None:
        self._f = f
        self.concurrent = getattr(f, "concurrent", False)

    def __call__(self, sample: Any) -> Any:
        result = self._f(sample)
        if isinstance(sample, dict) and isinstance(result, dict):
            result["__key__"] = sample.get("__key__")
        return result


def _info(
    data: Iterable[Sample],
    fmt: str | None = None,
    n: int = 3,
    every: int = -1,
    width: int = 50,
    stream: IO[str] | None = None,
    name: str = "",
) -> Iterator[Sample]:
    """Print the first `n` samples and then each `every`-th, to standard error by default."""
    for i, sample in enumerate(data):
        if i < n or (every > 0 and (i + 1) % every == 0):
            out = sys.stderr if stream is None else stream
            if fmt is not None:
                print(fmt.format(**sample), file=out)
            else:
                print("---", name, file=out)
                for key, value in sample.items():
                    print(key, repr(value)[:width], file=out)
        yield sample


def _log_keys(data: Iterable[Sample], logfile: str | None = None) -> Iterator[Sample]:
    """Append number, worker, rank and key of each sample to a file, which several processes may share."""
    if not logfile:
        yield from data
        return
    with open(logfile, "a", encoding="utf-8") as stream:
        for i, sample in enumerate(data):
            who = [str(sample.get(name)) for name in ("__worker__", "__rank__", "__key__")]
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX)
            try:
                stream.write("\t".join([str(i), *who]) + "\n")
                stream.flush()
            finally:
                fcntl.flock(stream.fileno(), fcntl.LOCK_UN)
            yield sample


def _rename(
    data: Iterable[Sample],
    handler: Handler = reraise_exception,
    keep: bool = True,
    **kw: str | Sequence[str],
) -> Iterator[Sample]:
    """Rename fields: `new=old`, or `new="old;other"` for the first that a sample has; `keep` keeps other fields."""
    old = {
        name
        for value in kw.values()
        for name in (value.split(";") if isinstance(value, str) else value)
    }

    def renamed(sample: Sample) -> Sample:
        result = {key: value for key, value in sample.items() if key not in old} if keep else {}
        result.update({new: getfirst(sample, value) for new, value in kw.items()})
        return result

    return handled(data, renamed, handler)


def _associate(
    data: Iterable[Sample],
    associator: Callable[[str], Mapping[str, Any]] | Mapping[str, Mapping[str, Any]],
    **kw: Any,
) -> Iterator[Sample]:
    """Add to each sample what a function, or a dict, returns for its key."""
    for sample in data:
        key = sample["__key__"]
        sample.update(associator(key) if callable(associator) else associator.get(key, {}))
        yield sample


def _map_dict(
    data: Iterable[Sample], handler: Handler = reraise_exception, **kw: Transform
) -> Iterator[Sample]:
    """Apply functions to fields: `field=function`."""
    if not kw:
        raise WrongUseError("map_dict takes at least one field=function")
    for key, f in kw.items():
        if not callable(f):
            raise WrongTypeError(f"map_dict({key}=…) takes a function, not {f!r}")

    def mapped(sample: Sample) -> Sample:
        for key, f in kw.items():
            sample[key] = f(sample[key])
        return sample

    yield from handled(_only(data, dict, "map_dict takes dicts, not a {}"), mapped, handler)


def _only(data: Iterable[Any], kind: Any, problem: str) -> Iterator[Any]:
    for sample in data:
        if not isinstance(sample, kind):
            raise WrongTypeError(problem.format(type(sample).__name__))
        yield sample


def _to_tuple(
    data: Iterable[Sample],
    *args: str | Sequence[str],
    handler: Handler = reraise_exception,
    missing_is_error: bool = True,
    none_is_error: bool | None = None,
) -> Iterator[tuple[Any, ...]]:
    """Turn dicts into tuples of these fields, with alternatives (`jpg;png`); or all fields in one text with spaces."""
    none_is_error = missing_is_error if none_is_error is None else none_is_error
    if len(args) == 1 and isinstance(args[0], str) and " " in args[0]:
        args = tuple(args[0].split())

    def chosen(sample: Sample) -> tuple[Any, ...]:
        result = tuple([getfirst(sample, f, missing_is_error=missing_is_error) for f in args])
        if none_is_error and any(value is None for value in result):
            raise ValueError(f"to_tuple {args} got {sample.keys()}: one of the values is None")
        return result

    return handled(data, chosen, handler)


def _map_tuple(
    data: Iterable[Sequence[Any]], *args: Transform | None, handler: Handler = reraise_exception
) -> Iterator[tuple[Any, ...]]:
    """Apply one function to each of the first values of tuples; None leaves a value as it is."""
    functions = [identity if f is None else f for f in args]
    for f in functions:
        if not callable(f):
            raise WrongTypeError(f"map_tuple takes functions, not {f!r}")

    def mapped(sample: Sequence[Any]) -> tuple[Any, ...]:
        values = list(sample)
        for i, f in enumerate(functions[: len(values)]):
            values[i] = f(values[i])
        return tuple(values)

    tuples = _only(data, (list, tuple), "map_tuple takes tuples, not a {}: call to_tuple before it")
    yield from handled(tuples, mapped, handler)


def _extract_keys(
    source: Iterable[Sample],
    *patterns: str | Sequence[str],
    duplicate_is_error: bool = True,
    ignore_missing: bool = False,
) -> Iterator[tuple[Any, ...]]:
    """Turn dicts into tuples of the fields that match patterns like `*.jpg;*.png`."""
    alternatives = [
        pattern.split(";") if isinstance(pattern, str) else pattern for pattern in patterns
    ]
    for sample in source:
        result = []
        for pattern in alternatives:
            matches = [
                x
                for x in sample.keys()  # noqa: SIM118 of dicts only
                if any(fnmatch("." + x, p) or fnmatch(x, p) for p in pattern)
            ]
            if not matches and not ignore_missing:
                raise ValueError(f"Cannot find {pattern} in sample keys {sample.keys()}.")
            if len(matches) > 1 and duplicate_is_error:
                raise ValueError(f"Multiple sample keys {sample.keys()} match {pattern}.")
            result += [sample[match] for match in matches[:1]]
        yield tuple(result)


def _rename_keys(
    source: Iterable[Sample],
    *args: tuple[str, str],
    keep_unselected: bool = False,
    must_match: bool = True,
    duplicate_is_error: bool = True,
    **kw: str,
) -> Iterator[Sample]:
    """Rename the fields that match patterns: `("new", "*.jpg")` or `new="*.jpg"`; the last matching pattern wins.

    With `duplicate_is_error=False` the first of two fields of one new name is kept.
    """
    renamings = [(pattern, new) for new, pattern in (*args, *kw.items())]
    for sample in source:
        result: Sample = {}
        matched = {pattern: False for pattern, _ in renamings}
        for path, value in sample.items():
            fname = re.sub(r".*/", "", path).lower()
            renaming = next(
                ((pattern, new) for pattern, new in reversed(renamings) if fnmatch(fname, pattern)),
                None,
            )
            if renaming is None:
                if keep_unselected:
                    result[path] = value
                continue
            matched[renaming[0]] = True
            if renaming[1] not in result:
                result[renaming[1]] = value
            elif duplicate_is_error:
                raise ValueError(f"Duplicate value in sample {sample.keys()} after rename.")
        if must_match and not all(matched.values()):
            raise ValueError(f"Not all patterns ({matched}) matched sample keys ({sample.keys()}).")
        yield result


def _read_bytes(stream: BytesIO) -> bytes:
    return stream.read()


def _read_text(stream: BytesIO) -> str:
    return stream.read().decode("utf-8")


def _read_pickle(stream: BytesIO) -> Any:
    check_pickle(".pyd")
    return pickle.load(stream)


default_decoders: Rules = [("*.bin", _read_bytes), ("*.txt", _read_text), ("*.pyd", _read_pickle)]
"""Patterns and decoders of streams that `xdecode` starts with."""


def find_decoder(decoders: Rules, path: str) -> StreamDecoder | Literal[False] | None:
    """Return the decoder of the last pattern that matches a field; False leaves the field; None if none matches."""
    fname = re.sub(r".*/", "", path)
    if fname.startswith("__"):
        return identity
    for pattern, decoder in reversed(decoders):
        if fnmatch(fname.lower(), pattern) or fnmatch("." + fname.lower(), pattern):
            return decoder
    return None


def _xdecode(
    source: Iterable[Sample],
    *args: tuple[str, StreamDecoder | Literal[False]],
    must_decode: bool = True,
    defaults: Rules = default_decoders,
    **kw: StreamDecoder | Literal[False],
) -> Iterator[Sample]:
    """Decode fields by patterns: `("*.jpg", decoder)` or `jpg=decoder`; the last one that matches counts.

    A decoder takes a stream; False leaves a field as it is.
    """
    rules = [*defaults, *args, *(("*." + extension, decoder) for extension, decoder in kw.items())]
    for sample in source:
        decoded: Sample = {}
        for path, data in sample.items():
            decoder = False if path.startswith("__") else find_decoder(rules, path)
            if decoder is None and must_decode:
                raise ValueError(f"No decoder found for {path}.")
            decoded[path] = (
                decoder(BytesIO(data) if isinstance(data, bytes) else data) if decoder else data
            )
        yield decoded


map = pipelinefilter(_map)
info = pipelinefilter(_info)
log_keys = pipelinefilter(_log_keys)
rename = pipelinefilter(_rename)
associate = pipelinefilter(_associate)
map_dict = pipelinefilter(_map_dict)
to_tuple = pipelinefilter(_to_tuple)
map_tuple = pipelinefilter(_map_tuple)
extract_keys = pipelinefilter(_extract_keys)
rename_keys = pipelinefilter(_rename_keys)
xdecode = pipelinefilter(_xdecode)
shuffle = pipelinefilter(_shuffle)
select = pipelinefilter(_select)
rsample = pipelinefilter(_rsample)
slice = pipelinefilter(_slice)
batched = pipelinefilter(_batched)
unlisted = pipelinefilter(_unlisted)
unbatched = pipelinefilter(_unbatched)
