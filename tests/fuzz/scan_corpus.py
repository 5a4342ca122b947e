"""The inputs from which libFuzzer starts (scripts/fuzz_scans.sh): small files that the original packages wrote."""

from __future__ import annotations

import io
import struct
import sys
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import cramjam
from tests.filters.parquet_deltas import prefixed
from tests.kernels.jpegs import all_kinds
from tests.kernels.zip_directories import archive_of, directory_of, entry
from tests.paths import GOLDEN

__all__ = ["write_corpora"]

_LARGEST = 4096
_RECORD_HEAD, _RECORD_TAIL = 12, 4  # bytes of a record of TFRecord before and after its data


def write_corpora(folder: Path) -> None:
    """Write the inputs of each scan into the folder `corpus-SCAN`."""
    for scan, data in _inputs():
        place = folder / f"corpus-{scan}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{zlib.crc32(data):08x}").write_bytes(data)


def _inputs() -> Iterator[tuple[str, bytes]]:
    texts = [b"", b"a" * 3000, bytes(range(256)) * 9, (GOLDEN / "foreign/jsonl/rows.jsonl").read_bytes()[:_LARGEST]]
    for text in texts:
        yield "snappy", bytes(cramjam.snappy.compress_raw(text))
        for level in (0, 1, 9):
            yield "inflate", zlib.compress(text, level, -15)
        yield "inflate", zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_FIXED).compress(text)
        yield "byte_arrays", b"".join(len(part).to_bytes(4, "little") + part for part in text.split(b"\n"))
    for kind in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
            for name in ("1.txt", "a-very-long-name/" * 8 + "2.é.txt"):
                member = tarfile.TarInfo(name)
                member.size = 3
                archive.addfile(member, io.BytesIO(b"abc"))
        yield "tar", out.getvalue()[:_LARGEST]
    for path in GOLDEN.rglob("*.rec"):
        yield "recordio", path.read_bytes()[:_LARGEST]
    for path in GOLDEN.glob("foreign/arrayrecord-*/*"):
        yield "riegeli", path.read_bytes()[:_LARGEST]
    for path in GOLDEN.glob("foreign/tfrecord-plain/*.tfrecord*"):
        data, at = path.read_bytes(), 0
        while at < min(len(data), 10 * _LARGEST):
            size = int.from_bytes(data[at : at + 8], "little")
            yield "tfrecord", data[at + _RECORD_HEAD : at + _RECORD_HEAD + size][:_LARGEST]
            at += _RECORD_HEAD + size + _RECORD_TAIL
    for start in range(0, 30_000, 1500):
        yield "json_lines", (GOLDEN / "foreign/jsonl/rows.jsonl").read_bytes()[start : start + 1500]
        yield "csv_lines", (GOLDEN / "foreign/csv/rows.csv").read_bytes()[start : start + 1500]
    for values in ([b"", b"apple", b"applet", b"ap"], [b"path/to/%d" % number for number in range(200)]):
        yield "parquet_deltas", prefixed(values)
    runs = [
        b"\x90\x03\x01",
        b"\x03\xf0",
        b"\x0d" + bytes(range(6)),
        b"\x80\x01\x00",
    ]  # 200 ones, packed numbers, 64 zeros
    for first in range(len(runs)):
        yield "parquet_levels", b"".join(runs[first:] + runs[:first]) * 20
    for data in all_kinds().values():
        yield "image_headers", data[:_LARGEST]
    for names in (
        ["1.txt", "b/é.txt", "b/", "__MACOSX/._a", ".x", "1.cls"],
        [f"{number % 20}.{number}" for number in range(60)],
    ):
        yield "zip", directory_of(archive_of(names))[:_LARGEST]
    numbers = struct.pack("<HHQQQ", 1, 24, 5 << 32, 5 << 32, 7 << 32)
    yield "zip", entry(b"a.b", size=0xFFFFFFFF, offset=0xFFFFFFFF, extra=numbers)
    unicode = struct.pack("<BL", 1, zlib.crc32(b"?.txt")) + "名.txt".encode()
    yield "zip", entry(b"?.txt", extra=struct.pack("<HH", 0x7075, len(unicode)) + unicode) + entry(bytes(range(1, 256)))


if __name__ == "__main__":
    write_corpora(Path(sys.argv[1]))
