"""From stored bytes to samples: joined parts of clips, decoded values, and the samples that they make up."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bushel.codecs import get_codec, holds_image
from bushel.codecs.clip_parts import ClipPart
from bushel.core.dataset.shards import OpenShard
from bushel.core.index.read_plan import Elements, FieldPlan, Group
from bushel.core.index.seek_lookup import tables_by_field, with_table
from bushel.core.index.values import KNOWN_TYPES
from bushel.errors import CodecError
from bushel.spec import KEY

__all__ = ["decode_field", "decode_samples", "drained", "joined_parts", "warn_of_whole_clip", "with_field"]

I64 = npt.NDArray[np.int64]

_log = logging.getLogger("bushel")


class Source(Protocol):
    """What decoding asks the reader of the stored bytes: `Reader`, which describes these members."""

    shards: Sequence[OpenShard]
    starts: I64

    def groups(self, positions: I64) -> list[Group]: ...

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


def decode_samples(
    reader: Source,
    samples: Sequence[dict[str, Any]],
    positions: I64,
    encoded: Collection[str],
    wanted: Mapping[str, Elements],
) -> list[dict[str, Any]]:
    """Decode stored samples, as `Reader.decode` describes it.

    Raises:
        CodecError: A value cannot be decoded.
    """
    if len(reader.shards) == 1:
        numbers = [0] * len(samples)
    else:
        numbers = (np.searchsorted(reader.starts, positions, side="right") - 1).tolist()
    decoders = {number: _decoders(reader, number, encoded, wanted) for number in set(numbers)}
    columns = ((name, reader.shards[number].index.columns.get(name)) for number in decoders for name in encoded)
    sought = {name for name, column in columns if column is not None and column.seek is not None}
    tables = tables_by_field(reader.groups(positions), len(positions), sought, wanted) if sought else {}
    decoded = []
    for place, (sample, number) in enumerate(zip(samples, numbers, strict=True)):
        own = decoders[number]
        values: dict[str, Any] = {}
        name = KEY
        try:
            for name, value in sample.items():
                decode = own.get(name)
                if decode is None or type(value) in KNOWN_TYPES:
                    values[name] = with_table(value, tables[name][place]) if name in tables else value
                elif isinstance(value, ClipPart):
                    values[name] = _frames(reader, value, name, int(positions[place]), wanted[name])
                elif isinstance(value, list):
                    values[name] = [decode(each) for each in value]
                else:
                    values[name] = decode(value)
        except CodecError as error:
            raise reader.undecodable(error, sample[KEY], name, int(positions[place])) from error
        decoded.append(values)
    return decoded


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
            _frames(reader, value, field.name, position, field.elements) if isinstance(value, ClipPart) else value
            for value, position in zip(values, positions.tolist(), strict=True)
        ]
    elif isinstance(field.codecs, str):
        decode = _decoder(field.codecs, field.elements)
        try:
            return [None if value is None else decode(value) for value in values]
        except CodecError:
            pass  # decode again, value by value, to find out which one it was
    counts = [1] * len(keys) if field.counts is None else [max(count, 0) for count in field.counts]
    decoded: list[Any] = []
    at = 0
    for place, count in enumerate(counts):
        decode = _decoder(field.codecs if isinstance(field.codecs, str) else field.codecs[place], field.elements)
        for value in values[at : at + count]:
            try:
                decoded.append(value if value is None or isinstance(value, np.ndarray) else decode(value))
            except CodecError as error:
                raise reader.undecodable(error, keys[place], field.name, int(positions[place])) from error
        at += count
    return decoded


def _decoders(
    reader: Source, number: int, encoded: Collection[str], wanted: Mapping[str, Elements]
) -> dict[str, Callable[[Any], Any]]:
    return {
        name: _decoder(column.codec, None if column.starts is not None else wanted.get(name))
        for name, column in reader.shards[number].index.columns.items()
        if name not in encoded or not holds_image(column.codec)
    }


def _decoder(name: str, elements: Elements) -> Callable[[Any], Any]:
    codec = get_codec(name)
    if elements is None:
        return codec.decode
    if codec.ranged is None:
        raise TypeError(f"codec {name!r} can only decode whole values: ask for the field with True")
    ranged = codec.ranged
    return lambda data: ranged.decode(data, elements)


def _frames(reader: Source, part: ClipPart, name: str, position: int, elements: Elements) -> Any:
    """Decode frames of a clip from their packets, or from the whole clip if these do not give them."""
    frames = part.decode(name)
    return reader.read_whole_clip(position, name, elements) if frames is None else frames
