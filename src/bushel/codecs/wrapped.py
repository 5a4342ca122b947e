"""Codecs around another codec: `gzip(…)` compresses its bytes, `stored(…)` gives its stored bytes."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .base import (
    MAX_EXPANDED,
    Buffer,
    Codec,
    codec_error,
    found_bytes,
)
from .scalars import encode_bytes

_STEP = 1 << 20


def _gzip(name: str, inner: Codec) -> Codec:
    """Return the codec that stores another codec's bytes as a gzip file without name or time."""
    return Codec(
        name, partial(_encode_gzip, inner), partial(_decode_gzip, inner), runs_code=inner.runs_code
    )


def _encode_gzip(inner: Codec, value: Any) -> bytes:
    return gzip.compress(inner.encode(value), mtime=0)


def _decode_gzip(inner: Codec, data: Buffer) -> Any:
    if not len(data):
        raise codec_error("gzip", "a gzip file", "0 bytes")
    pieces, total = [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            while piece := stream.read(_STEP):
                total += len(piece)
                if total > MAX_EXPANDED:
                    raise codec_error("gzip", f"at most {MAX_EXPANDED} bytes when expanded", "more")
                pieces.append(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise codec_error(
            "gzip", "a complete gzip file", f"{found_bytes(data)} ({error})"
        ) from error
    return inner.decode(b"".join(pieces))


def _stored(name: str, inner: Codec) -> Codec:
    return Codec(name, encode_bytes, bytes)


WRAPPERS: Mapping[str, Callable[[str, Codec], Codec]] = {"gzip": _gzip, "stored": _stored}
