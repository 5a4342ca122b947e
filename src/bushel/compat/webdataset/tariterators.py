"""From shards to samples. Bushel's `tar` container reads the archives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlparse
from urllib.request import url2pathname

import numpy as np

import bushel
from bushel import Dataset
from bushel.compat.errors import raised_as
from bushel.containers import tar
from bushel.containers.tar import Keep, is_meta, split_name

from .errors import DamagedArchiveError
from .gopen import gopen
from .handlers import Handler, reraise_exception
from .stages import handled, pipelinefilter
from .utils import Sample

_META = r"__[^/]*__($|/)"

Select: TypeAlias = Callable[[str], bool]
Rename: TypeAlias = Callable[[str], str]


class _Stopped(Exception):
    """A handler returned False."""


class EndOfShard(dict[str, Any]):
    """The record at the end of a shard: equal to `{}`, as webdataset 0.2.9x to 1.0.2 have it.

    Programs for versions up to 0.2.86, which have no such record, read `fname` from it, get an
    empty name, which belongs to no sample, and go on to the next record.
    """

    def __missing__(self, name: str) -> str | bytes:
        if name not in ("fname", "data", "__url__"):
            raise KeyError(name)
        return b"" if name == "data" else ""


class _EndOfDamage(EndOfShard):
    """The end of a damaged shard, whose last sample lacks fields."""


def base_plus_ext(path: str) -> tuple[str, str] | tuple[None, None]:
    """Return key and extension of a member; two None if it belongs to no sample."""
    split = split_name(path.encode("utf-8", "surrogateescape"))
    return (None, None) if split is None else (_text(split[0]), _text(split[1]))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def valid_sample(sample: object) -> bool:
    """Return whether an object is a sample, not empty, and not marked as `__bad__`."""
    return isinstance(sample, dict) and bool(sample) and not sample.get("__bad__", False)


def local_path_of(url: str) -> str | None:
    """Return the path of a URL that names a local file, else None."""
    parsed = urlparse(url)
    if url == "-" or parsed.scheme not in ("", "file"):
        return None
    return url2pathname(parsed.path) if parsed.scheme else url


def url_opener(
    data: Iterable[Sample], handler: Handler = reraise_exception, **kw: Any
) -> Iterator[Sample]:
    """Open shards: `{"url": …}` gets a `stream`."""
    return handled(data, lambda source: {**source, "stream": gopen(source["url"], **kw)}, handler)


def _remaining(path: str | None) -> Dataset | None:
    """Return a local shard as a dataset if `bushel remove` removed samples of it: what it does not have is left out."""
    if path is None:
        return None
    place = Path(path)
    if not len(bushel.integrity.removed_positions(place, container="tar")):
        return None
    return bushel.open([place], container="tar", on_damage="raise")


def removed_keys(url: str) -> frozenset[str]:
    """Return the keys that `bushel remove` removed from a shard; none of one that is not a local file.

    Raises:
        FormatError: The list of removed samples is damaged, or the shard is.
    """
    path = local_path_of(url)
    if path is None or (remaining := _remaining(path)) is None:
        return frozenset()
    with remaining:
        keys = remaining.shards[0].index.keys
        if keys is None:
            return frozenset()
        every = keys.take(np.arange(len(keys), dtype=np.int64))
        return frozenset(key for key in every if key not in remaining)


def _kept(
    select_files: Select | None,
    rename_files: Rename | None,
    handler: Handler,
    skip_meta: str | None = _META,
    remaining: Dataset | None = None,
) -> Keep:
    def keep(name: str) -> str | None:
        if (
            remaining is not None
            and (key := base_plus_ext(name)[0]) is not None
            and key not in remaining
        ):
            return None
        if skip_meta == _META:  # the usual one, without a regular expression
            if name.startswith("__") and is_meta(name.encode("utf-8", "surrogateescape")):
                return None
        elif skip_meta is not None and re.match(skip_meta, name):
            return None
        try:
            renamed = name if rename_files is None else rename_files(name)
            return renamed if select_files is None or select_files(renamed) else None
        except Exception as error:  # of the user's functions
            if handler(error):
                return None
            raise _Stopped from error

    return keep


def member_contents(stream: Any) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the files of an open archive, including metadata (`__like_this__/…`).

    Raises:
        DamagedArchiveError: The archive is damaged or truncated: a `FormatError` and a
            `tarfile.ReadError`.
    """
    return _contents(stream, str)


def _contents(stream: Any, keep: Keep, name: str | None = None) -> Iterator[tuple[str, bytes]]:
    name = str(getattr(stream, "name", "<stream>")) if name is None else name
    with raised_as(DamagedArchiveError):
        yield from tar.member_contents(stream, name, keep)


