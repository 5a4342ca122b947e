"""The frames of a camera as values of a block file: the decoder's configuration, then the packets that are needed.

Pure: no I/O. `codecs.clip_parts` describes the parts of a value. Packets of all videos of a camera
are numbered together.
"""

from __future__ import annotations

from collections.abc import Sequence

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


class Regions(Struct, frozen=True):
    """Regions of a block file. Each is the configuration of a video, a table of packets, and these packets."""

    blocks: Blocks  # the block file
    begin: I64  # int64[regions], where each region begins in it
    lengths: I64  # int64[frames], bytes of each frame's region up to the end of its packet
    before: I64  # int64[regions + 1], number of packets in all regions before
    ends: I64  # int64[packets], where each ends in its region
    sizes: I64  # int64[packets], bytes
    times: I64
    flags: I64
    video: I64  # int64[regions], the number of its video
    configs: list[bytes]  # of each video

    def frames(self) -> ClipFrames | None:
        """Return where the packets are in the regions, for reading some of them; None if a region is too large."""
        if int(self.ends.max(initial=0)) >= 1 << 32:
            return None
        return ClipFrames(
            self.before,
            (self.ends - self.sizes).astype(np.uint32),
            self.sizes.astype(np.uint32),
            self.times,
            self.flags.astype(np.uint8),
            self.video.astype(np.uint32),
            *joined(self.configs),
        )


def regions_of(videos: Sequence[Video], first: I64, last: I64, region: I64, packet: I64) -> Regions:
    """Return the regions with some packets.

    Args:
        videos: The videos.
        first: int64[regions], the first packet of each region.
        last: int64[regions], its last one; it is of the same video.
        region: int64[frames], the region of each frame that is wanted.
        packet: int64[frames], its packet.
    """
    counts = last - first + 1
    before = offsets_of(counts)
    region_of_packet = np.repeat(np.arange(len(first)), counts)
    chosen = np.arange(int(before[-1])) + (first - before[:-1])[region_of_packet]
    at, sizes, times, flags = (
        np.concatenate(
            [np.zeros(0, np.int64), *(getattr(video.packets, name) for video in videos)]
        )[chosen].astype(np.int64)
        for name in ("offsets", "lengths", "times", "flags")
    )
    place = before[region] + packet - first[region]
    flags &= ~np.int64(SHOWN)
    flags[place] |= SHOWN
    number = offsets_of(len(video.packets.offsets) for video in videos).searchsorted(first, "right")
    video = number - 1
    configs = [video.packets.config for video in videos]
    config_ends = offsets_of(4 + len(config) for config in configs)  # each follows its length
    config_sizes = np.diff(config_ends)[video]
    tables = 4 + PACKET.itemsize * counts
    ends = offsets_of(sizes)
    ends_in_region = ends[1:] - (ends[before[:-1]] - config_sizes - tables)[region_of_packet]
    begins = np.ones(len(at), np.bool_)
    begins[1:] = (np.diff(region_of_packet) > 0) | (at[1:] != at[:-1] + sizes[:-1])
    run = np.flatnonzero(begins)  # packets that follow each other in a video are one block
    runs = np.bincount(region_of_packet[run], minlength=len(first))
    config_block = np.cumsum(runs + 2) - runs - 2  # the block of each region's configuration
    total = 2 * len(config_block) + len(run)
    file = np.full(total, IN_TABLE, np.int32)
    offset, length = np.zeros(total, np.int64), np.zeros(total, np.int64)
    offset[config_block], length[config_block] = config_ends[video], config_sizes
    offset[config_block + 1] = config_ends[-1] + np.cumsum(tables) - tables
    length[config_block + 1] = tables
    rest = np.ones(total, np.bool_)
    rest[config_block] = rest[config_block + 1] = False
    files = np.array([video.file for video in videos], np.int32)
    file[rest], offset[rest] = files[video[region_of_packet[run]]], at[run]
    length[rest] = np.add.reduceat(sizes, run) if len(run) else 0
    held = b"".join(len(config).to_bytes(4, "little") + config for config in configs)
    table = _packet_tables(counts, region_of_packet, sizes, flags, times)
    held_bytes = np.concatenate([np.frombuffer(held, np.uint8), table])
    blocks = Blocks.of(offset, length, file=file, held=held_bytes)
    return Regions(
        blocks,
        blocks.start[config_block],
        ends_in_region[place],
        before,
        ends_in_region,
        sizes,
        times,
        flags,
        video,
        configs,
    )


def _packet_tables(counts: I64, region: I64, sizes: I64, flags: I64, times: I64) -> U8:
    """Return the tables of packets, one after another: their number, and what `PACKET` has of each."""
    words = PACKET.itemsize // 4
    tables = np.zeros(len(counts) + words * len(region), "<u4")
    tables[words * (np.cumsum(counts) - counts) + np.arange(len(counts))] = counts
    at = words * np.arange(len(region)) + region + 1
    columns = sizes, flags, times & 0xFFFFFFFF, times >> 32 & 0xFFFFFFFF
    for place, column in enumerate(columns):
        tables[at + place] = column
    return tables.view(np.uint8)
