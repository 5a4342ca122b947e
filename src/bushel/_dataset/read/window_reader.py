"""The reader of windows: a position is the number of a window, and a sample has only the elements of its window."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from bushel._index.elements import Elements, Group, Ranges
from bushel._runtime.arrays import I64, U8
from bushel.spec import KEY, Field

from .columns import element_counts
from .field_clocks import FieldClocks
from .reader import Reader, Sample
from .time_spans import elements_in_time
from .windows import Windows, WindowShape

if TYPE_CHECKING:
    from bushel.storage.fetch import Held

    from .decoding import Room
    from .selection import Selection
    from .shards import OpenShard


class WindowReader(Reader):
    """Reads windows of the samples of a dataset. It shares the files of the dataset's own reader.

    Args:
        base: The reader of the dataset.
        selection: Which samples, and which of their fields, the dataset or view has.
        windows: The windows of these samples.
        find: Returns the number of the sample with a key, or None if no sample has it.
    """

    windows: Windows

    def __init__(
        self,
        base: Reader,
        selection: Selection,
        windows: Windows,
        find: Callable[[str], int | None],
    ) -> None:
        self.__dict__.update(base.__dict__)
        self.base, self.windows, self.selection, self._find = base, windows, selection, find
        self.fields = _fields(selection.fields, windows.shape)
        self._clocks: FieldClocks | None = None
        if windows.shape.time is not None:
            self._clocks = FieldClocks(base, windows.shape.time.sources)

    def samples(self, positions: I64) -> I64:
        """Return the positions in the whole dataset of the samples that windows are of."""
        return self.selection.absolute(self.windows.places(positions)[0])

    @property
    def divisions(self) -> Sequence[Sequence[OpenShard]]:
        """The shards of each dataset that was joined."""
        return self.base.divisions

    def rows_of(self, name: str, positions: I64) -> I64:
        """Return the places of the values of a field among the samples of all shards; -1 for none."""
        return self.base.rows_of(name, self.samples(positions))

    def row_of(self, position: int, name: str | None = None) -> tuple[int, int]:
        """Return the number of the shard that holds the sample of a window, or this field of it, and its row there."""
        return self.base.row_of(int(self.samples(np.array([position], np.int64))[0]), name)

    def groups(self, positions: I64, names: Collection[str] | None = None) -> list[Group]:
        """Divide a batch by the shards of its samples."""
        return self.base.groups(self.samples(positions), names)

    def keys(self, positions: I64, groups: Sequence[Group] | None = None) -> list[str]:
        """Return the keys of windows: the keys of their samples with the starts of the windows."""
        samples, starts = self.windows.places(positions)
        sample_keys = self.base.keys(self.selection.absolute(samples))
        marks = self.windows.marks(samples, starts)
        return [f"{key}@{mark}" for key, mark in zip(sample_keys, marks, strict=True)]

    def find(self, key: str) -> list[int]:
        """Return the number of the window with a key, or an empty list."""
        sample_key, _, mark = key.rpartition("@")
        sample = self._find(sample_key)
        number = None if sample is None else self.windows.find(sample, mark)
        if number is None or self.keys(np.array([number], np.int64)) != [key]:
            return []
        return [number]

    def ranges(self, positions: I64, names: Collection[str] | None = None) -> dict[str, Ranges]:
        """Return the elements of windows, of each field that has some, or of these fields."""
        places, starts = self.windows.places(positions)
        shape, samples = self.windows.shape, self.selection.absolute(places)
        needed = [name for name in shape.offsets if names is None or name in names]
        if self._clocks is None:
            counts = element_counts(self.base, samples, shape.field)
            return {
                name: Ranges.regular(starts, offsets, counts)
                for name, offsets in shape.offsets.items()
                if offsets is not None and name in needed
            }
        clocks = self._clocks.of(samples, dict.fromkeys([shape.field, *needed]))
        windows = [
            elements_in_time(shape, clocks_of_sample, start, needed)
            for clocks_of_sample, start in zip(clocks, starts.tolist(), strict=True)
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
        ranges, elements_of_samples = self.ranges(positions, wanted), dict[str, Elements]()
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
        return elements_of_samples

    def sample(
        self, position: int, wanted: Mapping[str, Elements], home: tuple[int, int] | None = None
    ) -> Sample:
        """Read and decode one window."""
        return self.read(np.array([position], np.int64), wanted, decode=True)[0]

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
        samples = super().read(
            positions, elements_asked, decode=decode, parts=parts, held=held, room=room
        )
        for sample, key in zip(samples, self.keys(positions), strict=True):
            sample[KEY] = key  # some of the ways to read take the keys from the tables
        pads = {name: field for name, field in self.windows.shape.pads.items() if name in wanted}
        ranges = self.ranges(positions, pads.values()) if pads else {}
        for name, field in pads.items():
            for place, sample in enumerate(samples):
                if field in sample or field not in wanted:
                    sample[name] = ranges[field].flags(place)
        return samples

    def whole_value(self, position: int, name: str, elements: Elements) -> Any:
        """Return elements of the sample of a window, and read the whole value for that."""
        return super().read(
            np.array([position], np.int64), {name: elements}, decode=True, parts=False
        )[0][name]

    def gather(self, positions: I64, name: str) -> tuple[U8, I64]:
        """Return the stored bytes of one plain field in one buffer.

        Raises:
            TypeError: The field is read in windows.
        """
        if name in self.windows.shape.offsets:
            raise TypeError(
                f"field {name!r} is read in windows, which have no stored bytes of"
                " their own: use read()"
            )
        return super().gather(positions, name)

    def prefetch(
        self, positions: I64, wanted: Mapping[str, Elements], *, decode: bool = True
    ) -> None:
        """Ask for readahead of windows that will be read soon."""
        super().prefetch(positions, self.asked(positions, wanted), decode=decode)


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
