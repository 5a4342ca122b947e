"""Make samples: read plain stored values in a kernel, collect the values of a plan, and decode them.

`reader` is the `Reader` everywhere here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from bushel._index.elements import Elements, Group, at_place
from bushel._index.read_plan import ReadPlan
from bushel._runtime.arrays import I64, U8
from bushel._runtime.system import keep_freed_memory
from bushel.codecs import get_codec, holds_image
from bushel.codecs.parts import Part, SharedPart, joined_parts
from bushel.errors import CodecError
from bushel.kernels import ExtentError, MappedFile, read_samples
from bushel.spec import KEY

from .selection import Sample

if TYPE_CHECKING:
    from bushel.storage import File

KNOWN_TYPES = (bool, int, float, str)
"""Types of values from the index. No stored value has one of them, so decoding recognises such values by their type."""


class Room(Struct, frozen=True):
    """Where the stored bytes of some fields go, so that a batch needs no bytes object for each."""

    # the fields; their values may become read-only memoryviews; bytes are as good
    names: frozenset[str]
    # returns uint8 of at least that many bytes; None for bytes objects
    take: Callable[[int], U8 | None]


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


def some_of(
    reader: Any, value: Any, codec: str, name: str, position: int, elements: slice | I64
) -> Any:
    """Decode elements of a field, given a part of its value or all of it.

    If the bytes of a part do not give its elements, the whole value is read.
    """
    if not isinstance(value, Part):
        ranged = get_codec(codec).ranged
        if ranged is None:
            raise TypeError(
                f"codec {codec!r} can only decode whole values: ask for the field with True"
            )
        return ranged.decode(value, elements)
    if (elements_read := value.decode(codec)) is not None:
        return elements_read
    inner = value.part if isinstance(value, SharedPart) else value
    if inner.by_form:
        from .row_forms import look_again

        look_again(reader, position, name)
    if inner.of_clip:  # it is counted
        reader.whole_clips.append(None)
        if not reader.warned_of_clips:
            reader.warned_of_clips = True
            _warn_of_whole_clip(reader, position, name)
    return reader.whole_value(position, name, elements)


def _warn_of_whole_clip(reader: Any, position: int, name: str) -> None:
    from bushel._runtime.messages import log_warning

    log_warning(
        "sample %r, field %r (%s): the packets that the index lists do not give the frames, so the"
        " clip is read whole. It is damaged, or a stream without true keyframes, or the index is"
        " wrong (`bushel index --frames --force` makes it again). More such clips are counted in"
        " the loader's stats, but not logged",
        reader.key(position),
        name,
        reader.location(position, name)[0],
    )


def _undecodable(reader: Any, error: CodecError, name: str, position: int) -> CodecError:
    """Return the error for stored bytes that do not decode, with the sample and the place that they are of."""
    key, (file, offset) = reader.key(position), reader.location(position, name)
    place = {"key": key, "field": name, "file": file, "offset": offset, "position": position}
    return CodecError(
        f"sample {key!r}, field {name!r} ({file}@{offset}): {error}", **{**error.details, **place}
    )


def read_by_kernel(
    plan: tuple[list[Any], list[tuple[int, int]], I64 | None] | None,
    groups: Sequence[Group],
    file_of: Callable[[int, int], File],
    keys_of: Callable[[], list[str]],
    room: Room | None,
) -> list[Sample] | None:
    """Read the stored bytes of plain fields of local shards, by a plan for the kernel.

    Return None if they have to be read in another way, which also reports their errors.
    """
    if plan is None:
        return None
    rows, keys = plan[2], groups[0].index.keys
    try:
        maps: list[Any] = [file_of(*number) for number in plan[1]]
        if not all(isinstance(file, MappedFile) for file in maps):
            return None
        key_text: Any = keys_of() if rows is None or keys is None else (keys.text, keys.offsets)
        return read_samples(
            maps, plan[0], rows, KEY, key_text, *(() if room is None else (room.names, room.take))
        )
    except (ExtentError, ValueError, IndexError):
        return None


def samples_of(plan: ReadPlan, stored: Sequence[bytes | None], keys: Sequence[str]) -> list[Sample]:
    """Return the samples that the extents of a plan make up, given the bytes of each, and the key of each sample."""
    samples: list[Sample] = [{KEY: key} for key in keys]
    ends = [field.first for field in plan.fields[1:]] + [len(stored)]
    for field, end in zip(plan.fields, ends, strict=False):
        name, values = field.name, stored[field.first : end]
        if field.counts is not None:
            at = 0
            for sample, count in zip(samples, field.counts, strict=True):
                if count >= 0:
                    sample[name] = values[at : at + count]
                    at += count
            continue
        if field.parts is not None:
            values = joined_parts(field.parts, values)
        for sample, value in zip(samples, values, strict=True):
            if value is not None:
                sample[name] = value
    return samples


def count_elements(reader: Any, position: int, name: str) -> int:
    """Return the number of elements of a value whose codec can decode them one by one.

    It is read only if the index lacks it.
    """
    number, row = reader.row_of(position, name)
    extents = reader.shards[number].index.fields[name]
    if extents.frames is not None and (count := extents.frames.count(row)) is not None:
        return int(count)
    [sample] = reader.read(np.array([position], np.int64), {name: None}, decode=False)
    ranged = get_codec(extents.codec).ranged
    if ranged is None:
        raise TypeError(f"field {name!r} cannot be decoded in part")
    try:
        return ranged.count(sample[name])
    except CodecError as error:
        raise _undecodable(reader, error, name, position) from error


def decode_samples(
    reader: Any,
    samples: Sequence[Sample],
    positions: I64,
    encoded: Collection[str] = (),
    wanted: Mapping[str, Elements] | None = None,
) -> list[Sample]:
    """Return decoded samples for stored ones of these positions, except for images of the fields `encoded`.

    Those become `Seekable` if the index has their seek table.

    Raises:
        CodecError: A value cannot be decoded.
    """
    wanted = reader.asked(positions, dict.fromkeys(reader.fields) if wanted is None else wanted)
    groups = reader.groups(positions, wanted)
    decoded = list(map(dict, samples))
    decode_in_place(reader, decoded, groups, positions, wanted, encoded)
    columns = ((name, group.index.fields.get(name)) for group in groups for name in encoded)
    sought = {name for name, column in columns if column is not None and column.seek is not None}
    if sought:
        from bushel._index.part_plan import tables_by_field, with_table

        for name, tables in tables_by_field(groups, len(positions), sought, wanted).items():
            for sample, table in zip(decoded, tables, strict=True):
                if name in sample:
                    sample[name] = with_table(sample[name], table)
    return decoded


def decode_in_place(
    reader: Any,
    samples: Sequence[Sample],
    groups: Iterable[Group],
    positions: I64,
    wanted: Mapping[str, Elements],
    encoded: Collection[str] = (),
) -> None:
    """Decode the stored values of samples, field by field.

    Args:
        reader: The `Reader` that has read them.
        samples: The samples. Values that came from the index are decoded already.
        groups: The samples by shard.
        positions: int64[samples], the position of each.
        wanted: The fields, and the elements of each that were read.
        encoded: Fields whose images stay as they are.

    Raises:
        CodecError: A value cannot be decoded.
    """
    keep_freed_memory()  # many values at once, and the same again soon
    for group in groups:
        places = range(len(samples)) if group.places is None else group.places.tolist()
        for name, elements in wanted.items():
            extents = group.index.fields.get(name)
            if extents is None or (name in encoded and holds_image(extents.codec)):
                continue
            decode = get_codec(extents.codec).decode
            place = 0
            try:
                for place in places:
                    sample = samples[place]
                    stored = sample.get(name)
                    if type(stored) is bytes and elements is None:  # as most are
                        sample[name] = decode(stored)
                    elif isinstance(stored, list):
                        sample[name] = list(map(decode, stored))
                    elif stored is None or type(stored) in KNOWN_TYPES:
                        continue
                    elif (these := at_place(elements, place)) is None:
                        sample[name] = decode(stored)
                    else:
                        position = int(positions[place])
                        sample[name] = some_of(reader, stored, extents.codec, name, position, these)
            except CodecError as error:
                raise _undecodable(reader, error, name, int(positions[place])) from error
