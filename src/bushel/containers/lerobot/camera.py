"""The frames of a camera as values of a block file: the packets that each frame needs, behind what a decoder must know.

Pure: no I/O. `codecs.video_frame` says what a value consists of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bushel.codecs.clip_parts import KEYFRAME, SHOWN, ClipPackets, clip_config
from bushel.codecs.frames import FrameTable
from bushel.codecs.video_frame import PACKET
from bushel.storage import IN_TABLE, Blocks

__all__ = ["Frames", "Video", "frames_at"]

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Video:
    """A video file of a camera.

    Attributes:
        file: Number of the file of the shard.
        size: Its bytes.
        packets: Its packets.
        frames: Its frames in display order.
        scale: Units of time in a second.
    """

    file: int
    size: int
    packets: ClipPackets
    frames: FrameTable
    scale: int

    @classmethod
    def of(cls, file: int, size: int, packets: ClipPackets) -> Video | None:
        """Return the video with these packets; None if they do not determine the frames of a decoder."""
        if (config := clip_config(packets.config)) is None:
            return None
        flags = packets.flags
        frames = FrameTable.of(packets.times, (flags & SHOWN) != 0, (flags & KEYFRAME) != 0)
        return None if frames is None else cls(file, size, packets, frames, config.time_base[1])

    def nearest(self, seconds: npt.NDArray[np.float64]) -> tuple[I64, npt.NDArray[np.float64]]:
        """Return the frame that is shown nearest to each time, and how many seconds it is away."""
        times = self.frames.times / self.scale
        after = np.minimum(times.searchsorted(seconds), len(times) - 1)
        before = np.maximum(after - 1, 0)
        frame = np.where(seconds - times[before] <= times[after] - seconds, before, after)
        return frame, np.abs(times[frame] - seconds)


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a camera, a value for each row.

    Attributes:
        blocks: The block file.
        offset: int64[rows], where each value begins.
        length: int64[rows], its bytes; -1 if the file ends before its packets.
        away: float64[rows], seconds between the frame and the time of the row.
    """

    blocks: Blocks
    offset: I64
    length: I64
    away: npt.NDArray[np.float64]


def frames_at(videos: Sequence[Video], number: I64, seconds: npt.NDArray[np.float64]) -> Frames:
    """Return the frames of a camera that are shown nearest to some times.

    All frames that are decoded from one keyframe form a region of the block file: the configuration of the video, the
    table of the region's packets, and the packets. The value of a frame is the region up to the end of its packet.

    Args:
        videos: The videos.
        number: int64[rows], the video of each row.
        seconds: float64[rows], the time in that video.
    """
    base = np.cumsum([0, *(len(one.packets.offsets) for one in videos)])
    packet, start = np.zeros(len(number), np.int64), np.zeros(len(number), np.int64)
    away = np.zeros(len(number), np.float64)
    for which, one in enumerate(videos):
        rows = np.flatnonzero(number == which)
        frame, away[rows] = one.nearest(seconds[rows])
        packet[rows], start[rows] = base[which] + one.frames.packets[frame], base[which] + one.frames.starts[frame]
    first, region = np.unique(start, return_inverse=True)
    last = first.copy()
    np.maximum.at(last, region, packet)
    regions = _Regions(videos, base, first, last)
    length = regions.length_to(region, packet)
    blocks, begin = regions.blocks()
    return Frames(blocks, begin[region], length, away)


