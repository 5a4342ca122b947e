"""Directories of zip archives."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any

__all__ = ["archive_of", "directory_of", "entry"]


def archive_of(names: list[str], **options: Any) -> bytes:
    """Return an archive with a member for each name, with its number as contents."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **options) as written:
        for number, name in enumerate(names):
            member = zipfile.ZipInfo(name)
            member.comment = b"comment" * (number % 3)
            written.writestr(member, str(number))
        written.comment = b"of the archive"
    return out.getvalue()


def directory_of(data: bytes) -> bytes:
    """Return the directory of an archive without zip64."""
    at = data.rindex(b"PK\5\6")
    size, offset = struct.unpack_from("<LL", data, at + 12)
    return data[offset : offset + size]


def entry(
    name: bytes, *, flags: int = 0, extra: bytes = b"", size: int = 3, offset: int = 0, version: int = 20
) -> bytes:
    """Return an entry of a directory."""
    head = struct.pack(
        "<4s6H3L5H2L", b"PK\1\2", 20, version, flags, 0, 0, 0, 1, size, size, len(name), len(extra), 0, 0, 0, 0, offset
    )
    return head + name + extra
