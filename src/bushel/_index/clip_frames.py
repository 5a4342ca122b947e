"""Places inside values, so that parts of them can be read: packets of clips, segments and decoder states of JPEGs.

`ClipFrames`, `Segments` and `SeekTables` are parts of a column; docs/video.md, docs/tiled-jpeg.md and
docs/seek-tables.md specify their arrays. `scans` makes them. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import F64, I64, U8, U32, U64, offsets_of

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

    @property
    def rows(self) -> int:
        """Number of clips."""
        return len(self.starts) - 1

    def knows(self, row: int) -> bool:
        """Return whether it has the packets of a clip."""
        return bool(self.starts[row] < self.starts[row + 1])

    def count(self, row: int) -> int | None:
        """Return the number of frames of a clip; None if it is unknown."""
        from bushel.codecs.clip_parts import SHOWN

        first, last = int(self.starts[row]), int(self.starts[row + 1])
        if not 0 <= first < last <= len(self.flags):
            return None
        return int(np.count_nonzero(self.flags[first:last] & SHOWN))

    def counts(self, rows: I64) -> I64:
        """Return the numbers of frames of clips: int64[n], -1 where they are unknown."""
        if len(rows) * 8 < self.rows:
            return np.array(
                [-1 if (count := self.count(row)) is None else count for row in rows.tolist()],
                np.int64,
            )
        from bushel.codecs.clip_parts import SHOWN

        sums = offsets_of((self.flags & SHOWN) != 0)
        first, last = self.starts[rows], self.starts[rows + 1]
        is_known = (first >= 0) & (first < last) & (last < len(sums))
        return np.where(
            is_known, sums[np.where(is_known, last, 0)] - sums[np.where(is_known, first, 0)], -1
        )

    def seconds(self, row: int) -> tuple[F64, float] | None:
        """Return when the frames of a clip are displayed, in seconds, ascending, and half the unit of its times.

        float64[frames]; None if that is unknown.
        """
        from bushel.codecs.clip_parts import SHOWN, clip_config

        first, last, text = int(self.starts[row]), int(self.starts[row + 1]), self._config(row)
        config = None if text is None else clip_config(text)
        if config is None or not 0 <= first < last <= len(self.times):
            return None
        numerator, denominator = config.time_base
        if numerator < 1 or denominator < 1:
            return None
        times = self.times[first:last][(self.flags[first:last] & SHOWN) != 0]
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

        first, last, config = int(self.starts[row]), int(self.starts[row + 1]), self._config(row)
        if config is None or not 0 <= first < last <= len(self.offsets):
            return None
        offsets, lengths = (
            part[first:last].astype(np.int64) for part in (self.offsets, self.lengths)
        )
        if not lengths.all() or (offsets + lengths > size).any():
            return None
        return ClipPackets(config, offsets, lengths, self.times[first:last], self.flags[first:last])


ARRAYS: Mapping[str, tuple[str, type[np.generic]]] = {
    "frame_starts": ("starts", np.int64),
    "frame_offsets": ("offsets", np.uint32),
    "frame_lengths": ("lengths", np.uint32),
    "frame_times": ("times", np.int64),
    "frame_flags": ("flags", np.uint8),
    "frame_config": ("config", np.uint32),
    "frame_config_text": ("config_text", np.uint8),
    "frame_config_offsets": ("config_offsets", np.int64),
}
"""The arrays of a sidecar, after the name of the field and a dot: the attribute and the type of each."""


def frames_of(
    name: str, rows: int, array: Callable[[str, type[np.generic], int | None], np.ndarray]
) -> ClipFrames:
    """Return the frames of the clips of a field from the arrays of a sidecar. Only types and lengths are checked.

    Args:
        name: The field.
        rows: Number of clips.
        array: Returns the array of a name, type and length (None for any), or raises an error.
    """
    attributes: dict[str, Any] = {}
    for key, (attribute, dtype) in ARRAYS.items():
        length: int | None = None
        if attribute in ("starts", "config"):
            length = rows + (attribute == "starts")
        elif attribute in ("lengths", "times", "flags"):
            length = len(attributes["offsets"])
        attributes[attribute] = array(f"{name}.{key}", dtype, length)
    return ClipFrames(**attributes)


def joined(known: ClipFrames | None, clips: Iterable[ClipPackets | None]) -> ClipFrames:
    """Return the frames of the clips of `known`, followed by the frames of `clips`."""
    numbers: dict[bytes, int] = {}
    sources: list[Any] = []
    counts, config = np.zeros(0, np.int64), np.zeros(0, np.uint32)
    if known is not None:
        texts = (
            known.config_text[begin:end].tobytes()
            for begin, end in pairwise(known.config_offsets.tolist())
        )
        renumbered = [numbers.setdefault(text, len(numbers)) for text in texts] or [0]
        config = np.array(renumbered, np.uint32).take(known.config, mode="clip")
        counts, sources = np.diff(known.starts), [known]
    sizes, added = [], []
    for clip in clips:
        sizes.append(0 if clip is None else len(clip.offsets))
        added.append(0 if clip is None else numbers.setdefault(clip.config, len(numbers)))
        sources += [] if clip is None else [clip]
    joint = {
        name: np.concatenate(
            [np.zeros(0, dtype), *(getattr(source, name).astype(dtype) for source in sources)]
        )
        for name, dtype in ARRAYS.values()
        if name in ("offsets", "lengths", "times", "flags")
    }
    return ClipFrames(
        starts=offsets_of(np.concatenate([counts, np.array(sizes, np.int64)])),
        **joint,
        config=np.concatenate([config, np.array(added, np.uint32)]),
        config_text=np.frombuffer(b"".join(numbers), np.uint8),
        config_offsets=offsets_of(map(len, numbers)),
    )


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
