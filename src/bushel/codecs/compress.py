"""Codec `gzip(…)`: another codec's bytes, compressed."""

from __future__ import annotations

import gzip
import io
import zlib
from functools import partial
from typing import Any

from bushel.codecs.base import Buffer, Codec, codec_error, found_bytes

__all__ = ["MAX_EXPANDED", "gzip_codec"]

MAX_EXPANDED = 1 << 30
"""Limit in bytes to which one compressed value may expand. A larger one is taken for a decompression bomb."""

_STEP = 1 << 20


def gzip_codec(name: str, inner: Codec) -> Codec:
    """Return the codec that stores the bytes of `inner` as a gzip file without name or time."""
    return Codec(name, partial(_encode, inner), partial(_decode, inner))


def _encode(inner: Codec, value: Any) -> bytes:
    return gzip.compress(inner.encode(value), mtime=0)


def _decode(inner: Codec, data: Buffer) -> Any:
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
        raise codec_error("gzip", "a whole gzip file", f"{found_bytes(data)} ({error})") from error
    return inner.decode(b"".join(pieces))
