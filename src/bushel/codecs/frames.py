"""Which packets of a clip have to be decoded for which frames. Pure: packets are numbers and times here.

A clip's packets lie in the order in which they are decoded, and its frames are counted in the order in which they are
shown. The two differ where frames are predicted from later ones. Decoding can begin at a keyframe; what is shown
before it but stored behind it (in an open group of pictures) needs the keyframe before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["FrameTable", "choose"]

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FrameTable:
    """The frames of a clip in the order in which they are shown.

    Attributes:
        times: int64[frames], ascending, in the clip's own unit.
        packets: int64[frames], the packet of each frame; packets are counted in the order of decoding.
        starts: int64[frames], the packet from which on to decode for it: of the last keyframe not shown after it.
    """

    times: I64
    packets: I64
    starts: I64

    @classmethod
    def of(cls, times: I64, shown: npt.NDArray[np.bool_], keys: npt.NDArray[np.bool_]) -> FrameTable | None:
        """The table of a clip.

        Args:
            times: int64[packets], when the frame of each packet is shown.
            shown: bool[packets], whether it is shown at all.
            keys: bool[packets], whether it is a keyframe.

        Returns:
            None if the packets do not tell which frames a decoder will give: two are shown at one time, or the first
            ones hang on something before them.
        """
        packets = np.flatnonzero(shown)
        packets = packets[np.argsort(times[packets], kind="stable")]
        own = times[packets]
        if not len(own) or not keys[0] or own[0] < times[0] or (np.diff(own) <= 0).any():
            return None
        begins = np.flatnonzero(keys)
        begins = begins[np.argsort(times[begins], kind="stable")]
        starts = begins[np.searchsorted(times[begins], own, side="right") - 1]
        return cls(own, packets, np.where(starts > packets, 0, starts))

    def __len__(self) -> int:
        return len(self.times)

    def runs(self, numbers: I64) -> list[range]:
        """The packets to decode for these frames, in runs that each begin at a keyframe."""
        runs: list[range] = []
        for start in np.unique(self.starts[numbers]).tolist():
            last = int(self.packets[numbers[self.starts[numbers] == start]].max()) + 1
            if runs and start <= runs[-1].stop:
                runs[-1] = range(runs[-1].start, max(runs[-1].stop, last))
            else:
                runs.append(range(start, last))
        return runs


def choose(elements: slice | I64, count: int) -> I64:
    """Numbers of the chosen elements of a value that has so many.

    Raises:
        IndexError: There is no such element.
    """
    if isinstance(elements, slice):
        return np.arange(*elements.indices(count), dtype=np.int64)
    numbers = np.where(elements < 0, elements + count, elements)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= count):
        raise IndexError(f"there are {count} frames; asked for {elements.tolist()}")
    return numbers
