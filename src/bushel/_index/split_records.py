"""Records in pieces, as a block file: RecordIO files whose records have several parts.

A record whose payload has the magic word of the format is split there. The word itself stands in
the header of the next part, which consists of that word and the length of the part. So the payload
is a concatenation of plain pieces of the file: only the length words of later parts are left out.
The block file of such a file is the file without these words.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bushel._runtime.arrays import I64
from bushel.errors import FormatError
from bushel.storage.blocks import Blocks

WORD = 4
"""Size of a length word in bytes."""

_MAGIC = (0xCED7230A).to_bytes(WORD, "little")
_LENGTH = (1 << 29) - 1
_WHOLE, _FIRST, _MIDDLE, _LAST = 0, 1, 2, 3


def length_words(raw: bytes | memoryview) -> list[int]:
    """Return where the length words of the later parts of a record are.

    `raw` reaches from the header of the first part to the end of the last one.

    Raises:
        FormatError: These are not the parts of one record; `offset` is the offset of the wrong
            header in `raw`.
    """
    words: list[int] = []
    at = 0
    while True:
        word = int.from_bytes(raw[at + WORD : at + 2 * WORD], "little")
        flag, length = word >> 29, word & _LENGTH
        end = at + 2 * WORD + length
        fits = raw[at : at + WORD] == _MAGIC and flag in (
            (_WHOLE, _FIRST) if at == 0 else (_MIDDLE, _LAST)
        )
        last = flag in (_WHOLE, _LAST)
        if not fits or end > len(raw) or (not last and length % WORD):
            raise FormatError("its parts do not fit together", offset=at)
        if at:
            words.append(at + WORD)
        if last:
            if end != len(raw):
                raise FormatError("bytes follow its last part", offset=end)
            return words
        at = end


def blocks_without(size: int, words: Iterable[int] | I64) -> Blocks:
    """Return the block file that a file is without its length words.

    Args:
        size: Size of the file in bytes, which is the first of the shard.
        words: Offsets of the words, ascending.
    """
    left_out = np.array(words if isinstance(words, np.ndarray) else list(words), np.int64)
    offset = np.concatenate([np.zeros(1, np.int64), left_out + WORD])
    return Blocks.of(offset, np.append(left_out, np.int64(size)) - offset)


def words_of(blocks: Blocks) -> I64:
    """Return the offsets of the words that a block file leaves out."""
    return blocks.offset[1:] - WORD


def position_of(offset: I64, words: I64) -> I64:
    """Return the positions in the block file of bytes of the file, given their offsets."""
    return offset - WORD * np.searchsorted(words, offset)
