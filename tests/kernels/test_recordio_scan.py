"""RecordIO: scan, join and split against a plain Python implementation."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.kernels import (
    ExtentError,
    MappedFile,
    RecordioRecords,
    join_recordio,
    recordio_crc32,
    scan_recordio,
    split_recordio,
)

MAGIC = struct.pack("<I", 0xCED7230A)

Row = tuple[int, int, int]


def reference_split(payload: bytes) -> bytes:
    """Split at every aligned magic word, which is dropped. Flags: 0 whole, 1 first, 2 middle, 3 last."""
    parts = [bytearray()]
    for at in range(0, len(payload), 4):
        word = payload[at : at + 4]
        if word == MAGIC:
            parts.append(bytearray())
        else:
            parts[-1] += word
    flags = [0] if len(parts) == 1 else [1] + [2] * (len(parts) - 2) + [3]
    framed = b"".join(
        MAGIC + struct.pack("<I", flag << 29 | len(part)) + part for flag, part in zip(flags, parts, strict=True)
    )
    return framed + bytes(-len(framed) % 4)


def reference_read(data: bytes) -> tuple[list[Row], list[bytes]]:
    """Return rows (offset, span, parts) and payloads of a valid file."""
    rows, payloads = [], []
    at = 0
    while at < len(data):
        start, parts = at, []
        while True:
            magic, lrec = struct.unpack_from("<4sI", data, at)
            assert magic == MAGIC
            length = lrec & (1 << 29) - 1
            end = at + 8 + length
            parts.append(data[at + 8 : end])
            at = end + -end % 4
            if lrec >> 29 in (0, 3):
                break
        rows.append((start, end - start - 8, len(parts)))
        payloads.append(MAGIC.join(parts))
    return rows, payloads


def rows_of(found: RecordioRecords) -> list[Row]:
    columns = (found.offset.tolist(), found.span.tolist(), found.parts.tolist())
    return list(zip(*columns, strict=True))


def payloads_of(data: bytes, found: RecordioRecords) -> list[bytes]:
    return [
        data[offset + 8 : offset + 8 + span] if parts == 1 else join_recordio(data[offset : offset + 8 + span])
        for offset, span, parts in rows_of(found)
    ]


payloads = st.lists(
    st.one_of(st.just(MAGIC), st.binary(max_size=9), st.just(MAGIC[:3]), st.just(b"x")), max_size=12
).map(b"".join)


@given(payloads)
def test_split_and_join_agree_with_the_reference(payload: bytes) -> None:
    framed = split_recordio(payload)
    assert framed == reference_split(payload)
    (span,) = scan_recordio(framed).span.tolist()
    assert join_recordio(framed[: 8 + span]) == payload


@given(st.lists(payloads, max_size=20))
def test_scan_agrees_with_the_reference(records: list[bytes]) -> None:
    data = b"".join(reference_split(record) for record in records)
    found = scan_recordio(data)
    rows, read = reference_read(data)
    assert read == records
    assert rows_of(found) == rows
    assert payloads_of(data, found) == records
    assert (found.problem, found.problem_offset, found.end, len(found)) == (None, -1, len(data), len(records))


def test_known_bytes() -> None:
    def framed(text: str) -> bytes:
        return bytes.fromhex(text.replace("M", "0a23d7ce"))

    assert split_recordio(b"") == framed("M 00000000")
    assert split_recordio(b"abcde") == framed("M 05000000 61626364 65000000")
    assert split_recordio(MAGIC) == framed("M 00000020 M 00000060")
    assert split_recordio(b"xy" + MAGIC + b"zz") == framed("M 08000000 7879 M 7a7a")
    assert split_recordio(b"wxyz" + MAGIC + b"q") == framed("M 04000020 7778797a M 01000060 71000000")
    assert split_recordio(MAGIC + MAGIC) == framed("M 00000020 M 00000040 M 00000060")


def test_files_are_scanned_as_buffers_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    # Small records, then records larger than any window, then small ones again.
    sizes = [*rng.integers(0, 300, 5000), *rng.integers(20_000, 700_000, 30), *rng.integers(0, 300, 500)]
    records = [rng.bytes(size) + MAGIC * (size % 3) for size in sizes]
    data = b"".join(reference_split(record) for record in records)
    (tmp_path / "x.rec").write_bytes(data)
    found = scan_recordio(MappedFile(tmp_path / "x.rec"))
    assert rows_of(found) == reference_read(data)[0]
    assert found.problem is None
    middle = int(found.offset[2500])
    assert rows_of(scan_recordio(MappedFile(tmp_path / "x.rec"), middle)) == rows_of(found)[2500:]


def test_arrays_outlive_the_result() -> None:
    offset = scan_recordio(split_recordio(b"abc") * 3).offset
    assert offset.tolist() == [0, 12, 24]
    with pytest.raises(ValueError, match="read-only"):
        offset[0] = 1


def word(flag: int, length: int) -> bytes:
    return MAGIC + struct.pack("<I", flag << 29 | length)


WHOLE = word(0, 4) + b"good"


@pytest.mark.parametrize(
    ("damage", "problem", "at"),
    [
        (b"\1", "header is cut", 0),
        (MAGIC + b"\0\0\0", "header is cut", 0),
        (b"\0" * 8, "magic word is wrong", 0),
        (word(0, 5) + b"abcd", "beyond the end", 0),
        (word(0, 2**29 - 1), "beyond the end", 0),
        (word(4, 0), "part flag", 0),
        (word(7, 0), "part flag", 0),
        (word(2, 0), "without a first", 0),
        (word(3, 4) + b"abcd", "without a first", 0),
        (word(1, 4) + b"abcd", "ends before the last part", 12),
        (word(1, 0) + word(2, 0) + word(0, 0), "before the last part", 16),
        (word(1, 0) + word(1, 0), "before the last part", 8),
        (word(1, 3) + b"abc\0" + word(3, 0), "not a multiple of 4", 0),
        (word(1, 0) + word(2, 1) + b"a\0\0\0" + word(3, 0), "not a multiple of 4", 8),
    ],
)
def test_damage_ends_the_scan_and_is_named(damage: bytes, problem: str, at: int) -> None:
    found = scan_recordio(WHOLE * 3 + damage)
    assert found.problem is not None
    assert problem in found.problem
    assert rows_of(found) == [(0, 4, 1), (12, 4, 1), (24, 4, 1)]
    assert (found.end, found.problem_offset) == (36, 36 + at)
    with pytest.raises(ValueError, match=r"at byte"):
        join_recordio(damage)


def test_missing_padding_after_the_last_record_loses_nothing() -> None:
    found = scan_recordio(word(0, 5) + b"abcde")
    assert (rows_of(found), found.problem, found.end) == ([(0, 5, 1)], None, 13)


def test_the_scan_goes_on_after_damage() -> None:
    data = WHOLE + b"damaged!" + WHOLE
    assert scan_recordio(data).problem_offset == 12
    assert rows_of(scan_recordio(data, 20)) == [(20, 4, 1)]
    assert rows_of(scan_recordio(data, len(data))) == []
    for start in (-4, 2, len(data) + 4):
        with pytest.raises(ValueError, match="start must be a multiple of 4"):
            scan_recordio(data, start)


def test_join_wants_exactly_one_record() -> None:
    assert join_recordio(bytearray(WHOLE)) == b"good"
    with pytest.raises(ValueError, match="after the end of the record, at byte 12"):
        join_recordio(WHOLE + WHOLE)
    with pytest.raises(ValueError, match="cut inside a header, at byte 0"):
        join_recordio(b"")


def test_a_file_that_shrinks_while_it_is_scanned(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    path.write_bytes(WHOLE * 100)
    file = MappedFile(path)
    path.write_bytes(WHOLE)
    with pytest.raises(ExtentError, match="shrunk"):
        scan_recordio(file)


@given(st.lists(payloads, max_size=8), st.data())
def test_mutated_bytes_never_crash_and_rows_stay_inside(records: list[bytes], data: st.DataObject) -> None:
    mutated = bytearray(b"".join(reference_split(record) for record in records))
    for _ in range(data.draw(st.integers(1, 4)) if mutated else 0):
        mutated[data.draw(st.integers(0, len(mutated) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    del mutated[data.draw(st.integers(0, len(mutated))) :]
    found = scan_recordio(mutated)
    assert 0 <= found.end <= len(mutated)
    assert len(payloads_of(bytes(mutated), found)) == len(found)
    for offset, span, _ in rows_of(found):
        assert 0 <= offset <= offset + 8 + span <= found.end
    assert (found.problem is None) == (found.problem_offset == -1)


@given(st.binary(max_size=60))
def test_join_of_anything(raw: bytes) -> None:
    for candidate in (raw, MAGIC + raw):
        try:
            payload = join_recordio(candidate)
        except ValueError:
            continue
        assert reference_split(payload)[: len(candidate)] == candidate or MAGIC in payload


def test_golden_files(golden: Path) -> None:
    files = sorted(golden.glob("recordio-*/**/*.rec"))
    assert files
    for path in files:
        data = path.read_bytes()
        found = scan_recordio(MappedFile(path))
        rows, read = reference_read(data)
        assert rows_of(found) == rows
        assert payloads_of(data, found) == read
        assert (found.problem, found.end) == (None, len(data))
        assert b"".join(split_recordio(payload) for payload in read) == data


@given(st.lists(st.sampled_from([MAGIC, b"abcd", b"x", MAGIC[1:]]), max_size=8).map(b"".join), st.integers(0, 5000))
def test_magic_words_are_seen_where_a_record_is_split(payload: bytes, before: int) -> None:
    payload = bytes(before) + payload
    is_whole = len(split_recordio(payload)) == 8 + len(payload) + -len(payload) % 4
    assert recordio_crc32([payload]) == ([zlib.crc32(payload)] if is_whole else None)


@pytest.mark.parametrize("edge", [1024 * 4, 16 * 1024, 32 * 1024, 48 * 1024])
def test_magic_words_at_the_edges_of_blocks(edge: int) -> None:
    plain = np.random.default_rng(edge).bytes(edge + 100)
    assert recordio_crc32([plain]) == [zlib.crc32(plain)]
    for at in range(edge - 40, edge + 41):
        payload = plain[:at] + MAGIC + plain[at + 4 :]
        assert recordio_crc32([payload]) == ([zlib.crc32(payload)] if at % 4 else None)
        assert recordio_crc32([payload[: at + 3]]) == [zlib.crc32(payload[: at + 3])]


@given(st.lists(st.lists(st.sampled_from([MAGIC, b"abcd", b"x"]), max_size=3).map(b"".join), max_size=5))
def test_pieces_of_a_record(pieces: list[bytes]) -> None:
    payload, sums = b"".join(pieces), recordio_crc32(pieces)
    unaligned = any(len(piece) % 4 for piece in pieces[:-1])
    words = [piece[at : at + 4] for piece in pieces for at in range(0, len(piece), 4)]
    assert (sums is None) == (unaligned or MAGIC in words)
    if sums is not None:
        assert sums == [zlib.crc32(piece) for piece in pieces]
        assert split_recordio(payload) == MAGIC + struct.pack("<I", len(payload)) + payload + bytes(-len(payload) % 4)
    with pytest.raises(TypeError):
        recordio_crc32([*pieces, "text"])  # type: ignore[list-item]
