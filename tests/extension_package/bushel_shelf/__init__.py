"""Read `.shelf` files: 8 bytes of magic, then records of a key and a text."""

from __future__ import annotations

import struct

from bushel.containers import (
    Container,
    PlainField,
    ReadOptions,
    Shard,
    ShardIndex,
    table_of,
)
from bushel.errors import FormatError, SpecError
from bushel.storage import File, open_file

MAGIC = b"SHELF 1\n"
HEADER = struct.Struct("<III")  # bytes of key and text, CRC-32 of the text


class Shelf(Container):
    """The container."""

    name = "shelf"
    suffixes = (".shelf",)
    promises_checksums = True  # the files have the CRC-32 of each text

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return where the texts of one file are."""
        if options.spec is not None and list(options.spec) != ["text"]:
            wanted = ", ".join(options.spec)
            raise SpecError(f"a shelf has one field, text: not {wanted}")
        file = open_file(shard.path(0))
        keys, offsets, lengths, checksums = [], [], [], []
        for key, offset, length, crc32 in records(file):
            keys.append(key)
            offsets.append(offset)
            lengths.append(length)
            checksums.append(crc32)
        options.report(file.size)  # for progress bars
        kind = "utf8" if options.spec is None else options.spec["text"].type
        text = PlainField(kind, offsets, lengths, crc32=checksums)
        return table_of(self.name, shard, len(keys), {"text": text}, keys)


def records(file: File) -> list[tuple[str, int, int, int]]:
    """Return key, offset, length and CRC-32 of each text.

    No length is used before it is checked.

    Raises:
        FormatError: The file is damaged.
    """
    if file.size < len(MAGIC) or file.read(0, len(MAGIC)) != MAGIC:
        raise damage(file, 0, f"a shelf begins with {MAGIC!r}")
    found, at = [], len(MAGIC)
    while at < file.size:
        start = at + HEADER.size
        if start > file.size:
            raise damage(file, at, "the last record is cut off")
        key_size, size, crc32 = HEADER.unpack(file.read(at, HEADER.size))
        end = start + key_size + size
        if end > file.size:
            raise damage(file, at, f"a record ends at {end}, after the file")
        try:
            key = file.read(start, key_size).decode()
        except UnicodeDecodeError as error:
            raise damage(file, at, f"invalid key: {error}") from error
        found.append((key, start + key_size, size, crc32))
        at = end
    return found


def damage(file: File, offset: int, message: str) -> FormatError:
    """Return the error about a damaged file."""
    return FormatError(message, file=file.path, offset=offset)


SHELF = Shelf()
