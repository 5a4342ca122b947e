"""JPEGs that are taken apart and put together differently, with the same meaning or with damage."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

DQT, DHT, DRI, SOF0, SOF1, SOS, APP0, APP14, COMMENT = 0xDB, 0xC4, 0xDD, 0xC0, 0xC1, 0xDA, 0xE0, 0xEE, 0xFE

Segment = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Parts:
    """A JPEG of one scan."""

    header: tuple[Segment, ...]  # marker and payload of each segment, including the scan header
    scan: bytes  # everything after the scan header

    def __bytes__(self) -> bytes:
        return self.joined()

    def joined(self, before_marker: bytes = b"") -> bytes:
        """Return the file, with `before_marker` before each marker but the first."""
        written = [b"\xff\xd8"]
        for marker, payload in self.header:
            written += [before_marker, bytes([0xFF, marker]), (len(payload) + 2).to_bytes(2, "big"), payload]
        return b"".join([*written, self.scan])

    def all_of(self, marker: int) -> list[bytes]:
        return [payload for kind, payload in self.header if kind == marker]

    def without(self, *markers: int) -> Parts:
        return replace(self, header=tuple(segment for segment in self.header if segment[0] not in markers))

    def with_first(self, *segments: Segment) -> Parts:
        return replace(self, header=(*segments, *self.header))

    def changed(self, marker: int, payload: bytes) -> Parts:
        header = tuple((kind, payload if kind == marker else old) for kind, old in self.header)
        return replace(self, header=header)


def taken_apart(data: bytes) -> Parts:
    header, at = list[Segment](), 2
    while not header or header[-1][0] != SOS:
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        header.append((data[at + 1], data[at + 4 : at + 2 + length]))
        at += 2 + length
    return Parts(tuple(header), data[at:])


def adobe(transform: int) -> Segment:
    return APP14, b"Adobe\x00\x64" + bytes(4) + bytes([transform])


def renamed(parts: Parts, names: bytes) -> Parts:
    """Return the parts with other component ids."""
    frame, scan = bytearray(parts.all_of(SOF0)[0]), bytearray(parts.all_of(SOS)[0])
    frame[6::3], scan[1:-3:2] = names, names
    return parts.changed(SOF0, bytes(frame)).changed(SOS, bytes(scan))


def tables_of(payload: bytes) -> Iterator[bytes]:
    """Return the Huffman tables of a segment, each with its number."""
    while payload:
        size = 17 + sum(payload[1:17])
        yield payload[:size]
        payload = payload[size:]


def ways_to_say_it(data: bytes) -> dict[str, bytes]:
    """Return files with different headers of the same image, which has three components."""
    parts = taken_apart(data)
    bare = parts.without(APP0)
    quantisers, huffman = parts.all_of(DQT), parts.all_of(DHT)
    each_huffman = [(DHT, table) for payload in huffman for table in tables_of(payload)]
    wide = [
        (DQT, bytes([0x10 | table[0]]) + b"".join(bytes([0, value]) for value in table[1:]))
        for payload in quantisers
        for table in (payload[at : at + 65] for at in range(0, len(payload), 65))
    ]
    sequential = tuple((SOF1 if kind == SOF0 else kind, payload) for kind, payload in parts.header)
    ways = {
        "no JFIF": bare,
        "Adobe, YCbCr": bare.with_first(adobe(1)),
        "Adobe, RGB": bare.with_first(adobe(0)),
        "Adobe, unknown transform": bare.with_first(adobe(7)),
        "JFIF and Adobe, RGB": parts.with_first(adobe(0)),
        "ids R, G, B": renamed(bare, b"RGB"),
        "ids R, G, B with JFIF": renamed(parts, b"RGB"),
        "ids 0, 1, 2": renamed(bare, b"\x00\x01\x02"),
        "ids 9, 8, 7 with JFIF": renamed(parts, b"\x09\x08\x07"),
        "the same id thrice": renamed(parts, b"\x01\x01\x01"),
        "JFIF 2": parts.changed(APP0, b"JFIF\x00\x02" + parts.all_of(APP0)[0][6:]),
        "a comment, and what nobody knows": parts.with_first((COMMENT, b"\xff\xd9\xff\xda"), (0xEB, b"x" * 300)),
        "extended sequential": replace(parts, header=sequential),
        "one segment with all Huffman tables": parts.without(DHT).with_first((DHT, b"".join(huffman))),
        "a segment for each Huffman table": parts.without(DHT).with_first(*each_huffman),
        "tables that are replaced": parts.with_first(*each_huffman[::-1], (DQT, b"\x00" + bytes(range(1, 65)))),
        "tables that nobody uses": parts.with_first(
            (DHT, b"\x13" + each_huffman[1][1][1:]), (DQT, b"\x03" + bytes(64))
        ),
        "one segment with all quantisers": parts.without(DQT).with_first((DQT, b"".join(quantisers))),
        "quantisers of 16 bits": parts.without(DQT).with_first(*wide),
        "no quantisers": parts.without(DQT),
        "no Huffman tables": parts.without(DHT),
        "restart interval 0": parts.without(DRI).with_first((DRI, b"\x00\x00")),
        "a spectrum that is cut": parts.changed(SOS, parts.all_of(SOS)[0][:-3] + b"\x00\x05\x00"),
        "bytes after the image": replace(parts, scan=parts.scan + b"and more\xff\xd8"),
        "no end marker": replace(parts, scan=parts.scan[:-2]),
        "fill bytes before the end marker": replace(parts, scan=parts.scan[:-2] + b"\xff\xff\xff\xd9"),
        "another marker at the end": replace(parts, scan=parts.scan[:-2] + b"\xff\xd3"),
    }
    files = {name: bytes(way) for name, way in ways.items()}
    files["fill bytes before markers"] = parts.joined(b"\xff\xff")
    files["bytes before markers"] = parts.joined(b"\x00\x01")
    return files


def restarts_of(scan: bytes) -> list[int]:
    """Return the offsets of the restart markers of a scan."""
    return [at for at in range(len(scan) - 1) if scan[at] == 0xFF and 0xD0 <= scan[at + 1] <= 0xD7]


def without_restarts(scan: bytes) -> bytes:
    kept = bytearray(scan)
    for at in reversed(restarts_of(scan)):
        del kept[at : at + 2]
    return bytes(kept)


def ways_to_restart(data: bytes) -> dict[str, bytes]:
    """Return images with wrong restart markers, and one with unusual but valid ones."""
    parts = taken_apart(data)
    scan, places = parts.scan, restarts_of(parts.scan)
    middle = places[len(places) // 2]
    segment = scan[middle : places[len(places) // 2 + 1]]
    swapped = bytearray(scan)
    swapped[places[0] + 1], swapped[places[1] + 1] = scan[places[1] + 1], scan[places[0] + 1]
    scans = {
        "as it should be": scan,
        "in another order": bytes(swapped),
        "one is missing": scan[:middle] + scan[middle + 2 :],
        "one is there twice": scan[:middle] + scan[middle : middle + 2] + scan[middle:],
        "a segment is missing": scan[:middle] + scan[middle + len(segment) :],
        "a segment is there twice": scan[:middle] + segment + scan[middle:],
        "one more at the end": scan[:-2] + b"\xff" + bytes([0xD0 + len(places) % 8]) + b"\xff\xd9",
        "fill bytes before one": scan[:middle] + b"\xff\xff" + scan[middle:],
        "bytes before one": scan[:middle] + b"\x11\x22" + scan[middle:],
        "a bit before one": scan[: middle - 1] + bytes([scan[middle - 1] ^ 1]) + scan[middle:],
        "another marker in its place": scan[:middle] + b"\xff\xfe" + scan[middle + 2 :],
        "the end in its place": scan[:middle] + b"\xff\xd9" + scan[middle + 2 :],
        "none at all": without_restarts(scan),
    }
    return {name: bytes(replace(parts, scan=changed)) for name, changed in scans.items()}


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Change one to three places, mostly after the header: flip bits, or drop, repeat or insert bytes."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        start = data.rindex(b"\xff\xda") if draw.random() < 0.8 else 2
        at = draw.randrange(min(start, len(changed) - 1), len(changed))
        length = draw.choice((1, 1, 2, 5, 40))
        match draw.randrange(6):
            case 0:
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                changed[at] = draw.choice((0, 0xFF, 0xD0, 0xD9, draw.randrange(256)))
            case 2:
                del changed[at : at + length]
            case 3:
                changed[at:at] = changed[at : at + length]
            case 4:
                changed[at:at] = draw.randbytes(length)
            case _:
                del changed[at:]
        if len(changed) < 4:
            break
    return bytes(changed)
