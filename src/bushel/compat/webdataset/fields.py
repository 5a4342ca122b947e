"""Stages that look at or change one sample at a time."""

from __future__ import annotations

import fcntl
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import IO, Any, NoReturn

from bushel.compat.webdataset.currying import pipelinefilter
from bushel.compat.webdataset.handlers import Handler, reraise_exception
from bushel.compat.webdataset.utils import identity

__all__ = [
    "associate",
    "extract_keys",
    "getfirst",
    "info",
    "log_keys",
    "map_dict",
    "map_tuple",
    "parse_field_spec",
    "rename",
    "rename_keys",
    "to_tuple",
    "transform_with",
]

Sample = dict[str, Any]
Transform = Callable[[Any], Any]


def getfirst(
    a: Mapping[str, Any], keys: str | Iterable[str], default: Any = None, missing_is_error: bool = True
) -> Any:
    """The value of the first of several keys that is there.

    Args:
        a: A sample.
        keys: The keys: a list, or text like `jpg;png`.
        default: What else to return.
        missing_is_error: Whether there must be one.

    Raises:
        ValueError: There is none, or text has spaces.
    """
    if isinstance(keys, str):
        if " " in keys:
            raise ValueError(f"{keys!r}: alternatives are separated by ';'")
        keys = keys.split(";")
    keys = list(keys)
    for key in keys:
        if key in a:
            return a[key]
    if missing_is_error:
        raise ValueError(f"didn't find {keys} in {list(a.keys())}")
    return default


def parse_field_spec(fields: str | Iterable[str]) -> list[list[str]]:
    """From `"jpg;png cls"` to `[["jpg", "png"], ["cls"]]`."""
    names = fields.split() if isinstance(fields, str) else fields
    return [field.split(";") for field in names]


def transform_with(sample: Sequence[Any], transformers: Sequence[Transform | None] | None) -> Sequence[Any]:
    """Apply one function to each of the first values; None leaves one as it is.

    Raises:
        ValueError: There are more functions than values.
    """
    if not transformers:
        return sample
    if len(transformers) > len(sample):
        raise ValueError(f"{len(transformers)} functions for {len(sample)} values")
    result = list(sample)
    for i, f in enumerate(transformers):
        if f is not None:
            result[i] = f(sample[i])
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
    """Print the first `n` samples and then each `every`-th, on standard error if no stream is given."""
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


info = pipelinefilter(_info)


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


log_keys = pipelinefilter(_log_keys)


def _rename(
    data: Iterable[Sample], handler: Handler = reraise_exception, keep: bool = True, **kw: str | Sequence[str]
) -> Iterator[Sample]:
    """Give fields new names: `new=old`, or `new="old;other"` for the first that is there.

    Args:
        data: The source.
        handler: What to do about a sample without them.
        keep: Whether the other fields are kept.
        **kw: New names and old ones.
    """
    old = {name for value in kw.values() for name in (value.split(";") if isinstance(value, str) else value)}
    for sample in data:
        try:
            result = {key: value for key, value in sample.items() if key not in old} if keep else {}
            result.update({new: getfirst(sample, value) for new, value in kw.items()})
        except Exception as error:  # the handler decides
            if handler(error):
                continue
            return
        yield result


rename = pipelinefilter(_rename)


def _associate(
    data: Iterable[Sample], associator: Callable[[str], Mapping[str, Any]] | Mapping[str, Mapping[str, Any]], **kw: Any
) -> Iterator[Sample]:
    """Add to each sample what a function, or a dict, gives for its key."""
    for sample in data:
        key = sample["__key__"]
        sample.update(associator(key) if callable(associator) else associator.get(key, {}))
        yield sample


associate = pipelinefilter(_associate)


def _map_dict(data: Iterable[Sample], handler: Handler = reraise_exception, **kw: Transform) -> Iterator[Sample]:
    """Apply functions to fields: `field=function`.

    Raises:
        ValueError: There is no function.
        TypeError: What is given is no function, or a sample is no dict.
    """
    if not kw:
        raise ValueError("map_dict takes at least one field=function")
    for key, f in kw.items():
        if not callable(f):
            raise TypeError(f"map_dict({key}=…) takes a function, not {f!r}")
    for sample in data:
        if not isinstance(sample, dict):
            raise TypeError(f"map_dict takes dicts, not a {type(sample).__name__}")
        try:
            for key, f in kw.items():
                sample[key] = f(sample[key])
        except Exception as error:  # the handler decides
            if handler(error):
                continue
            return
        yield sample


map_dict = pipelinefilter(_map_dict)


