"""The reader of windows: a position is the number of a window, and a sample has only the elements of its window.

Windows in time need the timelines of fields, which `FieldTimelines` finds: rates that the user gives, time
stamps in another field, and times of clips in the index.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from bushel._index.elements import Elements, Group, Ranges
from bushel._index.table import MISSING
from bushel._runtime.arrays import F64, I64, U8, U32
from bushel.codecs import holds_clip, holds_sound
from bushel.errors import SpecError
from bushel.spec import Field

from .columns import check_has_elements, element_counts, index_command
from .reader import Reader
from .selection import Sample
from .windows import Source, Stamped, Steady, Timeline, Windows, WindowShape, elements_in_time

if TYPE_CHECKING:
    from bushel._index.read_plan import ReadPlan
    from bushel.storage.fetch import Held

    from .selection import Selection
    from .stored_reader import Room

_BATCHES = 32  # that are prefetched before they are read, at most; others are planned again
_KEPT = 1 << 22
"""Time stamps that are kept in memory for the next time that they are needed."""


def checked_source(reader: Reader, name: str, source: Any) -> Source:
    """Return the source of the times of a field's elements, as the user gives it in `times=`.

    Raises:
        KeyError: A field does not exist.
        TypeError: A field has no elements, or `source` is neither a rate nor a name.
        ValueError: The rate is not above 0.
        SpecError: Nothing says when the elements are.
    """
    check_has_elements(reader, name, "a window")
    if isinstance(source, str):
        check_has_elements(reader, source, f"times= of {name!r}")
        return source
    if source is None:
        if is_clip(reader, name):
            return None
        hint = ""
        if holds_sound(codec := reader.fields[name].codec):
            from bushel.codecs.audio import rate_of

            source = rate_of(codec)
            hint = f", or open the sounds at one rate: spec={{{name!r}: 'audio(16000)'}}"
        if source is None:
            raise SpecError(
                f"nothing says when the elements of {name!r} are: give times={{{name!r}: "
                f"…}}, their number in a second or the field of their time stamps{hint}"
            )
    return positive(f"times of {name!r}", source)


def is_clip(reader: Reader, name: str) -> bool:
    """Return whether a field is one clip for each sample, whose frames have times of their own."""
    field = reader.fields[name]
    return not field.sequence and holds_clip(field.codec)


def positive(name: str, value: Any) -> float:
    """Return a number above 0 that a user gave, as a float.

    Raises:
        TypeError: It is not a number.
        ValueError: It is not above 0, or infinite.
    """
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise TypeError(f"{name}={value!r}: expected a number above 0")
    number = float(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name}={value!r}: expected a number above 0")
    return number


class FieldTimelines:
    """Finds when the elements of fields are, in samples.

    Args:
        reader: The reader of the samples, which are not windows.
        sources: The source of the times of each field.
    """

    def __init__(self, reader: Reader, sources: Mapping[str, Source]) -> None:
        self._reader, self._sources = reader, sources
        self._stamps: dict[tuple[str, int], tuple[F64, float]] = {}

    def of(self, positions: I64, names: Collection[str]) -> list[dict[str, Timeline]]:
        """Return the timelines of fields in samples, without those that have no elements. Time stamps are read.

        Raises:
            KeyError: The index does not say how many elements samples have, or when the frames of
                clips are.
            SpecError: The time stamps of a sample are missing or wrong.
        """
        timelines: list[dict[str, Timeline]] = [{} for _ in positions]
        for name in names:
            source, counts = self._sources[name], element_counts(self._reader, positions, name)
            has = np.flatnonzero(counts > 0)
            if isinstance(source, float):
                for place in has.tolist():
                    timelines[place][name] = Steady.of(int(counts[place]), source)
                continue
            field = source or name
            look_up = self._of_clips if is_clip(self._reader, field) else self._read
            stamps = look_up(field, positions[has])
            for place in has.tolist():
                position = int(positions[place])
                stamps_of_sample, slack = stamps.get(position, (np.zeros(0), 0.0))
                if wrong := _wrong(stamps_of_sample, int(counts[place]), name, field):
                    raise SpecError(
                        f"sample {self._reader.key(position)!r} {wrong}: "
                        "give a rate in times=, or leave the sample out"
                    )
                timelines[place][name] = Stamped.of(stamps_of_sample, slack)
        return timelines

    def _of_clips(self, name: str, positions: I64) -> dict[int, tuple[F64, float]]:
        """Return when the frames of clips are, and by how much that may be wrong, by position."""
        stamps: dict[int, tuple[F64, float]] = {}
        for group in self._reader.groups(positions, [name]):
            column = group.index.fields.get(name)
            places = group.places_in(len(positions)).tolist()
            for row, place in zip(group.rows.tolist(), places, strict=True):
                if column is None or column.length[row] == MISSING:
                    continue
                if column.frames is None:
                    times = None
                else:
                    times = column.frames.seconds(row)
                if times is None:
                    advice = index_command(
                        [self._reader.shards[group.number]], "--frames", field=name
                    )
                    raise KeyError(
                        "the index does not say when the frames "
                        f"of {name!r} are; {advice} records that"
                    )
                stamps[int(positions[place])] = times
        return stamps

    def _read(self, name: str, positions: I64) -> dict[int, tuple[F64, float]]:
        """Return time stamps that a field has; the last ones are in memory."""
        memory = self._stamps
        stamps = {at: memory[name, at] for at in positions.tolist() if (name, at) in memory}
        rest = [at for at in dict.fromkeys(positions.tolist()) if at not in stamps]
        samples = self._reader.read(np.array(rest, np.int64), {name: None}, decode=True)
        for at, sample in zip(rest, samples, strict=True):
            if name in sample:
                stamps[at] = self._seconds(name, at, sample[name])
        if sum(len(times) for times, _ in list(memory.values())) > _KEPT:
            memory.clear()
        memory.update({(name, at): times for at, times in stamps.items()})
        return stamps

    def _seconds(self, name: str, position: int, value: Any) -> tuple[F64, float]:
        stamps = np.asarray(value)
        if stamps.dtype.kind in "Mm":
            zero = np.zeros((), stamps.dtype.str[1:])
            stamps = (stamps - zero) / np.timedelta64(1, "s")
        if stamps.ndim != 1 or (stamps.dtype.kind != "f" and len(stamps)):
            raise SpecError(
                f"sample {self._reader.key(position)!r}: time stamps are "
                "seconds as real numbers, or datetime64, one for each "
                f"element; {name!r} has {stamps.dtype} of shape {stamps.shape}"
            )
        slack = 1e-6
        if stamps.dtype != np.float64 and len(stamps):
            slack = max(slack, float(np.spacing(np.abs(stamps).max())))
        return stamps.astype(np.float64), slack


def _wrong(stamps: F64, count: int, name: str, source: str) -> str:
    """Return the fault of the time stamps of a sample, or an empty text."""
    if not len(stamps):
        return f"has no time stamps in {source!r}"
    if len(stamps) != count:
        return f"has {len(stamps)} time stamps in {source!r} and {count} elements of {name!r}"
    if not np.isfinite(stamps).all() or stamps[0] < 0:
        return f"has a time stamp in {source!r} that is negative or not a number"
    if (fall := np.diff(stamps) <= 0).any():
        number = int(fall.argmax()) + 1
        return (
            f"has time stamps in {source!r} that do not ascend: "
            f"number {number} is not later than the one before it"
        )
    return ""


class _Asked(dict[str, Elements]):
    """The elements to read of the samples of a batch, by field; and the plan that was made for them."""

    planned: ReadPlan | None = None


class WindowReader(Reader):
    """Reads windows of the samples of a dataset. It shares the files of the dataset's own reader.

    Args:
        base: The reader of the dataset.
        selection: Which samples, and which of their fields, the dataset or view has.
        windows: The windows of these samples.
    """

    windows: Windows

    def __init__(self, base: Reader, selection: Selection, windows: Windows) -> None:
        self.__dict__.update(base.__dict__)
        self._base, self.windows, self.selection = base, windows, selection
        self.fields = _fields(selection.fields, windows.shape)
        # of batches that are prefetched, by their positions and fields
        self._asked: dict[tuple[object, ...], _Asked] = {}
        self._timelines: FieldTimelines | None = None
        if windows.shape.time is not None:
            self._timelines = FieldTimelines(base, windows.shape.time.sources)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_asked": {}}

    @property
    def whole(self) -> range:
        """The numbers of all windows."""
        return range(len(self.windows))

    @property
    def base(self) -> Reader:
        """The reader of the samples that windows are of."""
        return self._base

    def samples(self, positions: I64) -> I64:
        """Return the positions in the whole dataset of the samples that windows are of."""
        return self.selection.absolute(self.windows.places(positions)[0])

    def rows_of(self, name: str, positions: I64) -> I64:
        """Return the places of the values of a field among the samples of all shards; -1 for none."""
        return self.base.rows_of(name, self.samples(positions))

    def row_of(self, position: int, name: str | None = None) -> tuple[int, int]:
        """Return the number of the shard that holds the sample of a window, or this field of it, and its row there."""
        [sample] = self.samples(np.array([position], np.int64)).tolist()
        return self.base.row_of(sample, name)

    def groups(self, positions: I64, names: Collection[str] | None = None) -> list[Group]:
        """Divide a batch by the shards of its samples."""
        return self.base.groups(self.samples(positions), names)

    def keys(self, positions: I64, groups: Sequence[Group] | None = None) -> list[str]:
        """Return the keys of windows: the keys of their samples with the starts of the windows."""
        samples, starts = self.windows.places(positions)
        sample_keys = self.base.keys(self.selection.absolute(samples))
        marks = self.windows.marks(samples, starts)
        return [f"{key}@{mark}" for key, mark in zip(sample_keys, marks, strict=True)]

    def find_keys(self, keys: Sequence[str]) -> tuple[I64, I64]:
        """Return the numbers of the windows with some keys, and the numbers of their keys."""
        pairs = [
            (window, number) for number, key in enumerate(keys) for window in self.find_key(key)
        ]
        windows, numbers = np.array(pairs, np.int64).reshape(-1, 2).T
        return windows, numbers

    def find_key(self, key: str) -> list[int]:
        """Return the number of the window with a key, or an empty list."""
        sample_key, _, mark = key.rpartition("@")
        sample = self.selection.first(self.base.find_key(sample_key))
        number = None if sample is None else self.windows.find(sample, mark)
        if number is None or self.keys(np.array([number], np.int64)) != [key]:
            return []
        return [number]

    def ranges(self, positions: I64, names: Collection[str] | None = None) -> dict[str, Ranges]:
        """Return the elements of windows, of each field that has some, or of these fields."""
        places, starts = self.windows.places(positions)
        shape, samples = self.windows.shape, self.selection.absolute(places)
        needed = [name for name in shape.offsets if names is None or name in names]
        if self._timelines is None:
            counts = element_counts(self.base, samples, shape.field)
            return {
                name: Ranges.regular(starts, offsets, counts)
                for name, offsets in shape.offsets.items()
                if offsets is not None and name in needed
            }
        timelines = self._timelines.of(samples, dict.fromkeys([shape.field, *needed]))
        windows = [
            elements_in_time(shape, timelines_of_sample, start, needed)
            for timelines_of_sample, start in zip(timelines, starts.tolist(), strict=True)
        ]
        return {name: Ranges.joined([window[name] for window in windows]) for name in needed}

    def sizes(self, positions: I64, name: str) -> I64 | None:
        """Return the number of elements that windows have of a field; None if they have what samples have."""
        if name not in self.windows.shape.offsets:
            return None
        if (size := self.windows.shape.size(name)) is not None:
            return np.full(len(positions), size, np.int64)
        return self.ranges(positions, [name])[name].sizes

    def asked(self, positions: I64, wanted: Mapping[str, Elements]) -> Mapping[str, Elements]:
        """Return the elements to read of samples, given the elements that are wanted of their windows.

        Raises:
            IndexError: An element is beyond the end of a window.
            TypeError: Windows within these windows are wanted.
        """
        batch = positions.tobytes(), *wanted
        whole = all(elements is None for elements in wanted.values())
        if whole and (remembered := self._asked.get(batch)) is not None:
            return remembered
        ranges, elements_of_samples = self.ranges(positions, wanted), _Asked()
        for name, elements in wanted.items():
            if name in self.windows.shape.pads:
                continue
            elements_of_samples[name] = elements
            if (window_ranges := ranges.get(name)) is not None:
                if isinstance(elements, Ranges):
                    raise TypeError(f"field {name!r} is read in windows already")
                if elements is not None:
                    window_ranges = window_ranges.chosen(elements, "a window")
                elements_of_samples[name] = window_ranges
        if whole:
            if len(self._asked) >= _BATCHES:
                self._asked.clear()
            self._asked[batch] = elements_of_samples
        return elements_of_samples

    def plan(
        self, groups: Sequence[Group], total: int, wanted: Mapping[str, Elements], *, parts: bool
    ) -> ReadPlan:
        """Plan the read of a batch, once for its prefetch and its read."""
        if parts and isinstance(wanted, _Asked) and wanted.planned is not None:
            return wanted.planned
        planned = super().plan(groups, total, wanted, parts=parts)
        if parts and isinstance(wanted, _Asked):
            wanted.planned = planned
        return planned

    def read(
        self,
        positions: I64,
        wanted: Mapping[str, Elements],
        *,
        decode: bool,
        parts: bool | None = None,
        held: Held | None = None,
        room: Room | None = None,
    ) -> list[Sample]:
        """Read windows with one call to the storage for the whole batch, as `Reader.read` reads samples."""
        elements_asked = self.asked(positions, wanted)
        self._asked.pop((positions.tobytes(), *wanted), None)
        samples = super().read(
            positions, elements_asked, decode=decode, parts=parts, held=held, room=room
        )
        pads = {name: field for name, field in self.windows.shape.pads.items() if name in wanted}
        ranges = self.ranges(positions, pads.values()) if pads else {}
        for name, field in pads.items():
            for place, sample in enumerate(samples):
                if field in sample or field not in wanted:
                    sample[name] = ranges[field].flags(place)
        return samples

    def gather(self, positions: I64, name: str) -> tuple[U8, I64, U32 | None]:
        """Return the stored bytes of one plain field in one buffer.

        Raises:
            TypeError: The field is read in windows.
        """
        if name in self.windows.shape.offsets:
            raise TypeError(
                f"field {name!r} is read in windows, which "
                "have no stored bytes of their own: use read()"
            )
        return super().gather(positions, name)


def _fields(fields: Mapping[str, Field], shape: WindowShape) -> dict[str, Field]:
    """Return the fields of windows: types of arrays have the length of the window, and each may have its flags."""
    window_fields = dict(fields)
    for name in shape.offsets:
        field, size = fields[name], shape.size(name) or -1
        base, _, arguments = field.codec.partition("(")
        dtype, *sizes = arguments.rstrip(")").split(",")
        if base == "array" and sizes and not field.sequence:
            window_fields[name] = replace(
                field, codec=f"array({','.join([dtype, str(size), *sizes[1:]])})"
            )
    for pad, name in shape.pads.items():
        window_fields[pad] = Field(pad, f"array(bool,{shape.size(name) or -1})", sequence=False)
    return window_fields
