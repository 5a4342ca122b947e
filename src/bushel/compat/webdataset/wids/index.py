"""Indexes of wids: JSON that lists the shards of a dataset, with their sizes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlparse, urlunparse

import bushel
from bushel.codecs import codec_of_extension
from bushel.compat.webdataset.errors import MalformedError
from bushel.compat.webdataset.gopen import gopen
from bushel.containers.tar import member_extensions

KIND = "wids-shard-index-v1"


def open_shard(path: str) -> bushel.Dataset:
    """Open an archive with the extensions of its members as fields. The index stays in memory.

    Raises:
        MalformedError: The archive is damaged or compressed.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"shard {path} does not exist")
    try:
        # `x.bin` before `x`, which it would be, too
        names = sorted(member_extensions(path), key=len, reverse=True)
        spec = {name: codec_of_extension(name) for name in names}
        return bushel.open(
            [path], container="tar", spec=spec or None, index="memory", on_damage="raise"
        )
    except bushel.errors.UnsupportedError as error:
        raise MalformedError(
            "a compressed archive has no random access: unpack it first", file=path
        ) from error


def urldir(url: str) -> str:
    """Return a URL without its last part."""
    parsed = urlparse(url)
    return parsed._replace(path=os.path.dirname(parsed.path)).geturl()


def urlmerge(base: str, url: str) -> str:
    """Return a URL relative to another: missing parts are taken from `base`, and the paths are joined."""
    above, relative = urlparse(base), urlparse(url)
    path = (
        relative.path
        if relative.path.startswith("/")
        else os.path.normpath(os.path.join(above.path, relative.path))
    )
    scheme, place = relative.scheme or above.scheme, relative.netloc or above.netloc
    return urlunparse((scheme, place, path, relative.params, relative.query, relative.fragment))


def load(source: Any, *, allow_commands: bool | None = None) -> dict[str, Any]:
    """Read an index from a URL or a file object.

    Raises:
        MalformedError: The content is not a JSON object, or its list of shards is malformed.
    """
    name = source if isinstance(source, str) else str(getattr(source, "name", "<stream>"))
    if isinstance(source, str):
        with gopen(source, allow_commands=allow_commands) as stream:
            text = stream.read()
    else:
        text = source.read()
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"not an index of wids: {error}", file=name) from error
    if not isinstance(description, dict):
        raise MalformedError("not an index of wids: expected a JSON object", file=name)
    _shards(description.get("shardlist", []), None, {}, name)
    return description


def resolve(
    found: Mapping[str, Any],
    base: str | None,
    options: Mapping[str, Any],
    *,
    allow_commands: bool | None = None,
) -> dict[str, Any]:
    """Return an index with all its shards: URLs are made absolute, and indexes that it names are read.

    Raises:
        MalformedError: The version is unknown, or the index lists no shards.
    """
    spec = {**found, **options}
    if spec.get("wids_version") != 1:
        raise MalformedError(
            f"unknown version {spec.get('wids_version')!r} of an index of wids; expected 1"
        )
    defaults = {"weight": spec.get("weight"), "name": spec.get("name")}
    shards = _shards(spec.get("shardlist", []), base, defaults)
    for component in spec.get("datasets", []):
        part, parent = component, component.get("base")
        if "source_url" in component:
            url = (
                component["source_url"] if base is None else urlmerge(base, component["source_url"])
            )
            part = load(url, allow_commands=allow_commands)
            if "source_url" in part:
                raise MalformedError(
                    "an index that another index names cannot name a third one", file=url
                )
            parent = part.get("base", urldir(url))
        extra = {key: component.get(key) for key in ("weight", "source_url")}
        shards += _shards(
            part.get("shardlist", []), parent or base, {**extra, "dataset": part.get("name")}
        )
    if not shards:
        raise MalformedError("the index lists no shards")
    return {**spec, "shardlist": shards}


def _shards(
    listed: Any, base: str | None, more: Mapping[str, Any], name: str | None = None
) -> list[dict[str, Any]]:
    shards = []
    for shard in listed if isinstance(listed, list) else [None]:
        entry = shard if isinstance(shard, dict) else {}
        url, samples = entry.get("url"), entry.get("nsamples")
        if not (isinstance(url, str) and isinstance(samples, int) and samples >= 0):
            raise MalformedError(
                f"a shard needs a url and a number nsamples, not {shard!r}", file=name
            )
        url = url if base is None else urlmerge(base, url)
        shards.append(
            {
                **{key: value for key, value in more.items() if value is not None},
                **entry,
                "url": url,
            }
        )
    return shards


def describe_shard(url: str, path: str) -> dict[str, Any]:
    """Return the entry of a shard in an index, from its local file. Raise MalformedError if the archive is damaged."""
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    with open_shard(path) as dataset:
        return {
            "url": url,
            "md5sum": digest,
            "nsamples": len(dataset),
            "filesize": os.stat(path).st_size,
        }


def index_of(
    shards: Iterable[Mapping[str, Any]], name: str, base: str | None, info: str | None
) -> dict[str, Any]:
    """Return an index of described shards, in the order in which wids writes it."""
    listed = sorted(shards, key=lambda shard: str(shard["url"]))
    more = {"name": name or None, "base": base, "info": info}
    index = {"__kind__": KIND, "wids_version": 1, "shardlist": listed}
    return {**index, **{key: value for key, value in more.items() if value is not None}}
