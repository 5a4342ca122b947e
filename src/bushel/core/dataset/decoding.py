"""From stored bytes to samples: joined parts of clips, decoded values, and the samples that they make up."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bushel.codecs import get_codec
from bushel.codecs.clip_parts import ClipPart
from bushel.core.index.read_plan import Elements, FieldPlan, Group
from bushel.errors import CodecError
from bushel.spec import KEY

__all__ = [
    "checked_unequally",
    "decode_one_by_one",
    "decoder_of",
    "drained",
    "joined_parts",
    "warn_of_whole_clip",
    "with_field",
]

_log = logging.getLogger("bushel")


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


def decoder_of(name: str, elements: Elements) -> Callable[[Any], Any]:
    """Return the function that decodes stored values of a codec, or only these elements of each."""
    codec = get_codec(name)
    if elements is None:
        return codec.decode
    if codec.ranged is None:
        raise TypeError(f"codec {name!r} can only decode whole values: ask for the field with True")
    ranged = codec.ranged
    return lambda data: ranged.decode(data, elements)


def decode_one_by_one(
    field: FieldPlan, values: Sequence[Any], samples: int, error_of: Callable[[CodecError, int], CodecError]
) -> list[Any]:
    """Decode the stored values of a field of some samples. What is missing or decoded already stays as it is.

    Args:
        field: The field, as the plan of the read has it.
        values: Its stored values, those of a sequence one after another.
        samples: Number of samples.
        error_of: Makes the error to raise, given the codec's own and the number of the sample among these.
    """
    counts = [1] * samples if field.counts is None else [max(count, 0) for count in field.counts]
    decoded: list[Any] = []
    at = 0
    for place, count in enumerate(counts):
        decode = decoder_of(field.codecs if isinstance(field.codecs, str) else field.codecs[place], field.elements)
        for value in values[at : at + count]:
            try:
                decoded.append(value if value is None or isinstance(value, np.ndarray) else decode(value))
            except CodecError as error:
                raise error_of(error, place) from error
        at += count
    return decoded


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


def checked_unequally(groups: Sequence[Group], wanted: Iterable[str]) -> bool:
    """Return whether only some shards have checksums of a field: a batch of both kinds would verify none."""
    columns = ([group.index.columns.get(name) for group in groups] for name in wanted)
    return any(len({column.crc32 is None for column in field if column is not None}) > 1 for field in columns)
