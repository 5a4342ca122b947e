"""Frames of AV1 that no other frame is predicted from, by their headers. Pure: no decoder.

The header of a frame says which of eight saved frames it replaces (AV1 bitstream specification, 5.9.2). A frame that
replaces none leaves no trace in a decoder, so that it can be left out unless it is wanted itself. In streams with
unsupported features, such as layers or a decoder model, all frames count as needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bushel._runtime.structs import Struct
from bushel.codecs.base import Buffer

_SEQUENCE, _DELIMITER, _FRAME_HEADER, _TILES, _METADATA, _FRAME, _PADDING = 1, 2, 3, 4, 5, 6, 15
_INTER = 1
_SELECT = 2  # each frame says it
_HEAD = 64  # bytes of a unit in which its header ends, as far as it is read


class _Sequence(Struct, frozen=True):
    """Facts of a sequence header that decide how the headers of its frames are read."""

    screen_content_tools: int
    integer_mv: int
    order_hint_bits: int


class _Bits:
    """Reads numbers of some bits, the highest one first. After the end, bits are 0."""

    def __init__(self, data: Buffer) -> None:
        head = bytes(memoryview(data)[:_HEAD]).ljust(_HEAD, b"\0")
        self._value, self._left = int.from_bytes(head, "big"), 8 * _HEAD

    def __call__(self, count: int = 1) -> int:
        self._left -= count
        return (self._value >> self._left) & ((1 << count) - 1)


def needed_by_others(packets: Sequence[Buffer]) -> list[bool]:
    """Return for each packet whether frames after it may depend on it.

    The packets are temporal units in decoding order. If the first one is not a keyframe with its sequence header, all
    are needed.
    """
    if not packets or (sequence := _sequence_of(packets[0])) is None:
        return [True] * len(packets)
    return [True, *(_is_needed(packet, sequence) for packet in packets[1:])]


def _units(packet: Buffer) -> Iterator[tuple[int, memoryview]]:
    """Yield type and contents of the units (OBUs) of a packet; type -1 for what cannot be read."""
    view = memoryview(packet)
    at = 0
    while at < len(view):
        head, at = view[at], at + 1
        if head & 0x84:  # invalid, or of a layer
            yield -1, view[:0]
            return
        size, shift = len(view) - at, 0
        if head & 2:
            size = 0
            while at < len(view) and shift < 35:
                size |= (view[at] & 0x7F) << shift
                shift, at = shift + 7, at + 1
                if not view[at - 1] & 0x80:
                    break
        if size > len(view) - at:
            yield -1, view[:0]
            return
        yield head >> 3, view[at : at + size]
        at += size


def _sequence_of(packet: Buffer) -> _Sequence | None:
    headers = [data for kind, data in _units(packet) if kind == _SEQUENCE]
    return _read_sequence(_Bits(headers[0])) if len(headers) == 1 else None


def _read_sequence(bits: _Bits) -> _Sequence | None:
    """Read a sequence header (5.5.1). Return None if its frames have headers that are not read here."""
    bits(3 + 1)  # profile, still picture
    if bits():  # the short header of a still picture
        return None
    if bits():  # timing
        return None
    delays = bits()
    for _ in range(bits(5) + 1):
        bits(12)
        if bits(5) > 7:
            bits()
        if delays and bits():
            bits(4)
    sizes = bits(4) + 1, bits(4) + 1
    for size in sizes:
        bits(size)
    if bits():  # numbers of frames
        return None
    bits(3 + 4)  # tools for blocks
    order_hints = bits()
    if order_hints:
        bits(2)
    tools = _SELECT if bits() else bits()
    integer = (_SELECT if bits() else bits()) if tools else _SELECT
    return _Sequence(tools, integer, bits(3) + 1 if order_hints else 0)


def _is_needed(packet: Buffer, sequence: _Sequence) -> bool:
    frames = 0
    for kind, data in _units(packet):
        if kind in (_FRAME, _FRAME_HEADER):
            frames += 1
            if _replaces(_Bits(data), sequence):
                return True
        elif kind not in (_DELIMITER, _TILES, _METADATA, _PADDING):
            return True
    return frames == 0


def _replaces(bits: _Bits, sequence: _Sequence) -> bool:
    """Return whether a frame replaces a saved one, or may do so."""
    if bits() or bits(2) != _INTER:  # a saved frame is shown; another type of frame
        return True
    if not bits():  # not shown, so that it is shown later
        return True
    resilient = bits()
    bits()  # no updates of probabilities
    tools = bits() if sequence.screen_content_tools == _SELECT else sequence.screen_content_tools
    if tools and sequence.integer_mv == _SELECT:
        bits()
    bits()  # a size of its own
    bits(sequence.order_hint_bits)
    if not resilient:
        bits(3)  # the frame whose probabilities it starts with
    return bits(8) != 0
