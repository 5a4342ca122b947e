"""The packets of a clip that must be decoded for given frames. Pure: packets are numbers and times here.

The packets of a clip are in decoding order, and its frames are counted in display order. The two
differ where frames are predicted from later ones. Decoding can start at a keyframe. A frame that is
displayed before a keyframe but stored after it (in an open group of pictures) needs the keyframe
before that one.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, Bools


class FrameTable(Struct, frozen=True):
    """The frames of a clip in display order."""

    times: I64  # int64[frames], ascending, in the clip's own unit
    packets: I64  # int64[frames], the packet of each frame; packets are counted in decoding order
    # int64[frames], the packet to start decoding from: the last keyframe displayed no later than
    # the frame
    starts: I64

    @classmethod
    def of(cls, times: I64, shown: Bools, keys: Bools) -> FrameTable | None:
        """Return the table of a clip.

        Args:
            times: int64[packets], display time of the frame of each packet.
            shown: bool[packets], whether the frame is displayed at all.
            keys: bool[packets], whether the packet is a keyframe.

        Returns:
            None if the packets do not determine the frames of a decoder: two have the same display
            time, or the first ones depend on something before them.
        """
        packets = np.flatnonzero(shown)
        packets = packets[np.argsort(times[packets], kind="stable")]
        shown_times = times[packets]
        if (
            not len(shown_times)
            or not keys[0]
            or shown_times[0] < times[0]
            or (np.diff(shown_times) <= 0).any()
        ):
            return None
        begins = np.flatnonzero(keys)
        begins = begins[np.argsort(times[begins], kind="stable")]
        starts = begins[np.searchsorted(times[begins], shown_times, side="right") - 1]
        return cls(shown_times, packets, np.where(starts > packets, 0, starts))

    def __len__(self) -> int:
        return len(self.times)

    def runs(self, numbers: I64) -> list[range]:
        """Return the packets to decode for these frames, in runs that each start at a keyframe."""
        runs: list[range] = []
        for start in np.unique(self.starts[numbers]).tolist():
            last = int(self.packets[numbers[self.starts[numbers] == start]].max()) + 1
            if runs and start <= runs[-1].stop:
                runs[-1] = range(runs[-1].start, max(runs[-1].stop, last))
            else:
                runs.append(range(start, last))
        return runs
