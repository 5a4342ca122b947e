"""Windows by time: elements at a rate, or some seconds of several fields, each with its own rate or time stamps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.read.field_clocks import checked_source, is_clip, positive
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.windows import Source, TimeSpan, WindowShape
from bushel._runtime.arrays import F64, I64

from .make_windows import count, shape_of, window_length

_TAKES = ("shown", "nearest", "all")
_TOLERANCE = 1e-4  # seconds by which a time may differ from the time of a frame, as in LeRobot


class Pick(Struct, frozen=True):
    """How the elements of one field of a window are chosen by time: arguments of `Dataset.windows`."""

    length: int | None = None
    step: int = 1
    seconds: float | None = None
    fps: float | None = None
    times: float | str | None = None
    take: str | None = None

    @property
    def is_measured(self) -> bool:
        """Whether it says how long the window is."""
        return not self.length is self.seconds is self.fps is None

    def offsets(self) -> tuple[I64 | F64 | None, float]:
        """Return the offsets of the elements, as `WindowShape` has them, and the seconds, 0 if not given.

        Raises:
            TypeError, ValueError: An argument is wrong, or two contradict each other.
        """
        if self.take not in (None, *_TAKES):
            raise ValueError(f"take={self.take!r}: expected one of {', '.join(map(repr, _TAKES))}")
        seconds, length = self.seconds, self.length
        if (length is None) == (seconds is None):
            raise TypeError("give either the length of windows or seconds=, with fps= or without")
        if seconds is not None:
            seconds = positive("seconds", seconds)
        if self.fps is None:
            if seconds:
                return None, seconds
            return window_length(length, self.step)[0], 0.0
        rate = positive("fps", self.fps)
        if self.step != 1:
            raise ValueError("fps= says which elements are taken: leave out step=")
        if seconds is not None:
            length = round(seconds * rate)
        offsets, _ = window_length(length, 1)
        return offsets / rate, seconds or len(offsets) / rate


def shape_of_picks(reader: Reader, field: str, picks: Mapping[str, Pick], pad: bool) -> WindowShape:
    """Return the shape of windows that start at an element of a field, which `picks` has first.

    Fields without times of their own have an element for each one of that field.

    Raises:
        KeyError: A field does not exist.
        TypeError, ValueError: An argument is wrong, or two contradict each other.
        SpecError: Nothing says when the elements of a field are.
    """
    sources: dict[str, Source] = {}
    offsets: dict[str, I64 | F64 | None] = {}
    takes: dict[str, str] = {}
    main_offsets, seconds = picks[field].offsets()
    for name, pick in picks.items():
        source, take = pick.times, pick.take
        if source is None and name != field and not is_clip(reader, name):
            source = sources[field] or field
        sources[name] = checked_source(reader, name, source)
        offsets[name] = main_offsets if name == field else None
        if name == field and take == "all":
            take = None
        elif name != field and pick.is_measured:
            offsets[name], _ = pick.offsets()
            if offsets[name] is None:
                raise ValueError(f"{name!r} starts with {field!r}: give fps= with seconds=")
        takes[name] = take or ("shown" if is_clip(reader, name) else "nearest")
        if name == field and main_offsets is None:
            takes[name] = "all"
    shape = WindowShape(field, offsets, 1, 1, pad, TimeSpan(seconds, sources, takes))
    if empty := [name for name in offsets if shape.size(name) == 0]:
        raise ValueError(
            f"seconds={seconds:g} is shorter than the distance of two elements of {empty[0]!r}:"
            " no window would have one"
        )
    return shape


class TimeOptions(Struct, frozen=True):
    """Further arguments of `Dataset.windows`, which describes them."""

    hop: float | None
    also: Iterable[str]
    times: float | Mapping[str, float | str] | None
    take: str | Mapping[str, str] | None
    pad: bool
    delta: Mapping[str, Iterable[float]] | None


def shape_in_time(reader: Reader, field: str, main: Pick, options: TimeOptions) -> WindowShape:
    """Return the shape of windows by time that a caller of `Dataset.windows` asks for.

    Raises:
        KeyError, TypeError, ValueError, SpecError: As `shape_of_picks`.
    """
    if isinstance(options.also, str):
        raise TypeError(f"give also= as a list, such as [{options.also!r}]")
    times = options.times
    rates: Mapping[str, Any] = times if isinstance(times, Mapping) else {}
    names = dict.fromkeys([field, *(options.delta or ()), *options.also, *rates])
    if rates is not times:
        rates = dict.fromkeys(names, times)
    takes: Mapping[str, Any] = dict.fromkeys(names, options.take)
    if isinstance(options.take, Mapping):
        takes = options.take
    if unknown := takes.keys() - names:
        raise KeyError(f"take= names {min(unknown)!r}, which the windows do not have")
    picks = {name: Pick(times=rates.get(name), take=takes.get(name)) for name in names}
    if options.delta is not None:
        if main != Pick() or options.take is not None or options.also or options.pad:
            raise ValueError("delta= gives the elements of windows, and pads: leave out the rest")
        return _delta_shape(reader, field, picks, options.hop, options.delta)
    picks[field] = replace(main, times=rates.get(field), take=takes.get(field))
    shape = shape_of_picks(reader, field, picks, bool(options.pad))
    offsets, hop = shape.offsets[field], options.hop
    if shape.time is not None and shape.time.seconds:
        return replace(shape, hop=positive("hop", shape.time.seconds if hop is None else hop))
    assert offsets is not None
    every = len(offsets) * main.step if hop is None else count("hop", hop)
    return replace(shape, hop=every, span=int(offsets[-1]) + 1)


def _delta_shape(
    reader: Reader,
    field: str,
    picks: dict[str, Pick],
    hop: float | None,
    delta: Mapping[str, Iterable[float]],
) -> WindowShape:
    """Return the shape of elements with neighbours at distances in seconds.

    Fields at one rate are read by the numbers of their elements, and each must have a neighbour at
    exactly these distances.
    """
    picks[field] = replace(picks[field], length=1)
    shape = shape_of_picks(reader, field, picks, pad=True)
    assert shape.time is not None
    sources = shape.time.sources
    rate = sources[field]
    seconds = {name: _seconds(name, numbers) for name, numbers in delta.items()}
    if isinstance(rate, float) and set(sources.values()) == {rate}:
        numbers = {name: _steps(name, distances, rate) for name, distances in seconds.items()}
        return shape_of(field, None, hop=hop, step=1, also=(), pad=False, delta=numbers)
    every = 1 if hop is None else count("hop", hop)
    time = TimeSpan(0.0, sources, dict.fromkeys(sources, "nearest"))
    offsets = {field: np.zeros(1), **seconds}
    return replace(shape, offsets=offsets, hop=every, span=0, time=time)


def _seconds(name: str, numbers: Iterable[float]) -> F64:
    try:
        seconds = np.array([float(number) for number in numbers], np.float64)
    except (TypeError, ValueError):
        seconds = np.zeros(0)
    if not len(seconds) or not np.isfinite(seconds).all():
        raise TypeError(f"{{{name!r}: {numbers!r}}}: expected seconds, such as [-0.1, 0]")
    return seconds


def _steps(name: str, seconds: F64, rate: float) -> list[int]:
    """Return the elements at some distances in seconds.

    Raises:
        ValueError: No element is there.
    """
    steps = np.rint(seconds * rate)
    away = np.abs(steps / rate - seconds)
    if (wrong := away > _TOLERANCE).any():
        place = int(wrong.argmax())
        raise ValueError(
            f"{name!r} asks for {seconds[place]:g} seconds, but frames are {1 / rate:g} seconds"
            f" apart: the next one is at {steps[place] / rate:g}"
        )
    return [int(step) for step in steps]
