"""The frames of AV1 that some frames are predicted from, by their headers. Pure: no decoder.

The header of a frame says which of eight saved frames it replaces, and which of them it is
predicted from (AV1 bitstream specification, 5.9.2). So frames that no wanted frame depends on,
directly or through others, can be left out. In streams with unsupported features, such as layers or
a decoder model, all frames are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bushel._runtime.structs import Struct
from bushel.codecs.base import Buffer

_SEQUENCE, _DELIMITER, _FRAME_HEADER, _TILES, _METADATA, _FRAME, _PADDING = 1, 2, 3, 4, 5, 6, 15
_KEY, _INTER, _SWITCH = 0, 1, 3
_ALL = 0xFF  # all saved frames
_REFERENCES = 7
_SELECT = 2  # each frame says it
_HEAD = 64  # bytes of a unit in which its header ends, as far as it is read


class _Sequence(Struct, frozen=True):
    """Facts of a sequence header that decide how the headers of its frames are read."""

    data: bytes
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


class _Frame(NamedTuple):
    """A frame of a packet. Bit `i` of a mask stands for saved frame `i`."""

    shown: bool
    replaced: int  # the saved frames that it replaces
    used: int  # the saved frames that it is predicted from, or that it shows
    saved: bool = False  # whether it only shows a saved frame


class _Piece(NamedTuple):
    """A frame, or bytes between frames, of a packet."""

    frame: _Frame | None
    begin: int
    end: int


def needed_parts(packets: Sequence[Buffer], wanted: Sequence[bool]) -> list[Buffer | None]:
    """Return the bytes of each packet that are decoded for the frames of some packets.

    Args:
        packets: Temporal units in decoding order. Each shows one frame.
        wanted: Whether that frame is wanted, for each packet.

    Returns:
        The packet itself if all of it is needed, only its needed frames, or None. The first packet
        is returned as it is. If it is not a keyframe with its sequence header, or a packet is not
        understood, all packets are returned.
    """
    sequence = _sequence_of(packets[0]) if packets else None
    if sequence is None:
        return list(packets)
    pieces = list(_without_keyframes([_pieces_of(packet, sequence) for packet in packets[1:]]))
    parts: list[Buffer | None] = []
    live = 0  # the saved frames that frames after this one need
    for packet, pieces_of_packet, is_wanted in zip(
        packets[:0:-1], pieces[::-1], wanted[:0:-1], strict=True
    ):
        if pieces_of_packet is None:
            live = _ALL
            parts.append(packet)
            continue
        needed = []
        for piece in pieces_of_packet[::-1]:
            frame = piece.frame
            if frame is None:
                needed.append(piece)
            elif (frame.shown and is_wanted) or frame.replaced & live:
                live = live & ~frame.replaced | frame.used
                needed.append(piece)
        parts.append(_joined(packet, pieces_of_packet, needed[::-1]))
    return [packets[0], *parts[::-1]]


def _joined(packet: Buffer, pieces: Sequence[_Piece], chosen: Sequence[_Piece]) -> Buffer | None:
    """Return the bytes of some pieces of a packet; None without a frame."""
    if len(chosen) == len(pieces):
        return packet
    view = memoryview(packet)
    if any(piece.frame for piece in chosen):
        return b"".join(view[piece.begin : piece.end] for piece in chosen)
    return None


def _without_keyframes(packets: Sequence[list[_Piece] | None]) -> Iterator[list[_Piece] | None]:
    """Yield the pieces of each packet; None if it may show a saved keyframe, which replaces all saved frames."""
    keys = _ALL  # the saved frames that may be keyframes
    for pieces in packets:
        clear = pieces is not None
        for frame in [piece.frame for piece in pieces or () if piece.frame is not None]:
            clear = clear and not (frame.saved and frame.used & keys)
            keys = keys & ~frame.replaced if frame.used else keys | frame.replaced
        keys = keys if clear else _ALL
        yield pieces if clear else None


def _units(packet: Buffer) -> Iterator[tuple[int, memoryview, int]]:
    """Yield type, contents and end of the units (OBUs) of a packet; type -1 for bytes that cannot be read."""
    view = memoryview(packet)
    at = 0
    while at < len(view):
        head, at = view[at], at + 1
        if head & 0x84:  # invalid, or of a layer
            yield -1, view[:0], at
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
            yield -1, view[:0], at
            return
        yield head >> 3, view[at : at + size], at + size
        at += size


def _sequence_of(packet: Buffer) -> _Sequence | None:
    headers = [data for kind, data, _ in _units(packet) if kind == _SEQUENCE]
    if len(headers) == 1:
        return _read_sequence(_Bits(headers[0]), bytes(headers[0]))
    return None


def _pieces_of(packet: Buffer, sequence: _Sequence) -> list[_Piece] | None:
    """Return the pieces of a packet; None if it is not understood."""
    pieces, begin = list[_Piece](), 0
    for kind, data, end in _units(packet):
        if kind in (_FRAME, _FRAME_HEADER):
            if (frame := _read_frame(_Bits(data), sequence)) is None:
                return None
            pieces.append(_Piece(frame, begin, end))
        elif kind == _TILES and pieces and pieces[-1].frame is not None:
            pieces[-1] = pieces[-1]._replace(end=end)
        elif kind in (_DELIMITER, _METADATA, _PADDING) or (
            kind == _SEQUENCE and data == sequence.data
        ):
            pieces.append(_Piece(None, begin, end))
        else:
            return None
        begin = end
    return pieces if any(piece.frame for piece in pieces) else None


def _read_sequence(bits: _Bits, data: bytes) -> _Sequence | None:
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
    integer = _SELECT
    if tools and not bits():
        integer = bits()
    return _Sequence(data, tools, integer, bits(3) + 1 if order_hints else 0)


def _read_frame(bits: _Bits, sequence: _Sequence) -> _Frame | None:
    """Read a frame header (5.9.2) up to its references. Return None for a frame that switches between streams."""
    if bits():
        return _Frame(True, 0, 1 << bits(3), saved=True)
    kind, shown = bits(2), bool(bits())
    if kind == _SWITCH:
        return None
    if not shown:
        bits()  # whether it may be shown later
    key = kind == _KEY and shown
    resilient = 1 if key else bits()
    bits()  # no updates of probabilities
    tools = bits() if sequence.screen_content_tools == _SELECT else sequence.screen_content_tools
    if tools and sequence.integer_mv == _SELECT:
        bits()
    bits()  # a size of its own
    bits(sequence.order_hint_bits)
    if kind == _INTER and not resilient:
        bits(3)  # the reference whose probabilities it starts with
    replaced = _ALL if key else bits(8)
    if kind != _INTER:
        return _Frame(shown, replaced, 0)
    if resilient:
        bits(8 * sequence.order_hint_bits)
    # the references follow from the order of the saved frames
    if sequence.order_hint_bits and bits():
        return _Frame(shown, replaced, _ALL)
    used = 0
    for _ in range(_REFERENCES):
        used |= 1 << bits(3)
    return _Frame(shown, replaced, used)
