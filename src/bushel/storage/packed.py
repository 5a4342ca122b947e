"""The blocks of a compressed file whose compression and expanded size are already known."""

from __future__ import annotations

import numpy as np

from bushel.errors import FormatError
from bushel.kernels import scan_snappy

from .base import File
from .blocks import Blocks

COMPRESSIONS = ("gz", "zstd", "br", "bz2", "snappy")
_ONE_BLOCK = {"br": "brotli", "bz2": "bzip2"}
_SNAPPY_PART = 1 << 16
_HINT = "fetch or write it again"


def packed_blocks(file: File, kind: str, size: int | None) -> Blocks:
    """Return the blocks of a compressed file.

    gzip has restart points, Snappy parts of 64 KiB where its copies allow it, zstd a block for each
    frame. A file compressed by brotli or bzip2 is one block, which is expanded for every value that
    is read. `kind` is one of `COMPRESSIONS`, and the kinds of one block need the size that the file
    expands to.

    Raises:
        FormatError: The file is damaged, or expands to another size.
        UnsupportedError: A block expands to more than 1 GiB.
    """
    if kind in ("gz", "zstd"):
        from .restart import compressed_blocks
        from .zstd_frames import is_zstd

        head = file.read(0, min(file.size, 4))
        if not (is_zstd(head) if kind == "zstd" else head[:2] == b"\x1f\x8b"):
            raise FormatError(
                f"expected data compressed by {kind}, found {head!r}", file=file.path, hint=_HINT
            )
        blocks = compressed_blocks(file)
    elif kind == "snappy":
        blocks = _snappy_blocks(file)
    else:
        sizes, stored = np.array([size or 0], np.int64), np.array([file.size], np.int64)
        blocks = Blocks.of(np.zeros(1, np.int64), stored, sizes, _ONE_BLOCK[kind])
    if size is not None and blocks.size != size:
        message = f"it expands to {blocks.size} bytes, where its index says {size}"
        raise FormatError(message, file=file.path, hint=_HINT)
    return blocks.check(file.path, [file.size])


def _snappy_blocks(file: File) -> Blocks:
    try:
        start, offset, length, literal = scan_snappy(file.read(0, file.size), _SNAPPY_PART)
    except ValueError as error:
        raise FormatError(
            f"the Snappy data are damaged: {error}", file=file.path, offset=0, hint=_HINT
        ) from error
    filters = np.where(literal, np.uint8(0), np.uint8(1)).astype(np.uint8)
    files = np.zeros(len(offset), np.int32)
    return Blocks(start, files, offset, length, filters, ("stored", "snappy-tags"))
