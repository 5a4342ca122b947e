"""Places inside values, so that parts of them can be read: packets of clips, segments and decoder states of JPEGs.

`ClipFrames`, `Segments` and `SeekTables` are parts of a column; docs/video.md, docs/tiled-jpeg.md and
docs/seek-tables.md specify their arrays. `scans` makes them. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import F64, I64, U8, U32, U64, concatenated, offsets_of, ranges

if TYPE_CHECKING:
    from bushel.codecs.clip_parts import ClipPackets


class ClipFrames(Struct, frozen=True):
    """The video packets of the clips of one field, in decoding order."""

    # int64[rows + 1]; clip `i` has the packets `starts[i]` to `starts[i + 1]`, none if it is read
    # whole
    starts: I64
    offsets: U32  # uint32[packets], bytes from the start of the clip
    lengths: U32  # uint32[packets], bytes
    times: I64  # int64[packets], display times in the clip's own unit
    # uint8[packets]: 1 for a keyframe, 2 for a packet whose frame is displayed, or their sum
    flags: U8
    config: U32  # uint32[rows], number of the clip's configuration; 0 for a clip that is read whole
    config_text: U8  # uint8[bytes], the configurations (JSON), one after another, each once
    config_offsets: I64  # int64[configurations + 1] into `config_text`

    @classmethod
    def of_clips(cls, clips: Sequence[ClipPackets | None]) -> ClipFrames:
        """Return the frames of some clips; None stands for one that is read whole."""
        numbers: dict[bytes, int] = {}
        config = [
            0 if clip is None else numbers.setdefault(clip.config, len(numbers)) for clip in clips
        ]
        present = [clip for clip in clips if clip is not None]
        packets = {
            name: concatenated((getattr(clip, name) for clip in present), dtype)
            for name, dtype in _OF_PACKETS.items()
        }
        return cls(
            starts=offsets_of(0 if clip is None else len(clip.offsets) for clip in clips),
            **packets,
            config=np.array(config, np.uint32),
            config_text=np.frombuffer(b"".join(numbers), np.uint8),
            config_offsets=offsets_of(map(len, numbers)),
        )

    @property
    def rows(self) -> int:
        """Number of clips."""
        return len(self.starts) - 1

    def _packets(self, row: int) -> slice:
        """Return which packets a clip has; none if that is unknown."""
        first, last = int(self.starts[row]), int(self.starts[row + 1])
        is_known = 0 <= first < last <= len(self.flags)
        return slice(first, last if is_known else first)

    def knows(self, row: int) -> bool:
        """Return whether it has the packets of a clip."""
        return bool(self.starts[row] < self.starts[row + 1])

    def count(self, row: int) -> int | None:
        """Return the number of frames of a clip; None if it is unknown."""
        number = int(self.counts(np.array([row]))[0])
        if number < 0:
            return None
        return number

    def counts(self, rows: I64) -> I64:
        """Return the numbers of frames of clips: int64[n], -1 where they are unknown."""
        from bushel.codecs.clip_parts import SHOWN

        first, last = self.starts[rows], self.starts[rows + 1]
        is_known = (first >= 0) & (first < last) & (last <= len(self.flags))
        sizes = np.where(is_known, last - first, 0)
        sums = offsets_of((self.flags[ranges(first, sizes)] & SHOWN) != 0)
        ends = np.cumsum(sizes)
        return np.where(is_known, sums[ends] - sums[ends - sizes], -1)

    def seconds(self, row: int) -> tuple[F64, float] | None:
        """Return when the frames of a clip are displayed, in seconds, ascending, and half the unit of its times.

        float64[frames]; None if that is unknown.
        """
        from bushel.codecs.clip_parts import SHOWN, clip_config

        packets, text = self._packets(row), self._config(row)
        config = None if text is None else clip_config(text)
        times = self.times[packets]
        if config is None or not len(times):
            return None
        numerator, denominator = config.time_base
        if numerator < 1 or denominator < 1:
            return None
        times = times[(self.flags[packets] & SHOWN) != 0]
        unit = numerator / denominator
        return np.sort(times) * numerator / denominator, 0.499 * unit

    def _config(self, row: int) -> bytes | None:
        """Return the configuration of a clip as JSON; None if the table is damaged."""
        number = int(self.config[row])
        if number + 1 >= len(self.config_offsets):
            return None
        begin, end = int(self.config_offsets[number]), int(self.config_offsets[number + 1])
        if not 0 <= begin <= end <= len(self.config_text):
            return None
        return self.config_text[begin:end].tobytes()

    def of(self, row: int, size: int) -> ClipPackets | None:
        """Return the packets of a clip of `size` bytes; None if the recorded packets do not fit it."""
        from bushel.codecs.clip_parts import ClipPackets

        packets, config = self._packets(row), self._config(row)
        offsets, lengths = (part[packets].astype(np.int64) for part in (self.offsets, self.lengths))
        is_whole = len(offsets) and lengths.all() and (offsets + lengths <= size).all()
        if config is None or not is_whole:
            return None
        return ClipPackets(config, offsets, lengths, self.times[packets], self.flags[packets])


_OF_PACKETS: Mapping[str, type[np.generic]] = {
    "offsets": np.uint32,
    "lengths": np.uint32,
    "times": np.int64,
    "flags": np.uint8,
}


class Segments(Struct, frozen=True):
    """Lengths of the segments of tiled JPEGs (docs/tiled-jpeg.md), so that a crop can be read in part."""

    # int64[rows + 1]; row `i` owns the lengths `starts[i]` to `starts[i + 1]`, none if it is not
    # tiled
    starts: I64
    # uint32[total], bytes of the header before the first segment, then of each segment with its
    # marker
    lengths: U32

    def of(self, row: int) -> I64:
        """Return the offsets of a row's segments in the JPEG, followed by the end of the last; empty if not tiled."""
        return np.cumsum(self.lengths[self.starts[row] : self.starts[row + 1]], dtype=np.int64)


