"""The bytes that replace an erased value of a record: zeros, except the mark of an image record."""

from __future__ import annotations

from bushel._index.table import ShardIndex
from bushel._kinds import BEGINNINGS, IMAGES, kind_of
from bushel.containers.erasing import Eraser
from bushel.containers.recordio.scan import MAGIC

_KEPT = 12  # bytes of a RIFF header, whose size is erased
_FLAG = 4  # bytes of the flag of an image record, which says how many labels follow


def _erased(index: ShardIndex, field: str, stored: bytes) -> bytes:
    """Do what `Eraser.erased` says. A label keeps its flag; an image its signature, which says only its type."""
    if index.fields[field].codec.startswith("recordio-label"):
        return stored[:_FLAG] + bytes(max(len(stored) - _FLAG, 0))
    kind = kind_of(stored) or ""
    if kind == "webp":
        return (stored[:4] + bytes(4) + stored[8:_KEPT]).ljust(len(stored), b"\0")
    signatures = BEGINNINGS.get(kind, ()) if kind in IMAGES else ()
    signature = next((own for own in signatures if stored.startswith(own)), b"")
    return signature.ljust(len(stored), b"\0")


ERASER = Eraser(_erased, kept_word=MAGIC.to_bytes(4, "little"))
