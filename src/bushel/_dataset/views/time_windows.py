"""Windows by time: elements at a rate, or some seconds of several fields, each with its own rate or time stamps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bushel._dataset.read.field_clocks import checked_source, is_clip, positive
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.windows import Source, TimeSpan, WindowShape
from bushel._dataset.views.make_windows import shape_of, window_length
from bushel._runtime.arrays import F64, I64
from bushel._runtime.structs import Struct

TAKES = ("shown", "nearest", "all")
_TOLERANCE = 1e-4  # seconds by which a time may differ from the time of a frame, as in LeRobot


def offsets_in_time(
    length: int | None, step: int, seconds: float | None, fps: float | None
) -> tuple[I64 | F64 | None, float]:
    """Return the offsets of the elements of a window, as `WindowShape` has them, and its seconds, 0 if not given.

    Raises:
        TypeError, ValueError: An argument is wrong, or two contradict each other.
    """
    if seconds is not None:
        seconds = positive("seconds", seconds)
    if fps is None:
        if (length is None) == (seconds is None):
            raise TypeError("give the length of windows, or seconds=, or one of them and fps=")
        return (None, seconds) if seconds else (window_length(length or 0, step)[0], 0.0)
    rate = positive("fps", fps)
    if (length is None) == (seconds is None) or step != 1:
        raise TypeError("with fps=, give either the length of windows or seconds=, and no step=")
    if seconds is not None:
        length = round(seconds * rate)
    offsets, _ = window_length(length or 0, 1)
    return offsets / rate, seconds or len(offsets) / rate


def take_of(reader: Reader, name: str, take: str | None) -> str:
    """Return how the elements of a field are chosen: as the user says, or by default.

    Raises:
        ValueError: It is not one of `TAKES`.
    """
    if take is not None and take not in TAKES:
        raise ValueError(f"take={take!r}: expected one of {', '.join(map(repr, TAKES))}")
    return take or ("shown" if is_clip(reader, name) else "nearest")


class TimeOptions(Struct, frozen=True):
    """The arguments of `Dataset.windows`, which describes them."""

    length: int | None
    seconds: float | None
    fps: float | None
    hop: float | None
    step: int
    also: Iterable[str]
    times: float | Mapping[str, float | str] | None
    take: str | Mapping[str, str] | None
    pad: bool
    delta: Mapping[str, Iterable[float]] | None


def shape_in_time(reader: Reader, field: str, options: TimeOptions) -> WindowShape:
    """Return the shape of windows by time that a caller of `Dataset.windows` asks for.

    Raises:
        KeyError: A field does not exist.
        TypeError, ValueError: An argument is wrong, or two contradict each other.
        SpecError: Nothing says when the elements of a field are.
    """
    delta, pad = options.delta, bool(options.pad)
    sources = _sources(reader, field, options)
    if delta is not None:
        return _delta_shape(field, delta, sources, options)
    offsets, seconds = offsets_in_time(options.length, options.step, options.seconds, options.fps)
    takes: Mapping[str, str | None] = dict.fromkeys(sources)
    if isinstance(options.take, Mapping):
        takes = options.take
    elif options.take is not None:
        takes = dict.fromkeys(sources, options.take)
    chosen = {name: take_of(reader, name, takes.get(name)) for name in sources}
    if offsets is None:
        chosen[field] = "all"
    elif chosen[field] == "all":
        chosen[field] = take_of(reader, field, None)
    time = TimeSpan(seconds, sources, chosen)
    all_offsets = {name: offsets if name == field else None for name in sources}
    if seconds:
        hop = seconds if options.hop is None else positive("hop", options.hop)
        return WindowShape(field, all_offsets, hop, 1, pad, time)
    by_elements = shape_of(
        field, options.length, hop=options.hop, step=options.step, also=(), pad=pad, delta=None
    )
    return WindowShape(field, all_offsets, by_elements.hop, by_elements.span, pad, time)


def _sources(reader: Reader, field: str, options: TimeOptions) -> dict[str, Source]:
    """Return the source of the times of each field of a window.

    Fields without times of their own have an element for each one of the window's own field.
    """
    times, sources = options.times, dict[str, Source]()
    of_fields: Mapping[str, Any] = times if isinstance(times, Mapping) else {}
    for name in dict.fromkeys([field, *(options.delta or ()), *options.also, *of_fields]):
        source = of_fields.get(name, None if isinstance(times, Mapping) else times)
        if source is None and name != field and not is_clip(reader, name):
            source = sources[field] or field
        sources[name] = checked_source(reader, name, source)
    return sources


def _delta_shape(
    field: str,
    delta: Mapping[str, Iterable[float]],
    sources: Mapping[str, Source],
    options: TimeOptions,
) -> WindowShape:
    """Return the shape of elements with neighbours at distances in seconds.

    Fields at one rate are read by the numbers of their elements, and each must have a neighbour at
    exactly these distances.
    """
    if options.seconds is not None or options.fps is not None or options.take is not None:
        raise ValueError("delta= gives the times of windows: leave out seconds=, fps= and take=")
    rates = set(sources.values())
    rate = rates.pop()
    seconds = {name: _seconds(name, numbers) for name, numbers in delta.items()}
    numbers: Mapping[str, Iterable[int]] = dict.fromkeys(sources, (0,))
    if not rates and isinstance(rate, float):
        numbers = {name: _steps(name, distances, rate) for name, distances in seconds.items()}
    shape = shape_of(
        field,
        options.length,
        hop=options.hop,
        step=options.step,
        also=options.also,
        pad=options.pad,
        delta=numbers,
    )
    if not rates and isinstance(rate, float):
        return shape
    time = TimeSpan(0.0, sources, dict.fromkeys(sources, "nearest"))
    return WindowShape(field, {field: np.zeros(1), **seconds}, shape.hop, 0, True, time)


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
