"""The clocks of fields: rates that the user gives, time stamps in another field, and times of clips in the index."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from bushel._index.table import MISSING
from bushel._runtime.arrays import F64, I64
from bushel.codecs import holds_clip, holds_sound
from bushel.errors import SpecError

from .clocks import Clock, Stamped, Steady
from .columns import check_has_elements, element_counts, index_command
from .reader import Reader
from .windows import Source

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
                f"nothing says when the elements of {name!r} are: give times={{{name!r}: …}}, their"
                f" number in a second or the field of their time stamps{hint}"
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


class FieldClocks:
    """Finds when the elements of fields are, in samples.

    Args:
        reader: The reader of the samples, which are not windows.
        sources: The source of the times of each field.
    """

    def __init__(self, reader: Reader, sources: Mapping[str, Source]) -> None:
        self._reader, self._sources = reader, sources
        self._stamps: dict[tuple[str, int], tuple[F64, float]] = {}

    def of(self, positions: I64, names: Collection[str]) -> list[dict[str, Clock]]:
        """Return the clocks of fields in samples, without those that have no elements. Time stamps are read.

        Raises:
            KeyError: The index does not say how many elements samples have, or when the frames of
                clips are.
            SpecError: The time stamps of a sample are missing or wrong.
        """
        clocks: list[dict[str, Clock]] = [{} for _ in positions]
        for name in names:
            source, counts = self._sources[name], element_counts(self._reader, positions, name)
            has = np.flatnonzero(counts > 0)
            if isinstance(source, float):
                for place in has.tolist():
                    clocks[place][name] = Steady.of(int(counts[place]), source)
                continue
            field = source or name
            look_up = self._of_clips if is_clip(self._reader, field) else self._read
            stamps = look_up(field, positions[has])
            for place in has.tolist():
                position = int(positions[place])
                stamps_of_sample, slack = stamps.get(position, (np.zeros(0), 0.0))
                if wrong := _wrong(stamps_of_sample, int(counts[place]), name, field):
                    raise SpecError(
                        f"sample {self._reader.key(position)!r} {wrong}: give a rate in times=, or"
                        " leave the sample out"
                    )
                clocks[place][name] = Stamped.of(stamps_of_sample, slack)
        return clocks

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
                    advice = index_command([self._reader.shards[group.number]], "--frames")
                    raise KeyError(
                        f"the index does not say when the frames of {name!r} are; {advice} records"
                        " that"
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
                f"sample {self._reader.key(position)!r}: time stamps are seconds as real numbers, or"
                f" datetime64, one for each element; {name!r} has {stamps.dtype} of shape"
                f" {stamps.shape}"
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
            f"has time stamps in {source!r} that do not ascend: number {number} is not later than the"
            " one before it"
        )
    return ""
