"""The bytes that replace an erased value of a record: zeros, except the mark of an image record."""

from __future__ import annotations

from bushel._index.table import ShardIndex
from bushel.containers.erasing import Eraser
from bushel.containers.recordio.scan import MAGIC

_SIGNATURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_FLAG = 4  # bytes of the flag of an image record, which says how many labels follow


def _erased(index: ShardIndex, field: str, stored: bytes) -> bytes:
    """Do what `Eraser.erased` says. A label keeps its flag; an image its signature, which says only its type."""
    if index.fields[field].codec.startswith("recordio-label"):
        return stored[:_FLAG] + bytes(max(len(stored) - _FLAG, 0))
    if stored[:4] == b"RIFF" and stored[8:12] == b"WEBP":
        return (stored[:4] + bytes(4) + stored[8:12]).ljust(len(stored), b"\0")
    signature = next((own for own in _SIGNATURES if stored.startswith(own)), b"")
    return signature.ljust(len(stored), b"\0")


ERASER = Eraser(_erased, kept_word=MAGIC.to_bytes(4, "little"))
