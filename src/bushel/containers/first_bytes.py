"""The codec of bytes without a type in the file: images, sounds and clips are recognised by their first bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bushel._kinds import IMAGES, WEAK, kind_of
from bushel.codecs.newer_images import NEWER_FORMATS
from bushel.storage import File

_HEAD = 16
_LOOKED_AT = 3
_STEP = 1 << 16


def codec_of_first_bytes(
    file: File, offset: npt.NDArray[np.int64], length: npt.NDArray[np.int64], sound: bool = False
) -> str:
    """Return the codec of byte strings, if the first three of at least 16 bytes agree, else `bytes`.

    Args:
        file: The file that they are in.
        offset: int64[n], bytes from its start.
        length: int64[n], bytes; -1 for a missing one.
        sound: As for `codec_by_magic`.
    """
    rows = list[int]()
    for first in range(0, len(length), _STEP):  # usually one step
        rows += (
            first + np.flatnonzero(length[first : first + _STEP] >= _HEAD)[:_LOOKED_AT]
        ).tolist()
        if len(rows) >= _LOOKED_AT:
            break
    codecs = {
        codec_by_magic(bytes(file.read(int(offset[row]), _HEAD)), sound)
        for row in rows[:_LOOKED_AT]
    }
    if len(codecs) == 1:
        return codecs.pop()
    return "bytes"


def codec_by_magic(head: bytes, sound: bool = False) -> str:
    """Return the codec of a value with these first bytes; `bytes` if they are of no known kind.

    Args:
        head: At least 12 bytes, if the value has them.
        sound: Whether it is known to be a sound: then MP3 is recognised without tags, and MP4 holds
            one.
    """
    kind = kind_of(head, sound=sound)
    if kind is None or kind in WEAK:
        return "bytes"
    if kind == "m4a":
        return "audio"
    if kind in IMAGES and kind not in NEWER_FORMATS.values():
        return "image"
    return kind
