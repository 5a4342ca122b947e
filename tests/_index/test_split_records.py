"""Records in pieces: payloads are extents of the file without the length words of later parts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel._index.block_arrays import blocks_without, length_words, position_of, words_of
from bushel.errors import FormatError
from bushel.kernels import split_recordio
from bushel.storage import BlockFile

MAGIC = (0xCED7230A).to_bytes(4, "little")
PAYLOADS = st.lists(st.sampled_from([MAGIC, b"abcd", b"x", b"", MAGIC + MAGIC]), max_size=6).map(b"".join)


class Memory:
    """A file in memory."""

    path, mtime_ns = "memory", 0

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)

    def read(self, offset: int, length: int, /) -> bytes:
        return self.data[offset : offset + length]


@given(st.lists(PAYLOADS, min_size=1, max_size=8))
def test_payloads_are_extents_of_the_block_file(payloads: list[bytes]) -> None:
    data, starts, words = b"", [], []
    for payload in payloads:
        raw = split_recordio(payload)
        starts.append(len(data) + 8)
        words += [len(data) + at for at in length_words(raw[: len(raw) - -len(payload) % 4])]
        data += raw
    blocks = blocks_without(len(data), words).check("x", [len(data)])
    assert words_of(blocks).tolist() == words
    file = BlockFile("x", blocks, lambda _: Memory(data))
    assert file.size == len(data) - 4 * len(words)
    position = position_of(np.array(starts, np.int64), np.array(words, np.int64))
    for at, payload in zip(position.tolist(), payloads, strict=True):
        assert file.read(at, len(payload)) == payload


@pytest.mark.parametrize("change", [(0, 1), (4, 64), (12, 1), (-6, 9)])
def test_parts_that_do_not_fit_together(change: tuple[int, int]) -> None:
    raw = bytearray(split_recordio(b"abcd" + MAGIC + b"efgh"))
    raw[change[0]] ^= change[1]
    with pytest.raises(FormatError):
        length_words(bytes(raw))
    with pytest.raises(FormatError, match="follow its last part"):
        length_words(split_recordio(b"abcd") + b"more")
