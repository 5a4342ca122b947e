"""All stages by their names, and by those of the functions behind them, which take the source first."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from io import BytesIO
from typing import Any, Literal

from bushel.compat.webdataset.autodecode import _decode, decode
from bushel.compat.webdataset.caching import Cached, LMDBCached
from bushel.compat.webdataset.collation import (
    _batched,
    _unbatched,
    _unlisted,
    batched,
    combine_values,
    default_collation_fn,
    dict2tuple,
    tuple2dict,
    unbatched,
    unlisted,
)
from bushel.compat.webdataset.currying import (
    FilterFunction,
    RestCurried,
    compose,
    compose2,
    pipeline,
    pipelinefilter,
)
from bushel.compat.webdataset.fields import (
    _associate,
    _extract_keys,
    _info,
    _log_keys,
    _map_dict,
    _map_tuple,
    _rename,
    _rename_keys,
    _to_tuple,
    associate,
    extract_keys,
    getfirst,
    info,
    log_keys,
    map_dict,
    map_tuple,
    parse_field_spec,
    rename,
    rename_keys,
    to_tuple,
    transform_with,
)
from bushel.compat.webdataset.handlers import reraise_exception
from bushel.compat.webdataset.inorder import _map, map
from bushel.compat.webdataset.permission import check_pickle
from bushel.compat.webdataset.shuffling import (
    _rsample,
    _select,
    _shuffle,
    detshuffle,
    pick,
    rsample,
    select,
    shuffle,
    slice,
)
from bushel.compat.webdataset.utils import PipelineStage, identity

__all__ = [
    "Cached",
    "FilterFunction",
    "LMDBCached",
    "PipelineStage",
    "RestCurried",
    "_associate",
    "_batched",
    "_decode",
    "_extract_keys",
    "_info",
    "_log_keys",
    "_map",
    "_map_dict",
    "_map_tuple",
    "_rename",
    "_rename_keys",
    "_rsample",
    "_select",
    "_shuffle",
    "_to_tuple",
    "_unbatched",
    "_unlisted",
    "associate",
    "batched",
    "combine_values",
    "compose",
    "compose2",
    "decode",
    "default_collation_fn",
    "default_decoders",
    "detshuffle",
    "dict2tuple",
    "extract_keys",
    "find_decoder",
    "getfirst",
    "identity",
    "info",
    "log_keys",
    "map",
    "map_dict",
    "map_tuple",
    "parse_field_spec",
    "pick",
    "pipeline",
    "pipelinefilter",
    "rename",
    "rename_keys",
    "reraise_exception",
    "rsample",
    "select",
    "shuffle",
    "slice",
    "to_tuple",
    "transform_with",
    "tuple2dict",
    "unbatched",
    "unlisted",
    "xdecode",
]

StreamDecoder = Callable[[Any], Any]
Rules = Sequence[tuple[str, StreamDecoder | Literal[False]]]


def _bin(stream: BytesIO) -> bytes:
    return stream.read()


def _text(stream: BytesIO) -> str:
    return stream.read().decode("utf-8")


def _pickle(stream: BytesIO) -> Any:
    check_pickle(".pyd")
    return pickle.load(stream)


default_decoders: Rules = [("*.bin", _bin), ("*.txt", _text), ("*.pyd", _pickle)]
"""Patterns and decoders of streams that `xdecode` begins with."""


def find_decoder(decoders: Rules, path: str) -> StreamDecoder | Literal[False] | None:
    """The decoder of the last pattern that matches a field; False: leave it as it is; None: there is none."""
    fname = re.sub(r".*/", "", path)
    if fname.startswith("__"):
        return identity
    for pattern, decoder in reversed(decoders):
        if fnmatch(fname.lower(), pattern) or fnmatch("." + fname.lower(), pattern):
            return decoder
    return None


def _xdecode(
    source: Iterable[dict[str, Any]],
    *args: tuple[str, StreamDecoder | Literal[False]],
    must_decode: bool = True,
    defaults: Rules = default_decoders,
    **kw: StreamDecoder | Literal[False],
) -> Iterator[dict[str, Any]]:
    """Decode fields by patterns: `("*.jpg", decoder)` or `jpg=decoder`, of which the last that matches counts.

    Args:
        source: The source.
        *args: Patterns, and decoders that take a stream; False leaves a field as it is.
        must_decode: Whether there must be a decoder for each field.
        defaults: What comes before these.
        **kw: Extensions and decoders.

    Raises:
        ValueError: There is no decoder for a field.
    """
    rules = [*defaults, *args, *(("*." + extension, decoder) for extension, decoder in kw.items())]
    for sample in source:
        decoded: dict[str, Any] = {}
        for path, data in sample.items():
            decoder = False if path.startswith("__") else find_decoder(rules, path)
            if decoder is None and must_decode:
                raise ValueError(f"No decoder found for {path}.")
            decoded[path] = decoder(BytesIO(data) if isinstance(data, bytes) else data) if decoder else data
        yield decoded


xdecode = pipelinefilter(_xdecode)
