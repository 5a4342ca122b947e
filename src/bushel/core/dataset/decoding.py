"""From stored bytes to samples: joined parts of clips, decoded values, and the samples that they make up."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bushel.codecs import get_codec
from bushel.codecs.clip_parts import ClipPart
from bushel.core.index.read_plan import Elements, FieldPlan
from bushel.errors import CodecError
from bushel.spec import KEY

__all__ = ["decode_field", "decoder_of", "drained", "frames_of", "joined_parts", "warn_of_whole_clip", "with_field"]

I64 = npt.NDArray[np.int64]

_log = logging.getLogger("bushel")


class Source(Protocol):
    """What decoding asks the reader of the stored bytes: `Reader`, which describes these members."""

    def undecodable(self, error: CodecError, key: str, name: str, position: int) -> CodecError: ...

    def read_whole_clip(self, position: int, name: str, elements: Elements) -> Any: ...


def warn_of_whole_clip(which: str) -> None:
    """Warn that a clip is read whole; `which` names sample, field and file."""
    _log.warning(
        "%s: the packets that the index lists do not give the frames, so the clip is read whole. It is "
        "damaged, or a stream without true keyframes, or the index is wrong (`bushel index --frames --force` "
        "makes it again). More such clips are counted in the loader's stats, but not logged",
        which,
    )


def drained(clips: deque[None]) -> int:
    """Remove all entries, and return how many there were. Other threads may add or remove some at the same time."""
    count = 0
    while clips:
        try:
            clips.popleft()
        except IndexError:  # another thread took it
            break
        count += 1
    return count


def joined_parts(parts: Sequence[ClipPart | None], stored: Sequence[bytes | None]) -> list[Any]:
    """Return the value of each sample, a part with its bytes or the stored bytes, from the extents of a plan."""
    values: list[Any] = []
    at = 0
    for part in parts:
        if part is None:
            values.append(stored[at])
            at += 1
        else:
            count = len(part.offsets)
            values.append(part.read([data or b"" for data in stored[at : at + count]]))
            at += count
    return values


def with_field(
    samples: list[dict[str, Any]] | None,
    field: FieldPlan,
    stored: Sequence[bytes | None],
    values: Sequence[Any],
    keys: Sequence[str],
) -> list[dict[str, Any]]:
    """Return samples with the values of one more field. They are changed in place.

    Args:
        samples: The samples with the fields before it, or None if it is the first one.
        field: The field, as the plan of the read has it.
        stored: The stored bytes of its values; None where a sample lacks the field.
        values: The values, those of a sequence one after another.
        keys: The key of each sample.
    """
    name = field.name
    if samples is None and field.counts is None and None not in stored:
        return [{KEY: key, name: value} for key, value in zip(keys, values, strict=True)]
    samples = samples or [{KEY: key} for key in keys]
    if field.counts is None:
        for sample, raw, value in zip(samples, stored, values, strict=True):
            if raw is not None:
                sample[name] = value
        return samples
    at = 0
    for sample, count in zip(samples, field.counts, strict=True):
        if count >= 0:
            sample[name] = values[at : at + count]
            at += count
    return samples


def decode_field(
    reader: Source, field: FieldPlan, values: Sequence[Any], keys: Sequence[str], positions: I64
) -> list[Any]:
    """Decode the stored values of one field of some samples. What is missing stays None.

    Args:
        reader: The reader that has read them.
        field: The field, as the plan of the read has it.
        values: Its stored values, those of a sequence one after another.
        keys: The key of each sample.
        positions: int64[samples], the position of each.

    Raises:
        CodecError: A value cannot be decoded.
    """
    if field.counts is not None or field.elements is not None:  # many arrays at once, and the same again soon
        from bushel.core.system import keep_freed_memory

        keep_freed_memory()
    if field.parts is not None:
        values = [
            frames_of(reader, value, field.name, position, field.elements) if isinstance(value, ClipPart) else value
            for value, position in zip(values, positions.tolist(), strict=True)
        ]
    elif isinstance(field.codecs, str):
        decode = decoder_of(field.codecs, field.elements)
        try:
            return [None if value is None else decode(value) for value in values]
        except CodecError:
            pass  # decode again, value by value, to find out which one it was
    counts = [1] * len(keys) if field.counts is None else [max(count, 0) for count in field.counts]
    decoded: list[Any] = []
    at = 0
    for place, count in enumerate(counts):
        decode = decoder_of(field.codecs if isinstance(field.codecs, str) else field.codecs[place], field.elements)
        for value in values[at : at + count]:
            try:
                decoded.append(value if value is None or isinstance(value, np.ndarray) else decode(value))
            except CodecError as error:
                raise reader.undecodable(error, keys[place], field.name, int(positions[place])) from error
        at += count
    return decoded


def decoder_of(name: str, elements: Elements) -> Callable[[Any], Any]:
    """Return the function that decodes stored values of a codec, or only these elements of each."""
    codec = get_codec(name)
    if elements is None:
        return codec.decode
    if codec.ranged is None:
        raise TypeError(f"codec {name!r} can only decode whole values: ask for the field with True")
    ranged = codec.ranged
    return lambda data: ranged.decode(data, elements)


def frames_of(reader: Source, part: ClipPart, name: str, position: int, elements: Elements) -> Any:
    """Decode frames of a clip from their packets, or from the whole clip if these do not give them."""
    frames = part.decode(name)
    return reader.read_whole_clip(position, name, elements) if frames is None else frames