def tar_file_iterator(
    fileobj: Any,
    skip_meta: str | None = _META,
    handler: Handler = reraise_exception,
    select_files: Select | None = None,
    rename_files: Rename | None = None,
) -> Iterator[Sample]:
    """Yield the files of an open archive as `{"fname", "data"}`, without those whose names match `skip_meta`."""
    keep = _kept(select_files, rename_files, handler, skip_meta)
    try:
        for fname, data in _contents(fileobj, keep):
            yield {"fname": fname, "data": data}
    except _Stopped:
        return
    except Exception as error:  # the handler decides; nothing can be read after a damaged header
        handler(error)


def tar_file_expander(
    data: Iterable[Sample],
    handler: Handler = reraise_exception,
    select_files: Select | None = None,
    rename_files: Rename | None = None,
    eof_value: Any = EndOfShard(),  # noqa: B008  (never changed)
) -> Iterator[Sample]:
    """Yield the files of open shards (`{"url", "stream"}`) as `{"fname", "data", "__url__"}`.

    `eof_value` ends each shard, unless it is None.
    """
    for source in data:
        extra = {"__url__": source["url"]}
        if source.get("local_path") is not None:
            extra["__local_path__"] = source["local_path"]
        try:
            remaining = _remaining(source.get("local_path") or local_path_of(source["url"]))
            keep = _kept(select_files, rename_files, handler, remaining=remaining)
            with source["stream"] as stream:
                for fname, content in _contents(stream, keep, source["url"]):
                    yield {"fname": fname, "data": content, **extra}
            end, goes_on = eof_value, True
        except _Stopped:
            end, goes_on = _EndOfDamage(), False
        except Exception as error:  # the handler decides
            end, goes_on = _EndOfDamage(), handler(error)
        if eof_value is not None:
            yield end
        if not goes_on:
            return


def group_by_keys(
    data: Iterable[Sample],
    keys: Callable[[str], tuple[str | None, str | None]] = base_plus_ext,
    lcase: bool = True,
    suffixes: Iterable[str] | None = None,
    handler: Handler = reraise_exception,
) -> Iterator[Sample]:
    """Group adjacent files of `tar_file_expander` that have the same key.

    `keys` splits a name into key and extension. The handler also gets the error of a second file
    with the same key and extension, which is left out.
    """
    current: Sample | None = None
    chosen_suffixes = None if suffixes is None else frozenset(suffixes)
    for file in data:
        try:
            if not file:
                truncated = isinstance(file, _EndOfDamage)
                if current is not None and not truncated and valid_sample(current):
                    yield current
                current = None
                continue
            key, suffix = keys(file["fname"])
            if key is None or suffix is None:
                continue
            suffix = suffix.lower() if lcase else suffix
            if current is None or key != current["__key__"]:
                if current is not None and valid_sample(current):
                    yield current
                current = {"__key__": key, "__url__": file["__url__"]}
            if suffix in current:
                raise ValueError(  # noqa: TRY301
                    f"{file['fname']}: duplicate file name in tar file "
                    f"{suffix} {current.keys()} ({current.get('__url__')})"
                )
            if chosen_suffixes is None or suffix in chosen_suffixes:
                current[suffix] = file["data"]
            if file.get("__local_path__") is not None:
                current["__local_path__"] = file["__local_path__"]
        except Exception as error:  # the handler decides
            if not handler(error):
                break
    if current is not None and valid_sample(current):
        yield current


def with_local_paths(src: Iterable[Sample]) -> Iterator[Sample]:
    """Add the `local_path` of shards that are local files."""
    for source in src:
        path = local_path_of(source["url"])
        yield source if path is None else {**source, "local_path": path}


def tarfile_samples(
    src: Iterable[Sample],
    handler: Handler = reraise_exception,
    select_files: Select | None = None,
    rename_files: Rename | None = None,
    *,
    allow_commands: bool | None = None,
) -> Iterator[Sample]:
    """Read samples of shards: dicts of bytes by extension, with `__key__` and `__url__`.

    A `stream` or a `local_path` beside the `url` of a shard is read instead; the samples of a shard
    with a `local_path` have it as `__local_path__`. `select_files` gets the (new) names of
    files. The handler gets errors of shards that cannot be opened, that are damaged, or that have
    two files for one field. Samples of local shards that `bushel remove` removed are skipped.

    A program may replace `url_opener`, `tar_file_expander` and `group_by_keys` in this module.
    """
    if url_opener is _URL_OPENER:
        streams = handled(src, lambda source: _opened(source, allow_commands), handler)
    else:
        streams = url_opener(src, handler=handler)
    files = tar_file_expander(
        streams, handler=handler, select_files=select_files, rename_files=rename_files
    )
    return group_by_keys(files, handler=handler)


def _opened(source: Sample, allow_commands: bool | None) -> Sample:
    path = source.get("local_path") or local_path_of(source["url"])
    stream = source.get("stream")
    if stream is None and path is not None:
        stream = open(path, "rb")  # noqa: SIM115 (the next stage closes it)
    return {**source, "stream": stream or gopen(source["url"], allow_commands=allow_commands)}


_URL_OPENER = url_opener

tarfile_to_samples = pipelinefilter(tarfile_samples)
