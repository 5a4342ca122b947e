"""What columns hold beyond the types of their files: by metadata of Hugging Face, or by the first bytes of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from bushel._index.names import Labels
from bushel._kinds import IMAGES, WEAK, kind_of
from bushel._runtime.arrays import I64
from bushel._runtime.messages import log_warning
from bushel.codecs.newer_images import NEWER_FORMATS
from bushel.errors import FormatError
from bushel.storage import File


def can_be_field(name: str, path: str) -> bool:
    """Return whether a column of a table can be a field by its name; log it if not."""
    if name and "\0" not in name:
        return True
    log_warning("%s: a column that is called %r is not read: give it another name", path, name)
    return False


class Tensor(NamedTuple):
    """The shape of arrays that are stored as lists of a fixed size.

    Attributes:
        stored: The shape in which the numbers are stored.
        axes: The order of these axes in the value.
    """

    stored: tuple[int, ...]
    axes: tuple[int, ...]

    def codecs(self, dtype: str) -> tuple[str, str]:
        """Return the codec of the value, and the codec of its stored bytes."""
        shape = ",".join(str(self.stored[axis]) for axis in self.axes)
        stored = f"array({dtype},{','.join(map(str, self.stored))})"
        if self.axes == tuple(range(len(self.axes))):
            return stored, stored
        return f"array({dtype},{shape})", f"transposed({'-'.join(map(str, self.axes))},{stored})"


class Feature(Struct, frozen=True):
    """The metadata of a column."""

    # codec of its values, or of the elements of a list; None if it follows from the values
    codec: str | None = None
    # names of its classes, or of its elements, in the order of their numbers
    names: tuple[str, ...] = ()
    sound: bool = False  # whether the values are sounds, whose first bytes show the codec
    time: str | None = None  # codec of durations, which are numbers in Parquet
    tensor: Tensor | None = None  # the shape of tensors, which are lists in Parquet


def labels_of(features: Mapping[str, Feature], names: Iterable[str]) -> Labels:
    """Return the names of the classes of those columns of these names that have some."""
    return {
        name: features[name].names for name in names if name in features and features[name].names
    }


def features_in(text: str | bytes | None, path: str) -> dict[str, Feature]:
    """Return the features in the metadata `huggingface`, which a file may lack (None).

    Raises:
        FormatError: The metadata is not as Hugging Face writes it.
    """
    if text is None:
        return {}
    try:
        described = msgspec.json.decode(text)["info"]["features"]
        return {str(name): feature_of(description) for name, description in described.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"the metadata 'huggingface' is malformed: {error!r}", path) from error


def feature_of(described: Any) -> Feature:
    """Return one feature, as the JSON of Hugging Face has it; an empty one if it has nothing that is used."""
    if isinstance(described, list) and described:  # an older form of a list
        return feature_of(described[0])
    if not isinstance(described, Mapping):
        return Feature()
    kind = described.get("_type")
    if kind == "ClassLabel" and isinstance(described.get("names"), list):
        return Feature(names=tuple(map(str, described["names"])))
    if kind in ("List", "Sequence", "LargeList"):
        return feature_of(described.get("feature"))
    if kind == "Image":
        return Feature("image")
    return Feature(sound=kind == "Audio")


_HEAD = 16
_LOOKED_AT = 3
_STEP = 1 << 16


def codec_of_first_bytes(file: File, offset: I64, length: I64, sound: bool = False) -> str:
    """Return the codec of byte strings, if the first three of at least 16 bytes agree, else `bytes`.

    Args:
        file: The file that they are in.
        offset: int64[n], bytes from its start.
        length: int64[n], bytes; -1 for a missing one.
        sound: As for `codec_by_magic`.
    """
    rows = (
        first + row
        for first in range(0, len(length), _STEP)  # usually one step
        for row in np.flatnonzero(length[first : first + _STEP] >= _HEAD)[:_LOOKED_AT].tolist()
    )
    codecs = {
        codec_by_magic(bytes(file.read(int(offset[row]), _HEAD)), sound)
        for row in islice(rows, _LOOKED_AT)
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
