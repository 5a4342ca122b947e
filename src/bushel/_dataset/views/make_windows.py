"""Make views of windows: check the arguments, and return the view.

Windows have a number of elements, or take some time: elements at a rate, or some seconds of several
fields, each with its own rate or time stamps. Windows of episodes are frames with their neighbours,
as LeRobot asks for them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.read.columns import check_has_elements, element_counts
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.selection import Selection
from bushel._dataset.read.shards import OpenShard
from bushel._dataset.read.window_reader import (
    FieldTimelines,
    WindowReader,
    checked_source,
    is_clip,
    positive,
)
from bushel._dataset.read.windows import (
    Source,
    TimeSpan,
    Windows,
    WindowShape,
    first_and_count,
    window_counts,
)
from bushel._runtime.arrays import F64, I64, Array, check_count, offsets_of
from bushel.codecs import holds_elements
from bushel.containers import get_container
from bushel.errors import SpecError

from .samples import Samples

S = TypeVar("S", bound=Samples)

_MOST = 1 << 32
_CHUNK = 4096  # samples whose times are looked at together
_TAKES = ("shown", "nearest", "all")
_TOLERANCE = 1e-4  # seconds by which a time may differ from the time of a frame, as in LeRobot


def windows_of(dataset: S, shape: WindowShape) -> S:
    """Return the view of a dataset whose samples are windows of its samples.

    Raises:
        UnsupportedError: The samples are windows already.
        KeyError: The field does not exist, or the index lacks the number of its elements.
        TypeError: A field has no elements.
        ValueError: Fields that are read together have different numbers of elements, or a name is
            taken.
    """
    dataset.reader.refuse_windows("make windows of the original dataset")
    reader, selection = dataset.reader, dataset.selection
    for name in selection.wanted(list(shape.offsets)):
        check_has_elements(reader, name, "windows()")
    for name in shape.pads:
        if name in selection.fields:
            raise ValueError(
                f"windows would have a field {name!r} of "
                "their own: leave that field out with fields()"
            )
    positions = selection.every
    if shape.time is not None:
        return view_of(dataset, _windows_in_time(dataset, shape, positions))
    counts = element_counts(reader, positions, shape.field)
    has = window_counts(counts, shape) > 0
    for name in shape.offsets:
        if name == shape.field:
            counts_of_field = counts
        else:
            counts_of_field = element_counts(reader, positions, name)
        if (unlike := has & (counts_of_field != counts) & (counts_of_field >= 0)).any():
            place = int(np.flatnonzero(unlike)[0])
            raise ValueError(
                f"sample {dataset.keys[place]!r} has {counts[place]} elements of "
                f"{shape.field!r} and {counts_of_field[place]} of {name!r}: fields "
                "whose windows are read together need equally many, or times="
            )
    return view_of(dataset, Windows.of(shape, counts))


def _windows_in_time(dataset: Samples, shape: WindowShape, positions: I64) -> Windows:
    """Return the windows of samples in time. Samples that lack a field have none."""
    assert shape.time is not None
    timelines = FieldTimelines(dataset.reader, shape.time.sources)
    # in elements or seconds, as the hop
    firsts: Array = np.zeros(len(positions), type(shape.hop))
    counts = np.zeros(len(positions), np.int64)
    for begin in range(0, len(positions), _CHUNK):
        of_samples = timelines.of(positions[begin : begin + _CHUNK], shape.offsets)
        for place, timelines_of_sample in enumerate(of_samples, begin):
            if len(timelines_of_sample) < len(shape.offsets):
                continue
            try:
                firsts[place], counts[place] = first_and_count(shape, timelines_of_sample)
            except ValueError as error:
                raise SpecError(f"sample {dataset.keys[place]!r} {error}") from None
    return Windows(shape, offsets_of(counts), firsts)


def view_of(dataset: S, windows: Windows) -> S:
    """Return the view of a dataset whose samples are its windows."""
    reader = WindowReader(dataset.reader, dataset.selection, windows)
    return type(dataset)((), reader=reader, selection=Selection(range(len(windows)), reader.fields))


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
            return steps_of(length, self.step), 0.0
        rate = positive("fps", self.fps)
        if self.step != 1:
            raise ValueError("fps= says which elements are taken: leave out step=")
        if seconds is not None:
            length = round(seconds * rate)
        offsets = steps_of(length, 1)
        return offsets / rate, seconds or len(offsets) / rate


class WindowOptions(Struct, frozen=True):
    """Further arguments of `Dataset.windows`, which describes them."""

    hop: float | None = None
    also: Iterable[str] = ()
    times: float | Mapping[str, float | str] | None = None
    take: str | Mapping[str, str] | None = None
    pad: bool = False
    delta: Mapping[str, Iterable[float]] | None = None


def shape_of(reader: Reader, field: str, main: Pick, options: WindowOptions) -> WindowShape:
    """Return the shape of windows that a caller of `Dataset.windows` asks for.

    Raises:
        TypeError: An argument has another type.
        ValueError: One is out of its range, or two contradict each other.
        KeyError, SpecError: As `shape_of_picks`.
    """
    delta = options.delta
    if isinstance(options.also, str):
        raise TypeError(f"give also= as a list, such as [{options.also!r}]")
    if delta is not None:
        if main != Pick() or options.take is not None or options.pad or tuple(options.also):
            raise ValueError(
                "delta= gives the elements of windows, and pads: leave "
                "out length, seconds=, fps=, step=, also=, take= and pad="
            )
        if not isinstance(delta, Mapping) or not delta:
            raise TypeError(
                f"delta={delta!r}: expected fields and offsets, such as {{{field!r}: [-1, 0, 1]}}"
            )
    if not main.seconds is main.fps is options.times is None:
        return _shape_in_time(reader, field, main, options)
    if delta is not None:
        return _neighbours(field, delta, options.hop)
    if main.length is None:
        raise TypeError("give the length of the windows, as in windows('frames', 16), or delta=")
    offsets = steps_of(main.length, main.step)
    hop, span = _hop(options.hop, len(offsets) * main.step), int(offsets[-1]) + 1
    return WindowShape(
        field, dict.fromkeys([field, *options.also], offsets), hop, span, bool(options.pad)
    )


def _neighbours(field: str, delta: Mapping[str, Iterable[float]], hop: float | None) -> WindowShape:
    """Return the shape of elements with neighbours, given the distances to these."""
    chosen = {name: _offsets(name, offsets) for name, offsets in {field: [0], **delta}.items()}
    return WindowShape(field, chosen, _hop(hop, 1), 0, pad=True)


def steps_of(length: Any, step: Any) -> I64:
    """Return the offsets of the elements of a window of some length, each a step after the one before it."""
    elements = check_count("length", length, least=1, most=_MOST)
    return np.arange(elements) * check_count("step", step, least=1, most=_MOST)


def _hop(hop: float | None, usual: int) -> int:
    return usual if hop is None else check_count("hop", hop, least=1, most=_MOST)


def _offsets(name: str, numbers: Iterable[Any]) -> I64:
    expected = "whole numbers, such as [-1, 0, 1]"
    return _distances(name, numbers, operator.index, expected).astype(np.int64)


def _distances(
    name: str, numbers: Iterable[Any], number_of: Callable[[Any], float], expected: str
) -> F64:
    """Return the distances to neighbours that a caller gives, whose whole numbers are below `_MOST`.

    Raises:
        TypeError: They are something else.
    """
    try:
        distances = np.array([number_of(number) for number in numbers], np.float64)
    except (TypeError, ValueError, OverflowError):
        distances = np.zeros(0)
    # not a number is not below it
    if not len(distances) or not np.abs(distances).max() < _MOST:
        raise TypeError(f"delta {{{name!r}: {numbers!r}}}: expected {expected}")
    return distances


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
            f"seconds={seconds:g} is shorter than the distance of "
            f"two elements of {empty[0]!r}: no window would have one"
        )
    return shape


def _shape_in_time(reader: Reader, field: str, main: Pick, options: WindowOptions) -> WindowShape:
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
        return _delta_shape(reader, field, picks, options.hop, options.delta)
    picks[field] = replace(main, times=rates.get(field), take=takes.get(field))
    shape = shape_of_picks(reader, field, picks, bool(options.pad))
    offsets, hop = shape.offsets[field], options.hop
    if shape.time is not None and shape.time.seconds:
        return replace(shape, hop=positive("hop", shape.time.seconds if hop is None else hop))
    assert offsets is not None
    return replace(shape, hop=_hop(hop, len(offsets) * main.step), span=int(offsets[-1]) + 1)


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
    expected = "seconds, such as [-0.1, 0]"
    seconds = {name: _distances(name, numbers, float, expected) for name, numbers in delta.items()}
    if isinstance(rate, float) and set(sources.values()) == {rate}:
        numbers = {name: _steps(name, distances, rate) for name, distances in seconds.items()}
        return _neighbours(field, numbers, hop)
    time = TimeSpan(0.0, sources, dict.fromkeys(sources, "nearest"))
    offsets = {field: np.zeros(1), **seconds}
    return replace(shape, offsets=offsets, hop=_hop(hop, 1), span=0, time=time)


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
            f"{name!r} asks for {seconds[place]:g} seconds, but frames are "
            f"{1 / rate:g} seconds apart: the next one is at {steps[place] / rate:g}"
        )
    return [int(step) for step in steps]


def frames_with_neighbours(
    spec: Mapping[str, str], shards: Sequence[OpenShard], deltas: Mapping[str, Iterable[float]]
) -> tuple[dict[str, Iterable[float]], float]:
    """Return the distances to the neighbours of frames of episodes, of all fields with elements, and the rate.

    `deltas` has, by field, the seconds from the frame to each of its neighbours, such as
    `{"action": [0, 0.1]}`.

    Raises:
        SpecError: The frames have no rate.
        KeyError: The field does not exist.
        TypeError: A field has no frames, or an argument has another type.
        ValueError: No frame has one of the times.
    """
    if not isinstance(deltas, Mapping) or not deltas:
        raise TypeError(
            f"delta_timestamps={deltas!r}: expected fields "
            "and seconds, such as {'action': [0, 0.1]}"
        )
    rates = set(map(_rate, shards))
    if len(rates) != 1:
        raise SpecError(f"delta_timestamps needs one rate of frames, found {sorted(rates)}")
    whole_fields = {
        name: [0.0] for name, kind in spec.items() if kind.endswith("[]") or holds_elements(kind)
    }
    return {**whole_fields, **deltas}, rates.pop()


def _rate(shard: OpenShard) -> float:
    rate = get_container(shard.container).rate(shard.shard)
    if rate is None:
        raise SpecError(
            f"delta_timestamps needs frames at a fixed rate, which {shard.container} does not have"
        )
    return rate
