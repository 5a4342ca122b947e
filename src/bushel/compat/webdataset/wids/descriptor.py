"""Indexes of wids: JSON that lists the shards of a dataset, with their sizes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse, urlunparse

from bushel.compat.webdataset.gopen import gopen
from bushel.errors import FormatError

__all__ = ["describe_shard", "load", "resolve", "urldir", "urlmerge"]

KIND = "wids-shard-index-v1"
_CHUNK = 1 << 20


def urldir(url: str) -> str:
    """A URL without its last part."""
    parsed = urlparse(url)
    return parsed._replace(path=os.path.dirname(parsed.path)).geturl()


def urlmerge(base: str, url: str) -> str:
    """A URL relative to another: what it lacks is taken from that, and its path joined to that one's."""
    above, own = urlparse(base), urlparse(url)
    path = own.path if own.path.startswith("/") else os.path.normpath(os.path.join(above.path, own.path))
    scheme, place = own.scheme or above.scheme, own.netloc or above.netloc
    return urlunparse((scheme, place, path, own.params, own.query, own.fragment))


def load(source: Any, *, allow_commands: bool | None = None) -> dict[str, Any]:
    """What is in an index.

    Args:
        source: A URL, or what is open for reading.
        allow_commands: Whether `pipe:` may run a command; None: if `BUSHEL_ALLOW_COMMANDS=1` is set.

    Raises:
        FormatError: It is no JSON object, or what it lists are no shards.
    """
    name = source if isinstance(source, str) else str(getattr(source, "name", "<stream>"))
    if isinstance(source, str):
        with gopen(source, allow_commands=allow_commands) as stream:
            text = stream.read()
    else:
        text = source.read()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not an index of wids: {error}", file=name) from error
    if not isinstance(found, dict):
        raise FormatError("not an index of wids: no JSON object", file=name)
    _shards(found.get("shardlist", []), None, {}, name)
    return found


def resolve(
    found: Mapping[str, Any], base: str | None, options: Mapping[str, Any], *, allow_commands: bool | None = None
) -> dict[str, Any]:
    """An index with all its shards: URLs made absolute, and other indexes that it names read.

    Raises:
        FormatError: It has another version, or no shards.
    """
    spec = {**found, **options}
    if spec.get("wids_version") != 1:
        raise FormatError(f"an index of wids of version {spec.get('wids_version')!r}: 1 is known")
    own = {"weight": spec.get("weight"), "name": spec.get("name")}
    shards = _shards(spec.get("shardlist", []), base, own)
    for component in spec.get("datasets", []):
        part, place = component, component.get("base")
        if "source_url" in component:
            url = component["source_url"] if base is None else urlmerge(base, component["source_url"])
            part = load(url, allow_commands=allow_commands)
            if "source_url" in part:
                raise FormatError("an index that is named in another one names a third", file=url)
            place = part.get("base", urldir(url))
        extra = {key: component.get(key) for key in ("weight", "source_url")}
        shards += _shards(part.get("shardlist", []), place or base, {**extra, "dataset": part.get("name")})
    if not shards:
        raise FormatError("the index lists no shards")
    return {**spec, "shardlist": shards}


def _shards(listed: Any, base: str | None, more: Mapping[str, Any], name: str | None = None) -> list[dict[str, Any]]:
    shards = []
    for shard in listed if isinstance(listed, list) else [None]:
        if not isinstance(shard, dict) or not _is_shard(shard):
            raise FormatError(f"a shard has a url and the number of its samples, not {shard!r}", file=name)
        url = shard["url"] if base is None else urlmerge(base, shard["url"])
        shards.append({**{key: value for key, value in more.items() if value is not None}, **shard, "url": url})
    return shards


def _is_shard(shard: Mapping[str, Any]) -> bool:
    samples = shard.get("nsamples")
    return isinstance(samples, int) and samples >= 0 and isinstance(shard.get("url"), str)


def md5_of(path: str) -> str:
    """The MD5 of a file."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Described:
    """A shard as an index lists it.

    Attributes:
        url: Where it is.
        md5sum: Of the file.
        nsamples: Samples.
        filesize: Bytes.
    """

    url: str
    md5sum: str
    nsamples: int
    filesize: int


def describe_shard(url: str, path: str) -> Described:
    """Look at a shard whose file is there.

    Raises:
        FormatError: The archive is damaged.
    """
    from bushel.compat.webdataset.wids.dataset import open_shard

    with open_shard(path) as dataset:
        return Described(url, md5_of(path), len(dataset), os.stat(path).st_size)


def index_of(shards: Iterable[Described], name: str, base: str | None, info: str | None) -> dict[str, Any]:
    """An index, in the order in which wids writes it."""
    listed = [
        {"url": s.url, "md5sum": s.md5sum, "nsamples": s.nsamples, "filesize": s.filesize}
        for s in sorted(shards, key=lambda shard: shard.url)
    ]
    more = {"name": name or None, "base": base, "info": info}
    index = {"__kind__": KIND, "wids_version": 1, "shardlist": listed}
    return {**index, **{key: value for key, value in more.items() if value is not None}}