def _to_tuple(
    data: Iterable[Sample],
    *args: str | Sequence[str],
    handler: Handler = reraise_exception,
    missing_is_error: bool = True,
    none_is_error: bool | None = None,
) -> Iterator[tuple[Any, ...]]:
    """From dicts to tuples of these fields.

    Args:
        data: The source.
        *args: Fields, with alternatives (`jpg;png`); or all in one text with spaces.
        handler: What to do about a sample without one of them.
        missing_is_error: Whether each must be there; None else.
        none_is_error: Whether None is no value; as `missing_is_error` if not given.
    """
    none_is_error = missing_is_error if none_is_error is None else none_is_error
    if len(args) == 1 and isinstance(args[0], str) and " " in args[0]:
        args = tuple(args[0].split())
    for sample in data:
        try:
            result = tuple([getfirst(sample, f, missing_is_error=missing_is_error) for f in args])
            if none_is_error and any(value is None for value in result):
                _raise_none(args, sample)
        except Exception as error:  # the handler decides
            if handler(error):
                continue
            return
        yield result


def _raise_none(fields: Sequence[object], sample: Sample) -> NoReturn:
    raise ValueError(f"to_tuple {fields} got {sample.keys()}: one of the values is None")


to_tuple = pipelinefilter(_to_tuple)


def _map_tuple(
    data: Iterable[Sequence[Any]], *args: Transform | None, handler: Handler = reraise_exception
) -> Iterator[tuple[Any, ...]]:
    """Apply one function to each of the first values of tuples; None leaves one as it is.

    Raises:
        TypeError: What is given is no function, or a sample is no tuple.
    """
    functions = [identity if f is None else f for f in args]
    for f in functions:
        if not callable(f):
            raise TypeError(f"map_tuple takes functions, not {f!r}")
    for sample in data:
        if not isinstance(sample, list | tuple):
            raise TypeError(f"map_tuple takes tuples, not a {type(sample).__name__}: call to_tuple before it")
        values = list(sample)
        try:
            for i, f in enumerate(functions[: len(values)]):
                values[i] = f(values[i])
        except Exception as error:  # the handler decides
            if handler(error):
                continue
            return
        yield tuple(values)


map_tuple = pipelinefilter(_map_tuple)


def _extract_keys(
    source: Iterable[Sample],
    *patterns: str | Sequence[str],
    duplicate_is_error: bool = True,
    ignore_missing: bool = False,
) -> Iterator[tuple[Any, ...]]:
    """From dicts to tuples of the fields that match patterns like `*.jpg;*.png`.

    Raises:
        ValueError: Nothing matches a pattern, or several fields do.
    """
    alternatives = [pattern.split(";") if isinstance(pattern, str) else pattern for pattern in patterns]
    for sample in source:
        result = []
        for pattern in alternatives:
            matches = [x for x in sample if any(fnmatch("." + x, p) or fnmatch(x, p) for p in pattern)]
            if not matches and not ignore_missing:
                raise ValueError(f"Cannot find {pattern} in sample keys {sample.keys()}.")
            if len(matches) > 1 and duplicate_is_error:
                raise ValueError(f"Multiple sample keys {sample.keys()} match {pattern}.")
            result += [sample[match] for match in matches[:1]]
        yield tuple(result)


extract_keys = pipelinefilter(_extract_keys)


def _rename_keys(
    source: Iterable[Sample],
    *args: tuple[str, str],
    keep_unselected: bool = False,
    must_match: bool = True,
    duplicate_is_error: bool = True,
    **kw: str,
) -> Iterator[Sample]:
    """Give new names to the fields that match patterns: `("new", "*.jpg")` or `new="*.jpg"`; the last match counts.

    Args:
        source: The source.
        *args: New names and patterns.
        keep_unselected: Whether fields that match none are kept.
        must_match: Whether each pattern must match a field.
        duplicate_is_error: Whether two fields may not get the same name; else the first has it.
        **kw: New names and patterns.

    Raises:
        ValueError: A pattern matches nothing, or two fields get the same name.
    """
    renamings = [*((pattern, new) for new, pattern in args), *((pattern, new) for new, pattern in kw.items())]
    for sample in source:
        result: Sample = {}
        matched = {pattern: False for pattern, _ in renamings}
        for path, value in sample.items():
            fname = re.sub(r".*/", "", path).lower()
            found = next(((pattern, new) for pattern, new in reversed(renamings) if fnmatch(fname, pattern)), None)
            if found is None:
                if keep_unselected:
                    result[path] = value
                continue
            matched[found[0]] = True
            if found[1] not in result:
                result[found[1]] = value
            elif duplicate_is_error:
                raise ValueError(f"Duplicate value in sample {sample.keys()} after rename.")
        if must_match and not all(matched.values()):
            raise ValueError(f"Not all patterns ({matched}) matched sample keys ({sample.keys()}).")
        yield result


rename_keys = pipelinefilter(_rename_keys)
