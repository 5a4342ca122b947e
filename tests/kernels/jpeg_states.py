"""A second implementation of seek tables in plain Python, after docs/seek-tables.md and ITU T.81."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class State:
    """The decoder before an MCU: byte and bit in the entropy-coded data, and the DC predictions."""

    offset: int
    bit: int
    dc: tuple[int, ...]


def every(step: int, states: list[State]) -> list[State]:
    """Return the states that a table holds of those before each MCU and after the last one."""
    return [*states[step:-1:step], states[-1]]


def parse(words: list[int]) -> tuple[int, int, list[State]]:
    """Return the header's bytes, the MCUs between states, and the states."""
    if not words[0] >> 31 & 1:
        return words[0] >> 32, words[0] & 0x7FFFFFFF, [_state(word) for word in words[1:]]
    if check(words) != words[2] >> 36:
        raise ValueError("the check of the table is wrong")
    widths = [words[1] >> 28 & 31, *(words[1] >> shift & 15 for shift in (33, 37, 41))]
    least = [words[1] & 0xFFFFFFF, *(_signed(words[2] >> shift) for shift in (0, 12, 24))]
    bits = sum(word << 64 * number for number, word in enumerate(words[3:]))
    states: list[State] = []
    position = 0
    for number in range((len(words) - 3) * 64 // max(sum(widths), 1)):
        rest, values = bits >> number * sum(widths), []
        for width, low in zip(widths, least, strict=True):
            values.append(low + (rest & (1 << width) - 1))
            rest >>= width
        position += values[0]
        states.append(State(position >> 3, position & 7, tuple(values[1:])))
    return words[0] >> 32, words[0] & 0x7FFFFFFF, states


def check(words: list[int]) -> int:
    """Return the check of a packed table."""
    total = 0
    for number, word in enumerate(words):
        total = (total ^ (word & (1 << 36) - 1 if number == 2 else word)) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
        total ^= total >> 32
    return total >> 36


def _signed(value: int) -> int:
    value &= 0xFFF
    return value - 4096 if value >= 2048 else value


def _state(word: int) -> State:
    return State(word >> 3 & 0x1FFFFFF, word & 7, tuple(_signed(word >> shift) for shift in (28, 40, 52)))


def older(words: list[int], mcus: int) -> list[int]:
    """Return the same table with a word per state, as tables were made first."""
    head, step, states = parse(words)
    made = [head << 32 | step]
    for state in states[: -(-mcus // step)]:
        dc = sum((value & 0xFFF) << 28 + 12 * number for number, value in enumerate(state.dc))
        made.append(state.offset << 3 | state.bit | dc)
    return made


@cache
def states_of(data: bytes) -> tuple[int, list[State]]:
    """Return the bytes of the header, and the state before each MCU and after the last one.

    The JPEG is baseline and has no restart markers.
    """
    tables, frame, at = {}, b"", 2
    while True:
        marker, size = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        payload, at = data[at + 4 : at + 2 + size], at + 2 + size
        if marker == 0xC4:
            while payload:
                counts = payload[1:17]
                tables[payload[0]] = _codes(counts, payload[17 : 17 + sum(counts)])
                payload = payload[17 + sum(counts) :]
        elif marker == 0xC0:
            frame = payload
        elif marker == 0xDA:
            break
    height, width = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
    factors = [(frame[7 + 3 * i] >> 4, frame[7 + 3 * i] & 15) for i in range(frame[5])]
    if len(factors) == 1:
        factors = [(1, 1)]
    across, down = 8 * max(h for h, _ in factors), 8 * max(v for _, v in factors)
    mcus = -(-width // across) * -(-height // down)
    selected = [payload[2 + 2 * i] for i in range(len(factors))]
    return at, list(_decode(data, at, mcus, factors, selected, tables))


def _codes(counts: bytes, symbols: bytes) -> dict[tuple[int, int], int]:
    codes, code, number = {}, 0, 0
    for length, count in enumerate(counts, 1):
        for _ in range(count):
            codes[length, code] = symbols[number]
            code, number = code + 1, number + 1
        code <<= 1
    return codes


def _decode(
    data: bytes,
    start: int,
    mcus: int,
    factors: list[tuple[int, int]],
    selected: list[int],
    tables: dict[int, dict[tuple[int, int], int]],
) -> Iterator[State]:
    offset, bit = start, 0

    def take(count: int) -> int:
        nonlocal offset, bit
        value = 0
        for _ in range(count):
            value = value << 1 | data[offset] >> (7 - bit) & 1
            bit += 1
            if bit == 8:
                offset, bit = offset + (2 if data[offset] == 0xFF else 1), 0
        return value

    def symbol(table: int) -> int:
        code = 0
        for length in range(1, 17):
            code = code << 1 | take(1)
            if (length, code) in tables[table]:
                return tables[table][length, code]
        raise ValueError(f"no code at byte {offset}")

    dc = [0] * len(factors)

    def state() -> State:
        return State(offset - start, bit, (*dc, 0, 0)[:3])

    yield state()
    for _ in range(mcus):
        for number, (h, v) in enumerate(factors):
            for _ in range(h * v):
                if size := symbol(selected[number] >> 4):
                    value = take(size)
                    dc[number] += value if value >> (size - 1) else value - (1 << size) + 1
                coefficient = 1
                while coefficient < 64:
                    code = symbol(0x10 | selected[number] & 15)
                    if code == 0:
                        break
                    coefficient += (code >> 4) + 1
                    take(code & 15)
        yield state()
