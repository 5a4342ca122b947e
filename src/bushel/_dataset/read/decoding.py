"""Make samples: read plain stored values in a kernel, join the parts of clips, decode values, and collect them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from msgspec import Struct

from bushel._index.elements import Elements, Group, Ranges, at_place
from bushel._index.read_plan import FieldPlan, ReadPlan
from bushel._runtime.arrays import I64, U8
from bushel.codecs import get_codec, holds_image
from bushel.codecs.parts import HeadedRowsPart, OutlinedPart, Part, SharedPart, joined_parts
from bushel.errors import CodecError
from bushel.kernels import ExtentError, read_samples
from bushel.spec import KEY, Field

from .selection import Sample
from .shards import OpenShard

if TYPE_CHECKING:
    from bushel._index.part_plan import RowForms
    from bushel.codecs.base import Outline
    from bushel.storage import File

KNOWN_TYPES = (bool, int, float, str)
"""Types of values from the index. No stored value has one of them, so decoding recognises such values by their type."""


class Room(Struct, frozen=True):
    """Where the stored bytes of some fields go, so that a batch needs no bytes object for each."""

    # the fields; their values may become read-only memoryviews; bytes are as good
    names: frozenset[str]
    # returns uint8 of at least that many bytes; None for bytes objects
    take: Callable[[int], U8 | None]


class Source(Protocol):
    """The part of `Reader` that decoding uses; `Reader` describes these members."""

    shards: Sequence[OpenShard]
    row_forms: dict[tuple[int, str], RowForms]
    outlines: dict[tuple[int, str, int], Outline]
    fields: dict[str, Field]
    whole_clips: deque[None]
    warned_of_clips: bool

    def file(self, shard: int, number: int) -> File: ...

    def row_of(self, position: int, name: str | None = None) -> tuple[int, int]: ...

    def groups(self, positions: I64, names: Collection[str] | None = None) -> list[Group]: ...

    def key(self, position: int) -> str: ...

    def location(self, position: int, name: str) -> tuple[str, int]: ...

    def read(
        self,
        positions: I64,
        wanted: Mapping[str, Elements],
        *,
        decode: bool,
        parts: bool | None = None,
    ) -> list[Sample]: ...

    def asked(self, positions: I64, wanted: Mapping[str, Elements]) -> Mapping[str, Elements]: ...

    def whole_value(self, position: int, name: str, elements: Elements) -> Any: ...


def warn_of_whole_clip(which: str) -> None:
    """Warn that a clip is read whole; `which` names sample, field and file."""
    from bushel._runtime.messages import log_warning

    log_warning(
        "%s: the packets that the index lists do not give the frames, so the clip is read whole."
        " It is "
        "damaged, or a stream without true keyframes, or the index is wrong (`bushel index"
        " --frames --force` "
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
        values: The values; the elements of a sequence follow one another.
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
    """Decode the stored values of one field of some samples. Missing ones stay None.

    Args:
        reader: The reader that has read them.
        field: The field, as the plan of the read has it.
        values: Its stored values; the elements of a sequence follow one another.
        keys: The key of each sample.
        positions: int64[samples], the position of each.

    Raises:
        CodecError: A value cannot be decoded.
    """
    # many arrays at once, and the same again soon
    if field.counts is not None or field.elements is not None:
        from bushel._runtime.system import keep_freed_memory

        keep_freed_memory()
    if field.parts is not None:
        values = _decoded_parts(reader, field, values, keys, positions)
    elif isinstance(field.codecs, str) and not isinstance(field.elements, Ranges):
        decode = decoder_of(field.codecs, field.elements)
        try:
            return [None if value is None else decode(value) for value in values]
        except CodecError:
            pass  # decode again, value by value, to find out which one it was
    if field.counts is None:
        counts = [1] * len(keys)
    else:
        counts = [max(count, 0) for count in field.counts]
    decoded: list[Any] = []
    at = 0
    for place, count in enumerate(counts):
        decode = decoder_of(field.codec_at(place), at_place(field.elements, place))
        for value in values[at : at + count]:
            try:
                decoded.append(
                    value if value is None or isinstance(value, np.ndarray) else decode(value)
                )
            except CodecError as error:
                raise _undecodable(
                    reader, error, keys[place], field.name, int(positions[place])
                ) from error
        at += count
    return decoded


def _decoded_parts(
    reader: Source, field: FieldPlan, values: Sequence[Any], keys: Sequence[str], positions: I64
) -> list[Any]:
    """Decode the parts among the values of a field."""
    decoded: list[Any] = []
    for place, (value, position) in enumerate(zip(values, positions.tolist(), strict=True)):
        try:
            if isinstance(value, Part):
                value = some_of(
                    reader,
                    value,
                    field.codec_at(place),
                    field.name,
                    position,
                    at_place(field.elements, place),
                )
            decoded.append(value)
        except CodecError as error:
            raise _undecodable(reader, error, keys[place], field.name, position) from error
    return decoded


def decoder_of(name: str, elements: slice | I64 | None) -> Callable[[Any], Any]:
    """Return the function that decodes stored values of a codec, or only these elements of each."""
    codec = get_codec(name)
    if elements is None:
        return codec.decode
    if codec.ranged is None:
        raise TypeError(f"codec {name!r} can only decode whole values: ask for the field with True")
    ranged = codec.ranged
    return lambda data: ranged.decode(data, elements)


def some_of(
    reader: Source, part: Part, codec: str, name: str, position: int, elements: Elements
) -> Any:
    """Decode the elements of a part of a field, or of the whole value if its bytes do not give them."""
    if (elements_read := part.decode(codec)) is not None:
        return elements_read
    inner = part.part if isinstance(part, SharedPart) else part
    if isinstance(inner, HeadedRowsPart):
        from .row_forms import look_again

        look_again(reader, position, name)
    if isinstance(inner, HeadedRowsPart | OutlinedPart):
        return reader.whole_value(position, name, elements)
    return _whole_clip(reader, position, name, elements)


def _whole_clip(reader: Source, position: int, name: str, elements: Elements) -> Any:
    """Return frames of a clip that is read whole, since a part of it did not give them. It is counted."""
    reader.whole_clips.append(None)
    if not reader.warned_of_clips:
        reader.warned_of_clips = True
        file, _ = reader.location(position, name)
        warn_of_whole_clip(f"sample {reader.key(position)!r}, field {name!r} ({file})")
    return reader.whole_value(position, name, elements)


def _undecodable(
    reader: Source, error: CodecError, key: str, name: str, position: int
) -> CodecError:
    """Return the error of a codec, with the sample and the file that it belongs to."""
    from .read_errors import undecodable

    return undecodable(error, key, name, *reader.location(position, name), position)


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
        key_text: Any = keys_of() if rows is None or keys is None else (keys.text, keys.offsets)
        return read_samples(
            maps, plan[0], rows, KEY, key_text, *(() if room is None else (room.names, room.take))
        )
    except (ExtentError, ValueError, IndexError):
        return None


def samples_of(
    reader: Source,
    plan: ReadPlan,
    stored: Sequence[bytes | None],
    positions: I64,
    keys: Sequence[str],
    *,
    decode: bool,
) -> list[Sample]:
    """Return the samples that the extents of a plan make up.

    Args:
        reader: The reader that has read them.
        plan: The plan.
        stored: The bytes of each extent.
        positions: int64[samples], the position of each.
        keys: The key of each sample.
        decode: Whether values are decoded.

    Raises:
        CodecError: A value cannot be decoded.
    """
    samples: list[Sample] | None = None
    for number, field in enumerate(plan.fields):
        last = len(stored)
        if number + 1 < len(plan.fields):
            last = plan.fields[number + 1].first
        values_stored: Sequence[Any] = (
            stored if len(plan.fields) == 1 else stored[field.first : last]
        )
        if field.parts is not None:
            values_stored = joined_parts(field.parts, values_stored)
        values = (
            decode_field(reader, field, values_stored, keys, positions) if decode else values_stored
        )
        samples = with_field(samples, field, values_stored, values, keys)
    if samples is None:
        return [{KEY: key} for key in keys]
    return samples


def count_elements(reader: Source, position: int, name: str) -> int:
    """Return the number of elements of a value whose codec can decode them one by one.

    It is read only if the index lacks it.
    """
    number, row = reader.row_of(position, name)
    extents = reader.shards[number].index.fields[name]
    if extents.frames is not None and (count := extents.frames.count(row)) is not None:
        return count
    [sample] = reader.read(np.array([position], np.int64), {name: None}, decode=False)
    ranged = get_codec(extents.codec).ranged
    if ranged is None:
        raise TypeError(f"field {name!r} cannot be decoded in part")
    try:
        return ranged.count(sample[name])
    except CodecError as error:
        raise _undecodable(reader, error, sample[KEY], name, position) from error


def decode_samples(
    reader: Source,
    samples: Sequence[Sample],
    positions: I64,
    encoded: Collection[str] = (),
    wanted: Mapping[str, Elements] | None = None,
) -> list[Sample]:
    """Decode stored samples of these positions, except for images of the fields `encoded`.

    Those become `Seekable` if the index has their seek table.

    Raises:
        CodecError: A value cannot be decoded.
    """
    wanted = reader.asked(positions, dict.fromkeys(reader.fields) if wanted is None else wanted)
    groups = reader.groups(positions, wanted)
    decoders: list[dict[str, Callable[[Any], Any]]] = [{}] * len(samples)
    for group in groups:
        of_shard = _decoders(reader.shards[group.number], encoded, wanted)
        for place in range(len(samples)) if group.places is None else group.places.tolist():
            decoders[place] = decoders[place] | of_shard if decoders[place] else of_shard
    columns = ((name, group.index.fields.get(name)) for group in groups for name in encoded)
    sought = {name for name, column in columns if column is not None and column.seek is not None}
    tables: dict[str, list[Any]] = {}
    if sought:
        from bushel._index.part_plan import tables_by_field, with_table

        tables = tables_by_field(groups, len(positions), sought, wanted)
    decoded = []
    for place, (sample, functions) in enumerate(zip(samples, decoders, strict=True)):
        values: Sample = {}
        name = KEY
        try:
            for name, value in sample.items():
                decode = functions.get(name)
                if decode is None or type(value) in KNOWN_TYPES:
                    if name in tables:
                        values[name] = with_table(value, tables[name][place])
                    else:
                        values[name] = value
                elif isinstance(value, list):
                    values[name] = [decode(element) for element in value]
                elif isinstance(value, Part) or isinstance(wanted.get(name), Ranges):
                    position, elements = int(positions[place]), at_place(wanted[name], place)
                    number, _ = reader.row_of(position, name)
                    codec = reader.shards[number].index.fields[name].codec
                    if isinstance(value, Part):
                        values[name] = some_of(reader, value, codec, name, position, elements)
                    else:
                        values[name] = decoder_of(codec, elements)(value)
                else:
                    values[name] = decode(value)
        except CodecError as error:
            raise _undecodable(reader, error, sample[KEY], name, int(positions[place])) from error
        decoded.append(values)
    return decoded


def _decoders(
    shard: OpenShard, encoded: Collection[str], wanted: Mapping[str, Elements]
) -> dict[str, Callable[[Any], Any]]:
    return {
        name: get_codec(extents.codec).decode
        if extents.starts is not None or elements is None or isinstance(elements, Ranges)
        else decoder_of(extents.codec, elements)
        for name, extents in shard.index.fields.items()
        if name not in encoded or not holds_image(extents.codec)
        for elements in (wanted.get(name),)
    }
