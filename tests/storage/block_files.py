"""Block files for tests: the bytes of a content, cut into blocks of any filters, in any files."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cramjam
import numpy as np

from bushel.filters.deflate import deflate_side
from bushel.storage import IN_TABLE, BlockFile, Blocks, File, Side

FILTERS = ("stored", "deflate", "gzip", "zlib", "zstd", "lz4", "lz4-block", "brotli", "snappy", "snappy-tags")


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def _without_size(stream: bytes) -> bytes:
    return stream[next(at for at, byte in enumerate(stream) if byte < 0x80) + 1 :]


PACK: dict[str, Callable[[bytes], bytes]] = {
    "stored": lambda data: data,
    "gzip": _gzip,
    "zlib": zlib.compress,
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "lz4-block": lambda data: bytes(cramjam.lz4.compress_block(data, store_size=False)),
    "brotli": lambda data: bytes(cramjam.brotli.compress(data, 1)),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "snappy-tags": lambda data: _without_size(bytes(cramjam.snappy.compress_raw(data))),
}


def pack_deflate(data: bytes, window: bytes, bit: int) -> tuple[bytes, bytes]:
    """Return stored bytes that begin with `bit` bits of something else, and the side input."""
    window = window[-(1 << 15) :]
    packer = (
        zlib.compressobj(6, zlib.DEFLATED, -15, zdict=window) if window else zlib.compressobj(6, zlib.DEFLATED, -15)
    )
    stream = packer.compress(data) + packer.flush()
    if stream[0] >> 1 & 3 == 0:  # the bytes of a stored block begin at a whole byte, so it cannot be shifted
        bit = 0
    shifted = int.from_bytes(stream, "little") << bit | (1 << bit) - 1
    return shifted.to_bytes(len(stream) + (bit > 0), "little"), deflate_side(bit, window)


@dataclass(frozen=True, slots=True)
class Cut:
    """A block to make: size, filter, number of the real file or `IN_TABLE`, bits and unused bytes before it."""

    size: int
    filter: str
    file: int
    bit: int = 0
    gap: int = 0


def block_file(
    folder: Path, content: bytes, cuts: Sequence[Cut], open_real: Callable[[Path], File], files: int = 2
) -> BlockFile:
    """Write the stored bytes of blocks to files of a folder, and return the block file whose bytes are `content`."""
    homes = {number: bytearray() for number in (IN_TABLE, *range(files))}
    start, file, offset, length, filters, sides = [0], [], [], [], [], [b""]
    for cut in cuts:
        data = content[start[-1] : start[-1] + cut.size]
        side = b""
        if cut.filter == "deflate":
            stored, side = pack_deflate(data, content[: start[-1]], cut.bit)
        else:
            stored = PACK[cut.filter](data)
        home = homes[cut.file]
        home += b"?" * cut.gap
        file.append(cut.file)
        offset.append(len(home))
        length.append(len(stored))
        filters.append(FILTERS.index(cut.filter))
        sides.append(side)
        home += stored
        start.append(start[-1] + len(data))
    assert start[-1] == len(content)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        (folder / str(number)).write_bytes(homes[number])
    opened = [open_real(folder / str(number)) for number in range(files)]
    blocks = Blocks(
        np.array(start, np.int64),
        np.array(file, np.int32),
        np.array(offset, np.int64),
        np.array(length, np.int64),
        np.array(filters, np.uint8),
        FILTERS,
        Side(np.cumsum([len(side) for side in sides]).astype(np.int64), np.frombuffer(b"".join(sides), np.uint8)),
        np.frombuffer(bytes(homes[IN_TABLE]), np.uint8),
    )
    return BlockFile(str(folder / "blocks"), blocks.check("blocks", [one.size for one in opened]), opened.__getitem__)
