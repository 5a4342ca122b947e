"""An encoder of progressive JPEGs with any scans, for coefficients of another JPEG (ITU T.81 annex G)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from tests.kernels.jpeg_checks import segment, segments

from bushel.kernels import jpeg_coefficients

ZIGZAG = sorted(range(64), key=lambda at: (at // 8 + at % 8, at // 8 if (at // 8 + at % 8) % 2 else at % 8))
MAX_EOB_RUN = 0x7FFF

Blocks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Scan:
    """One scan: its components, its coefficients in zigzag order, and its bits.

    `before` is the shift of the scan that it refines, 0 if it is the first one of these coefficients.
    """

    components: tuple[int, ...]
    first: int = 0
    last: int = 0
    before: int = 0
    shift: int = 0
    interval: int = 0  # MCUs between two restart markers


@dataclass(slots=True)
class Bits:
    """The bits of a segment, with codes of one length for the symbols, and the end-of-block runs that are pending."""

    code_bits: int
    bits: list[str] = field(default_factory=list)
    run: int = 0
    after_run: str = ""  # the correction bits of the blocks of the run

    def symbol(self, symbol: int, value: str = "") -> None:
        self.bits.append(format(symbol, f"0{self.code_bits}b") + value)

    def value(self, run: int, value: int) -> None:
        size = int(abs(value)).bit_length()
        low = value if value > 0 else value + (1 << size) - 1
        self.symbol(run << 4 | size, format(low, f"0{size}b") if size else "")

    def end_run(self) -> None:
        if self.run:
            size = self.run.bit_length() - 1
            self.symbol(size << 4, format(self.run - (1 << size), f"0{size}b") if size else "")
            self.bits.append(self.after_run)
        self.run, self.after_run = 0, ""

    def end_block(self, corrections: str = "") -> None:
        self.run, self.after_run = self.run + 1, self.after_run + corrections
        if self.run == MAX_EOB_RUN:
            self.end_run()

    def to_bytes(self) -> bytes:
        self.end_run()
        text = "".join(self.bits)
        text += "1" * (-len(text) % 8)
        return int("1" + text, 2).to_bytes(len(text) // 8 + 1, "big")[1:].replace(b"\xff", b"\xff\x00")


def first_ac(out: Bits, block: Blocks, scan: Scan) -> None:
    run = 0
    for number in range(scan.first, scan.last + 1):
        value = int(np.sign(block[number])) * (abs(int(block[number])) >> scan.shift)
        if value == 0:
            run += 1
            continue
        out.end_run()
        while run > 15:
            out.symbol(0xF0)
            run -= 16
        out.value(run, value)
        run = 0
    if run:
        out.end_block()


def refined_ac(out: Bits, block: Blocks, scan: Scan) -> None:
    values = [abs(int(value)) >> scan.shift for value in block]
    new = [number for number in range(scan.first, scan.last + 1) if values[number] == 1]
    end, run, corrections = new[-1] if new else -1, 0, ""
    for number in range(scan.first, scan.last + 1):
        if values[number] == 0:
            run += 1
            continue
        while run > 15 and number <= end:
            out.end_run()
            out.symbol(0xF0, corrections)
            run, corrections = run - 16, ""
        if values[number] > 1:
            corrections += str(values[number] & 1)
            continue
        out.end_run()
        out.symbol(run << 4 | 1, ("1" if block[number] > 0 else "0") + corrections)
        run, corrections = 0, ""
    if run or corrections:
        out.end_block(corrections)


def table(kind: int, code_bits: int) -> bytes:
    """Return a DHT segment in which each symbol is its own code, of one length."""
    symbols = bytes(range(min(16 if kind == 0 else 255, (1 << code_bits) - 1)))
    counts = bytes(len(symbols) if length == code_bits else 0 for length in range(1, 17))
    return segment(0xC4, bytes([kind << 4]) + counts + symbols)


def mcus(scan: Scan, blocks: list[Blocks], factors: list[tuple[int, int]], size: tuple[int, int]) -> Iterator[Blocks]:
    """Return the blocks of each MCU, [block][64], and before them the number of their component."""
    if len(scan.components) == 1:
        for block in blocks[scan.components[0]].reshape(-1, 64):
            yield np.concatenate([[0], block])[None]
        return
    across, down = (8 * max(factor[axis] for factor in factors) for axis in (0, 1))
    for row in range(-(-size[1] // down)):
        for column in range(-(-size[0] // across)):
            found = []
            for number, component in enumerate(scan.components):
                (h, v), given = factors[component], blocks[component]
                for y in range(row * v, row * v + v):
                    for x in range(column * h, column * h + h):
                        block = given[min(y, given.shape[0] - 1), min(x, given.shape[1] - 1)]
                        found.append(np.concatenate([[number], block]))
            yield np.array(found)


def encoded(scan: Scan, each_mcu: Iterator[Blocks], code_bits: int) -> bytes:
    """Return the entropy-coded data of a scan, with restart markers."""
    segments_of_scan, out, before = list[bytes](), Bits(code_bits), [0] * 4
    for number, mcu in enumerate(each_mcu):
        if scan.interval and number and number % scan.interval == 0:
            segments_of_scan.append(out.to_bytes() + bytes([0xFF, 0xD0 + len(segments_of_scan) % 8]))
            out, before = Bits(code_bits), [0] * 4
        for component, *coefficients in mcu.tolist():
            if scan.first:
                (refined_ac if scan.before else first_ac)(out, np.array(coefficients), scan)
            elif scan.before:
                out.bits.append(str(coefficients[0] >> scan.shift & 1))
            else:
                dc = coefficients[0] >> scan.shift
                out.value(0, dc - before[component])
                before[component] = dc
    return b"".join(segments_of_scan) + out.to_bytes()


def progressive(data: bytes, scans: Sequence[Scan], code_bits: int = 8, end: bytes = b"\xff\xd9") -> bytes:
    """Return a JPEG of one scan as a progressive one with the given scans. Codes have 5 bits for DC coefficients."""
    blocks = [found.reshape(*found.shape[:2], 64)[:, :, ZIGZAG].astype(np.int64) for found in jpeg_coefficients(data)]
    header = [part for part in segments(data)[:-1] if part[1] not in (0xC4, 0xDD)]
    frame = next(part for part in header if part[1] == 0xC0)
    height, width = struct.unpack(">HH", frame[5:9])
    factors = [(frame[11 + 3 * at] >> 4, frame[11 + 3 * at] & 15) for at in range(frame[9])]
    written = [part if part[1] != 0xC0 else b"\xff\xc2" + part[2:] for part in header]
    written += [table(0, 5), table(1, code_bits)]
    for scan in scans:
        written.append(segment(0xDD, struct.pack(">H", scan.interval)))
        fields = b"".join(bytes([frame[10 + 3 * component], 0]) for component in scan.components)
        selection = bytes([scan.first, scan.last, scan.before << 4 | scan.shift])
        written.append(segment(0xDA, bytes([len(scan.components)]) + fields + selection))
        written.append(encoded(scan, mcus(scan, blocks, factors, (width, height)), 5 if scan.first == 0 else code_bits))
    return b"".join(written) + end
