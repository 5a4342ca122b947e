"""The frames of a camera as values of a block file: the decoder's configuration, then the packets that are needed.

Pure: no I/O. `codecs.clip_parts` describes the parts of a value. Packets of all videos of a camera
are numbered together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from bushel._index.clip_frames import ClipFrames
from bushel._runtime.arrays import F64, I64, U8, joined, offsets_of
from bushel.codecs.clip_parts import KEYFRAME, PACKET, SHOWN, ClipPackets, clip_config
from bushel.codecs.video import FrameTable
from bushel.storage import IN_TABLE, Blocks


class Video(Struct, frozen=True):
    """A video file of a camera."""

    file: int  # number of the file of the shard
    size: int  # its bytes
    packets: ClipPackets
    frames: FrameTable  # its frames in display order
    scale: int  # units of time in a second

    @classmethod
    def of(cls, file: int, size: int, packets: ClipPackets) -> Video | None:
        """Return the video with these packets; None if they do not determine the frames of a decoder."""
        if (config := clip_config(packets.config)) is None:
            return None
        flags = packets.flags
        frames = FrameTable.of(packets.times, (flags & SHOWN) != 0, (flags & KEYFRAME) != 0)
        if frames is None:
            return None
        return cls(file, size, packets, frames, config.time_base[1])

    def nearest(self, seconds: F64) -> tuple[I64, F64]:
        """Return the frame that is shown nearest to each time, and how many seconds it is away."""
        times = self.frames.times / self.scale
        after = np.minimum(times.searchsorted(seconds), len(times) - 1)
        before = np.maximum(after - 1, 0)
        frame = np.where(seconds - times[before] <= times[after] - seconds, before, after)
        return frame, np.abs(times[frame] - seconds)


class Shots(Struct, frozen=True):
    """The frames of a camera that belong to rows."""

    videos: Sequence[Video]  # the videos that can be read
    packet: I64  # int64[rows], the packet of each one's frame; -1 without a frame
    start: I64  # int64[rows], the packet from which it is decoded
    away: F64  # float64[rows], seconds between the frame and the time of the row


def shots_of(videos: Sequence[Video], number: I64, seconds: F64, most: float) -> Shots:
    """Return the frames of a camera that are shown nearest to some times.

    Args:
        videos: The videos.
        number: int64[rows], the video of each row; -1 for a row without one.
        seconds: float64[rows], the time in that video.
        most: How many seconds a frame may be away.
    """
    packet, start = np.full(len(number), -1, np.int64), np.zeros(len(number), np.int64)
    away = np.zeros(len(number), np.float64)
    base = 0
    for which, video in enumerate(videos):
        rows = np.flatnonzero(number == which)
        frame, away[rows] = video.nearest(seconds[rows])
        last, first = video.frames.packets[frame], video.frames.starts[frame]
        offsets, lengths = video.packets.offsets, video.packets.lengths
        outside = offsets_of((offsets < 0) | (offsets > video.size - lengths))
        usable = (away[rows] <= most) & (outside[last + 1] == outside[first])
        packet[rows], start[rows] = np.where(usable, base + last, -1), base + first
        base += len(offsets)
    return Shots(videos, packet, start, away)


class Regions(Struct, frozen=True, dict=True):
    """Regions of a block file. Each is the configuration of a video, a table of packets, and these packets."""

    videos: Sequence[Video]
    first: I64  # int64[regions], the first packet of each region
    last: I64  # int64[regions], its last one; it is of the same video
    region: I64  # int64[frames], the region of each frame that is wanted
    packet: I64  # int64[frames], its packet

    @cached_property
    def before(self) -> I64:
        """int64[regions + 1], the number of packets in all regions before."""
        return offsets_of(self.last - self.first + 1)

    @cached_property
    def _video(self) -> I64:
        base = offsets_of(len(video.packets.offsets) for video in self.videos)
        return base.searchsorted(self.first, "right") - 1

    @cached_property
    def _region(self) -> I64:
        return np.repeat(np.arange(len(self.first)), np.diff(self.before))

    def _of_packets(self, name: str) -> I64:
        """Return one column of the packet tables for the packets in all regions, one after another."""
        every = np.concatenate(
            [np.zeros(0, np.int64), *(getattr(video.packets, name) for video in self.videos)]
        )
        return every[self._packet].astype(np.int64)

    @cached_property
    def _packet(self) -> I64:
        return np.arange(int(self.before[-1])) + (self.first - self.before[:-1])[self._region]

    @cached_property
    def _flags(self) -> I64:
        flags: I64 = self._of_packets("flags") & ~np.int64(SHOWN)
        flags[self._place] |= SHOWN
        return flags

    @cached_property
    def _place(self) -> I64:
        """int64[frames], the place of each frame's packet among those in all regions."""
        return self.before[self.region] + self.packet - self.first[self.region]

    @cached_property
    def _configs(self) -> list[bytes]:
        return [video.packets.config for video in self.videos]

    @cached_property
    def _config_ends(self) -> I64:
        """Where the configurations end in the table; each follows its length."""
        return offsets_of(4 + len(config) for config in self._configs)

    @cached_property
    def _head(self) -> I64:
        """Bytes of each region before its packets."""
        configs: I64 = np.diff(self._config_ends)[self._video]
        tables: I64 = 4 + PACKET.itemsize * np.diff(self.before)
        return configs + tables

    @cached_property
    def _ends(self) -> I64:
        """Where each packet ends in its region."""
        ends = offsets_of(self._of_packets("lengths"))
        begin: I64 = ends[self.before[:-1]] - self._head
        ends_in_region: I64 = ends[1:] - begin[self._region]
        return ends_in_region

    def lengths(self) -> I64:
        """Return int64[frames], the bytes of each frame's region up to the end of its packet."""
        return self._ends[self._place]

    def blocks(self) -> tuple[Blocks, I64]:
        """Return the block file, and int64[regions], where each region begins in it."""
        at, size = self._of_packets("offsets"), self._of_packets("lengths")
        begins = np.ones(len(at), np.bool_)
        begins[1:] = (np.diff(self._region) > 0) | (at[1:] != at[:-1] + size[:-1])
        run = np.flatnonzero(begins)  # packets that follow each other in a video are one block
        runs = np.bincount(self._region[run], minlength=len(self.first))
        config_block = np.cumsum(runs + 2) - runs - 2  # the block of each region's configuration
        total = 2 * len(config_block) + len(run)
        file, offset, length = (
            np.full(total, IN_TABLE, np.int32),
            np.zeros(total, np.int64),
            np.zeros(total, np.int64),
        )
        offset[config_block], length[config_block] = (
            self._config_ends[self._video],
            np.diff(self._config_ends)[self._video],
        )
        tables = 4 + PACKET.itemsize * np.diff(self.before)
        offset[config_block + 1], length[config_block + 1] = (
            self._config_ends[-1] + np.cumsum(tables) - tables,
            tables,
        )
        rest = np.ones(total, np.bool_)
        rest[config_block] = rest[config_block + 1] = False
        files = np.array([video.file for video in self.videos], np.int32)
        file[rest], offset[rest] = files[self._video[self._region[run]]], at[run]
        length[rest] = np.add.reduceat(size, run) if len(run) else 0
        configs = b"".join(len(config).to_bytes(4, "little") + config for config in self._configs)
        table = np.concatenate([np.frombuffer(configs, np.uint8), self._tables()])
        blocks = Blocks.of(offset, length, file=file, held=table)
        return blocks, blocks.start[config_block]

    def _tables(self) -> U8:
        """Return the tables of packets, one after another: their number, and what `PACKET` has of each."""
        count, words = np.diff(self.before), PACKET.itemsize // 4
        words_of_tables = np.zeros(len(count) + words * len(self._packet), "<u4")
        words_of_tables[words * self.before[:-1] + np.arange(len(count))] = count
        at = words * np.arange(len(self._packet)) + self._region + 1
        time = self._of_packets("times")
        words_of_tables[at], words_of_tables[at + 1] = self._of_packets("lengths"), self._flags
        words_of_tables[at + 2], words_of_tables[at + 3] = (
            time & 0xFFFFFFFF,
            time >> 32 & 0xFFFFFFFF,
        )
        return words_of_tables.view(np.uint8)

    def frames(self) -> ClipFrames | None:
        """Return where the packets are in the regions, for reading some of them; None if a region is too large."""
        if int(self._ends.max(initial=0)) >= 1 << 32:
            return None
        lengths = self._of_packets("lengths")
        return ClipFrames(
            self.before,
            (self._ends - lengths).astype(np.uint32),
            lengths.astype(np.uint32),
            self._of_packets("times"),
            self._flags.astype(np.uint8),
            self._video.astype(np.uint32),
            *joined(self._configs),
        )