class SeekTables(Struct, frozen=True):
    """The seek tables of plain JPEGs (docs/seek-tables.md), so that decoding can begin inside the image.

    The kernel checks each table when it uses it.
    """

    # int64[rows + 1]; row `i` owns the words `starts[i]` to `starts[i + 1]`, none if it has no
    # table
    starts: I64
    words: U64  # uint64[total]

    def of(self, rows: I64) -> list[U64]:
        """Return the tables of some rows. An empty one stands for none."""
        first, last = (
            np.maximum(self.starts[rows], 0).tolist(),
            np.maximum(self.starts[rows + 1], 0).tolist(),
        )
        return [self.words[begin:end] for begin, end in zip(first, last, strict=True)]


ARRAYS: Mapping[str, tuple[str, type[Struct], Mapping[str, type[np.generic]]]] = {
    "segments": ("segment", Segments, {"starts": np.int64, "lengths": np.uint32}),
    "seek": ("seek", SeekTables, {"starts": np.int64, "words": np.uint64}),
    "frames": (
        "frame",
        ClipFrames,
        {
            "starts": np.int64,
            **_OF_PACKETS,
            "config": np.uint32,
            "config_text": np.uint8,
            "config_offsets": np.int64,
        },
    ),
}
"""The scans of a column by its attribute: the beginning of the names of their arrays, such as `frame_starts`,
the class, and the types of the arrays by their attributes."""


def scans_in(
    name: str,
    rows: int,
    names: Collection[str],
    array: Callable[[str, type[np.generic], int | None], np.ndarray],
) -> dict[str, Any]:
    """Return the scans of a field that a sidecar has, by the attribute. Only types and lengths are checked.

    Args:
        name: The field.
        rows: Number of its values.
        names: The names of the arrays of the sidecar.
        array: Returns the array of a name, type and length (None for any), or raises an error.
    """
    scans = {}
    for scan, (beginning, kind, dtypes) in ARRAYS.items():
        if f"{name}.{beginning}_starts" not in names:
            continue
        lengths: dict[str, int | None] = {"starts": rows + 1, "config": rows}
        arrays = {}
        for attribute, dtype in dtypes.items():
            length = lengths.get(attribute)
            arrays[attribute] = array(f"{name}.{beginning}_{attribute}", dtype, length)
            if attribute == "offsets":
                lengths |= dict.fromkeys(_OF_PACKETS, len(arrays[attribute]))
        scans[scan] = kind(**arrays)
    return scans