class _Regions:
    """The regions of a block file. Packets of all videos are counted together.

    Args:
        videos: The videos.
        base: int64[videos + 1], the number of each one's first packet.
        first: int64[regions], the first packet of each region.
        last: int64[regions], the last one.
    """

    def __init__(self, videos: Sequence[Video], base: I64, first: I64, last: I64) -> None:
        packets = [one.packets for one in videos]
        offset, size = _joined([each.offsets for each in packets]), _joined([each.lengths for each in packets])
        times = _joined([each.times for each in packets])
        self.first, self.count = first, last - first + 1
        self.before = np.cumsum(self.count) - self.count
        self.region = np.repeat(np.arange(len(first)), self.count)
        packet = np.arange(int(self.count.sum())) + np.repeat(first - self.before, self.count)
        self.video = base.searchsorted(first, "right") - 1
        limit = np.array([one.size for one in videos] or [0], np.int64)[self.video][self.region]
        there = (offset[packet] >= 0) & (offset[packet] <= limit - size[packet])
        self.table = _table(self.count, self.before, size[packet], times[packet])
        self.offset, self.size = np.where(there, offset[packet], 0), np.where(there, size[packet], 0)
        self.lost = np.cumsum(~there)
        configs = [len(one.packets.config).to_bytes(4, "little") + one.packets.config for one in videos]
        self.config_ends = np.cumsum([0, *map(len, configs)], dtype=np.int64)
        self.configs = np.frombuffer(b"".join(configs), np.uint8)
        self.file = np.array([one.file for one in videos] or [0], np.int32)
        self.table_size = 4 + PACKET.itemsize * self.count
        self.head = np.diff(self.config_ends)[self.video] + self.table_size

    def length_to(self, region: I64, packet: I64) -> I64:
        """Return int64[n], the bytes of regions up to the end of packets in them; -1 if their file ends before."""
        if not len(region):
            return np.zeros(0, np.int64)
        place = self.before[region] + packet - self.first[region]
        begin = self.before[region]
        ends, lost = np.cumsum(self.size), np.concatenate([np.zeros(1, np.int64), self.lost])
        own: I64 = self.head[region] + ends[place] - ends[begin] + self.size[begin]
        return np.where(lost[place + 1] > lost[begin], -1, own)

    def blocks(self) -> tuple[Blocks, I64]:
        """Return the block file, and int64[regions], where each region begins in it."""
        begins = np.ones(len(self.offset), np.bool_)
        begins[1:] = (np.diff(self.region) > 0) | (self.offset[1:] != self.offset[:-1] + self.size[:-1])
        run = np.flatnonzero(begins)
        runs = np.bincount(self.region[run], minlength=len(self.first))
        own = np.cumsum(runs + 2) - runs - 2  # the block of each region's configuration
        total = 2 * len(own) + len(run)
        file, offset, length = np.full(total, IN_TABLE, np.int32), np.zeros(total, np.int64), np.zeros(total, np.int64)
        offset[own], length[own] = self.config_ends[self.video], np.diff(self.config_ends)[self.video]
        offset[own + 1] = len(self.configs) + np.cumsum(self.table_size) - self.table_size
        length[own + 1] = self.table_size
        rest = np.ones(total, np.bool_)
        rest[own] = rest[own + 1] = False
        file[rest], offset[rest] = self.file[self.video[self.region[run]]], self.offset[run]
        length[rest] = np.add.reduceat(self.size, run) if len(run) else 0
        start = np.concatenate([np.zeros(1, np.int64), np.cumsum(length)])
        held = np.concatenate([self.configs, self.table])
        made = Blocks(start, file, offset, length, np.zeros(total, np.uint8), ("stored",), None, held)
        return made, start[own]


def _joined(parts: Sequence[I64]) -> I64:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _table(count: I64, before: I64, length: I64, time: I64) -> U8:
    """Return the tables of packets of all regions, one after another: their number, and length and time of each."""
    words = np.zeros(len(count) + len(length) * (PACKET.itemsize // 4), "<u4")
    region = np.repeat(np.arange(len(count)), count)
    words[3 * before + np.arange(len(count))] = count  # 3 words for each packet before
    at = 3 * np.arange(len(length)) + region + 1
    words[at] = length
    words[at + 1], words[at + 2] = time & 0xFFFFFFFF, time >> 32 & 0xFFFFFFFF
    return words.view(np.uint8)
