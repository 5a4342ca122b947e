"""A damaged file, given straight to the compiled functions: a build with sanitizers finds every wrong access."""

from __future__ import annotations

import random
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tests.fuzz.campaign.cases import Case
from tests.fuzz.campaign.check import Outcome, WrongError
from tests.fuzz.campaign.material import Material

from bushel import kernels
from bushel.kernels import ExtentError, JpegError, MappedFile

__all__ = ["check_kernels"]

_JPEG = b"\xff\xd8\xff"
_LARGEST = 1 << 22
"""Bytes that an extent in the damaged file may ask for when it is expected to be refused or read at once."""


def check_kernels(case: Case, container: str, material: Material, path: Path) -> Outcome:
    """Scan a damaged file, read extents that it names, and decode the images in it.

    Raises:
        WrongError: A kernel gives an extent outside the file, or other bytes than the file has.
        Exception: Anything but the errors that the kernels document.
    """
    rng = random.Random(case.number)
    path.write_bytes(case.data)
    file = MappedFile(str(path))
    if container == "tar":
        _scan_tar(case.data, file, rng)
    if container == "recordio":
        _scan_recordio(case.data, file)
    if container in ("jsonl", "csv"):
        _scan_lines(case.data, container == "csv", rng)
    if container == "arrayrecord":
        _scan_chunks(file, rng)
    if container in ("parquet", "arrow"):
        _scan_pages(case.data, rng)
    read = _read_tables(case.data, file, rng)
    _decode(case.data, rng)
    return Outcome(True, read)


def _scan_tar(data: bytes, file: MappedFile, rng: random.Random) -> None:
    start = 512 * rng.randrange(3)
    if start and start >= len(data):
        return
    try:
        members = kernels.scan_tar(data, start)
    except ValueError:
        if data:
            raise
        return
    again = kernels.scan_tar(file, start)
    scanner, most = kernels.TarScanner(len(data), start), rng.choice([0, 4096, 1 << 20])
    while (window := scanner.next_window()) is not None:
        scanner.feed(data[window[0] : window[0] + max(scanner.need, min(most, window[1]))])
    for other in (again, scanner.take()):
        if not np.array_equal(members.offset, other.offset) or members.problem != other.problem:
            raise WrongError("scan_tar: windows of another size give another result")
    _inside(members.offset, members.size, len(data), "scan_tar")
    rows = np.arange(len(members), dtype=np.int64)
    kernels.decode_keys(members.names, members.name_offsets, rows)
    kernels.hash_keys(members.names, members.name_offsets)


def _scan_recordio(data: bytes, file: MappedFile) -> None:
    records = kernels.scan_recordio(data)
    again = kernels.scan_recordio(file)
    if not np.array_equal(records.offset, again.offset):
        raise WrongError("scan_recordio: the file and its bytes give other results")
    _inside(records.offset + 8, records.span, len(data), "scan_recordio")
    for offset, span in zip(records.offset.tolist(), records.span.tolist(), strict=True):
        framed = data[offset : offset + 8 + span]
        payload = kernels.join_recordio(framed)
        kernels.split_recordio(payload)
    with suppress(ValueError):
        kernels.join_recordio(data)
    if kernels.recordio_crc32([data]) not in (None, [zlib.crc32(data)]):
        raise WrongError("recordio_crc32: a wrong checksum")


def _scan_chunks(file: MappedFile, rng: random.Random) -> None:
    for position in (0, rng.randrange(file.size + 1)):
        found = kernels.scan_riegeli(file, position, file.size, rng.choice([1, 1000]))
        _inside(found.start, found.length, file.size, "scan_riegeli")
        _inside(found.values - found.sizes, found.sizes, file.size, "scan_riegeli")
        if (found.values > found.start + found.length).any() or (found.records < 1).any():
            raise WrongError("scan_riegeli: a chunk has no records, or they begin behind it")


def _scan_lines(data: bytes, cells: bool, rng: random.Random) -> None:
    """Scan in one piece and in chunks, which must find the same."""
    names = [b"a", b"", b"c", b"d"] if cells else []
    whole, chunks = (_scanned(data, names, size) for size in (len(data) + 1, rng.choice([7, 100, 5000])))
    if whole != chunks:
        raise WrongError(f"LineScanner: chunks give another result, {chunks} instead of {whole}")
    with suppress(ValueError):
        kernels.csv_record(data, ord(","), rng.random() < 0.5, 100)


def _scanned(data: bytes, names: list[bytes], size: int) -> tuple[int, str | None, int]:
    """Return the number of samples before the first problem, and that problem, of a scan in chunks of this size."""
    scanner = kernels.LineScanner(names, ord(",") if names else 0)
    rows, at, window = 0, 0, size
    while at < len(data):
        used = scanner.feed(data[at : at + window], at, at + window >= len(data))
        rows, full, own = rows + scanner.rows, scanner.full, scanner.rows
        block = scanner.take()
        if own:
            blocks = kernels.LineBlocks(block, np.array([0, len(block)]), np.array([0, own]))
            for field in range(len(scanner.names)):
                offset, length = kernels.LineColumn(blocks, field, "offset", False).extents(np.arange(own))
                _inside(offset, length + (length == -1), len(data), "LineScanner")
        if scanner.problem is not None:
            break
        at, window = at + used, size if used or full else 2 * window
    return rows, scanner.problem, scanner.problem_offset


def _scan_pages(data: bytes, rng: random.Random) -> None:
    for at in (0, *(rng.randrange(len(data) + 1) for _ in range(8))):
        with suppress(ValueError):
            offset, length = kernels.scan_byte_arrays(data[at:], rng.randrange(40))
            _inside(offset, length, len(data) - at, "scan_byte_arrays")
        with suppress(ValueError):
            kernels.scan_snappy(data[at:], rng.choice([1 << 16, 100]))
        counts, absent = np.zeros(20, np.int64), np.zeros(20, np.uint8)
        with suppress(ValueError):
            kernels.present_elements(data[at:], data[at + 9 :], 3, rng.randrange(3), 500, 0, counts, absent)
        with suppress(ValueError):
            kernels.read_hybrid(data[at:], rng.randrange(33), 500)
        with suppress(ValueError):
            numbers, used = kernels.decode_deltas(data[at:])
            kernels.join_prefixed(data[at + used :], numbers, numbers, np.zeros(1000, np.uint8))


def _inside(offset: npt.NDArray[np.int64], length: npt.NDArray[np.int64], size: int, what: str) -> None:
    if ((offset < 0) | (length < 0) | (offset > size) | (length > size - offset)).any():
        raise WrongError(f"{what}: an extent is outside the file")


def _read_tables(data: bytes, file: MappedFile, rng: random.Random) -> int:
    """Take the words of the file as a table of extents and keys, as a bag has one, and read what it names."""
    shift = min(rng.randrange(8), len(data))
    words = np.frombuffer(data, "<i8", max((len(data) - shift) // 8, 0), shift)[-64:].astype(np.int64)
    small = words % (len(data) + 64) - 8
    read = 0
    for values in (words, small):
        half = len(values) // 2
        offset, length = values[:half].copy(), values[half : 2 * half].copy()
        if values is words:
            length = np.minimum(length, _LARGEST)
        for row in range(half):
            one = slice(row, row + 1)
            try:
                [value] = kernels.read_many([file], 0, offset[one], length[one])
            except (ExtentError, ValueError):
                continue
            if value is not None and value != data[int(offset[row]) : int(offset[row]) + int(length[row])]:
                raise WrongError("read_many: other bytes than in the file")
            read += 1
        with suppress(ExtentError, ValueError):
            kernels.gather([file], 0, offset, length)
        with suppress(ExtentError, ValueError):
            kernels.crc32_many([file], 0, offset, length)
        with suppress(ExtentError, ValueError):
            kernels.prefetch([file], 0, offset, length)
        text = np.frombuffer(data, np.uint8)
        with suppress(ValueError):
            kernels.hash_keys(text, np.sort(values) if rng.random() < 0.5 else values)
        with suppress(ValueError, IndexError):
            kernels.decode_keys(text, np.sort(np.abs(values)), np.arange(max(len(values) - 1, 0), dtype=np.int64))
    return read


def _decode(data: bytes, rng: random.Random) -> None:
    """Decode the images in the file, from their first bytes to the end of the file or to a random place."""
    at = data.find(_JPEG)
    for _ in range(2):
        if at < 0:
            break
        end = len(data) if rng.random() < 0.5 else rng.randrange(at, len(data) + 1)
        image = data[at : min(end, at + 20_000)]
        with suppress(JpegError):
            header = kernels.jpeg_header(image)
            if header.width * header.height <= 1 << 20:
                kernels.decode_jpeg(
                    image, tolerant=rng.random() < 0.5, libjpeg=rng.random() < 0.3, fast=rng.random() < 0.3
                )
                kernels.jpeg_coefficients(image)
        with suppress(JpegError):
            kernels.tile_jpeg(image, max_pixels=1 << 20)
        with suppress(JpegError):
            kernels.jpeg_segment_offsets(image)
        at = data.find(_JPEG, at + 3)
