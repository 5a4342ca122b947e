"""Video clips, through PyAV (`pip install 'bushel[video]'`), and the packets that must be decoded for given frames.

The packets of a clip are in decoding order, and its frames are counted in display order. The two
differ where frames are predicted from later ones. Decoding can start at a keyframe. A frame that is
displayed before a keyframe but stored after it (in an open group of pictures) needs the keyframe
before that one.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._kinds import kind_of
from bushel._runtime.arrays import I64, Array, Bools
from bushel._runtime.messages import log_warning
from bushel._runtime.system import room_for
from bushel.errors import SpecError, needed_by
from bushel.kernels import yuv420_to_rgb

from .base import (
    Buffer,
    Codec,
    Factory,
    Ranged,
    choose,
    codec_error,
    refused,
    refusing,
)
from .depth import FORMAT, metres_of_codes


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


MAX_DECODED = 4 << 30
"""Limit in bytes of the decoded frames of one clip. A larger clip is rejected as a decompression bomb."""

Pixels = Array
"""uint8 of shape HxWx3; of a depth camera float32 of shape HxWx1, in metres. Frames have a first axis more."""

_INTRA = 1  # FFmpeg's AV_PICTURE_TYPE_I
_LIMITED = (0, 1)  # FFmpeg's AVCOL_RANGE_UNSPECIFIED and AVCOL_RANGE_MPEG
_MATRICES: Mapping[int, int] = {1: 709, 2: 601, 5: 601, 6: 601}  # by AVColorSpace; 2 is unspecified
ANY = "clip"
"""The codec of fields whose clips are of different formats; their first bytes tell which."""
_ENCODERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    # x264's AVX-512 code for macroblock-tree propagation reads uninitialized memory, so the bytes
    # of a clip would differ between processes. This option gives the bytes of the plain C code
    # everywhere.
    "mp4": ("libx264", {"x264-params": "cpu-independent=1"}),
    "webm": ("libvpx-vp9", {}),
}


def pyav(codec: str) -> Any:
    """Return the package `av`, which `codec` needs. Raise MissingPackageError if PyAV is not installed."""
    with needed_by(f"codec {codec!r}", "bushel[video]"):
        import av
        import av.video.reformatter
    return av


def _encode(codec: str, rate: int, value: Any) -> bytes:
    av, container = pyav(codec), "webm" if codec.startswith("webm") else "mp4"
    clip = np.asarray(value)
    if clip.dtype != np.uint8 or clip.ndim != 4 or clip.shape[3] != 3 or 0 in clip.shape:
        raise refused(codec, "a uint8 array of shape TxHxWx3", value)
    if clip.shape[1] % 2 or clip.shape[2] % 2:
        raise refused(codec, "an even height and width (chroma is stored at half size)", value)
    stored = io.BytesIO()
    errors = av.FFmpegError, ValueError
    with (
        refusing(codec, "a clip that the encoder accepts", value, *errors),
        av.open(stored, "w", format=container, options={"fflags": "+bitexact"}) as output,
    ):
        encoder, options = _ENCODERS[container]
        stream = output.add_stream(encoder, rate=rate, options=dict(options))
        # with several threads, bytes could differ from run to run
        stream.codec_context.thread_count = 1
        stream.height, stream.width, stream.pix_fmt = clip.shape[1], clip.shape[2], "yuv420p"
        for position, picture in enumerate(clip):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts = position
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return stored.getvalue()


def _explained(codec: str, data: Buffer) -> AbstractContextManager[None]:
    """Turn any error of PyAV into a `CodecError` that describes a clip.

    Beside FFmpeg's errors, PyAV raises its own IndexError, ValueError, TypeError … for invalid
    streams.
    """
    return refusing(codec, f"a {_format_of(codec, data)} clip with frames of one size", data)


def open_clip(codec: str, data: Buffer) -> Any:
    """Open a clip with PyAV."""
    av = pyav(codec)
    with _explained(codec, data):
        # The format is named because FFmpeg's detection also accepts playlists, which open other
        # files.
        source = av.open(io.BytesIO(data), format=_format_of(codec, data))
        # decoding many clips at once uses processors better
        source.streams.video[0].codec_context.thread_count = 1
        return source


def _format_of(codec: str, data: Buffer) -> str:
    base = codec.partition("(")[0]
    if base != ANY:
        return base
    return "webm" if kind_of(data) == "webm" else "mp4"


def _decode(codec: str, data: Buffer) -> Pixels:
    with open_clip(codec, data) as source, _explained(codec, data):
        pixels = _Pixels(codec)
        return np.stack([pixels(frame) for frame in source.decode(video=0)])


def _decode_some(codec: str, data: Buffer, elements: slice | I64) -> Pixels:
    """Decode the frames `elements`, from the keyframes before them."""
    with open_clip(codec, data) as source:
        with _explained(codec, data):
            table, packets = read_packets(source)
        if table is not None:
            numbers = choose(elements, len(table))
            stream = source.streams.video[0]
            if not len(numbers):
                return new_frames(codec, 0, stream.height, stream.width)
            runs = [(run, packets[run.start : run.stop]) for run in table.runs(numbers)]
            with _explained(codec, data):
                frames = decode_runs(codec, stream.codec_context, runs, table, numbers)
            if frames is not None:
                return frames
    whole = _decode(codec, data)
    return whole[choose(elements, len(whole))]


def decode_runs(
    codec: str,
    context: Any,
    runs: Iterable[tuple[range, Sequence[Any]]],
    table: FrameTable,
    numbers: I64,
) -> Pixels | None:
    """Decode these frames, at least one.

    Args:
        codec: Name of the codec.
        context: PyAV's decoder.
        runs: The runs of packets that `table.runs(numbers)` returned, each with PyAV's packets.
        table: The frames of the clip.
        numbers: int64[n], the frames.

    Returns:
        None if packets do not give these frames, for example because a keyframe is not a true one
        (some encoders use intra refresh).
    """
    times, convert = table.times[numbers], _Pixels(codec)
    # a frame that is requested twice is decoded once
    distinct, rows = np.unique(times, return_inverse=True)
    row_of = {time: row for row, time in enumerate(distinct.tolist())}
    frames: Pixels | None = None
    decoded_times = set[int]()
    for run, packets in runs:
        begun = run.start == 0
        for frame in _decoded(context, packets, row_of):
            whole = run.start == 0 or not frame.is_corrupt
            begun = begun or (
                whole and frame.pts == packets[0].pts and int(frame.pict_type) == _INTRA
            )
            if not whole or frame.pts not in row_of:
                continue
            if frames is None:
                frames = convert.array(len(distinct), frame)
            if frames.shape[1:3] != (frame.height, frame.width):
                return None
            convert.into(frame, frames[row_of[frame.pts]])
            decoded_times.add(frame.pts)
        if not begun:
            return None
    if frames is None or len(decoded_times) < len(distinct):
        return None
    if len(rows) == len(distinct) and (np.diff(rows) == 1).all():
        return frames
    return frames[rows]


def decode_last(codec: str, context: Any, packets: Sequence[Any]) -> Pixels | None:
    """Decode the frame of the last of PyAV's packets, which are in decoding order, from a keyframe on.

    Returns:
        None if the packets do not give this frame.
    """
    time = packets[-1].pts
    frames = [frame for frame in _decoded(context, packets, (time,)) if frame.pts == time]
    if frames:
        return _Pixels(codec)(frames[0])
    return None


def _count(codec: str, data: Buffer) -> int:
    with open_clip(codec, data) as source, _explained(codec, data):
        table, _ = read_packets(source)
    return len(_decode(codec, data) if table is None else table)


def read_packets(source: Any) -> tuple[FrameTable | None, list[Any]]:
    """Read the packets of the video in decoding order, without decoding them, and the table of its frames."""
    stream = source.streams.video[0]
    packets = [packet for packet in source.demux(stream) if packet.size]
    if not packets or any(packet.pts is None or packet.is_corrupt for packet in packets):
        return None, packets
    times = np.array([packet.pts for packet in packets], np.int64)
    shown = np.array([_is_shown(stream.codec_context.name, packet) for packet in packets], np.bool_)
    keys = np.array([packet.is_keyframe for packet in packets], np.bool_)
    return FrameTable.of(times, shown, keys), packets


def _is_shown(codec: str, packet: Any) -> bool:
    """Return whether a packet makes a frame: not if an edit list omits it, nor if it only serves prediction.

    The first byte of a VP8 frame (RFC 6386, 9.1) or of a VP9 frame (VP9 bitstream specification,
    6.2) that is not in a superframe identifies the latter.
    """
    if packet.is_discard:
        return False
    view = memoryview(packet)
    if codec in ("vp8", "libvpx"):
        return bool(view[0] & 0x10)
    if codec in ("vp9", "libvpx-vp9") and view[-1] & 0xE0 != 0xC0:
        head = view[0] << 1 if view[0] & 0x30 == 0x30 else view[0]  # profile 3 has a bit more
        return bool(head & 0x08 or head & 0x02)
    return True


def _decoded(context: Any, packets: Sequence[Any], times: Container[int]) -> Iterator[Any]:
    """Yield the frames that a decoder makes of these packets alone.

    Frames at other times than `times` are left out if no other frame is predicted from them, but
    not of AV1, whose decoder takes `skip_frame` once, for all packets.
    """
    leaves_out = context.codec.canonical_name != "av1"
    for packet in packets:
        if leaves_out:
            context.skip_frame = "DEFAULT" if packet.pts in times else "NONREF"
        yield from context.decode(packet)
    yield from context.decode(None)
    context.flush_buffers()


class _Pixels:
    """Converts the frames of a clip to arrays, with one set of conversion tables for all of them."""

    def __init__(self, codec: str) -> None:
        self._codec, self._total, self._metres = codec, 0, metres_of_codes(codec)
        av = pyav(codec)
        self._reformatter = av.video.reformatter.VideoReformatter()
        # since version 17, PyAV starts threads for each clip and wakes them for each frame, unless
        # this option says no
        if int(av.__version__.partition(".")[0]) >= 17:
            self._options = {"threads": 1}
        else:
            self._options = {}

    def __call__(self, frame: Any) -> Pixels:
        """Return a frame as an array."""
        pixels: Pixels = self.array(1, frame)[0]
        self.into(frame, pixels)
        return pixels

    def array(self, count: int, frame: Any) -> Pixels:
        """Return an array for a number of frames like this one."""
        return new_frames(self._codec, count, frame.height, frame.width)

    def into(self, frame: Any, out: Pixels) -> None:
        """Write a frame to an array of `new_frames`."""
        self._total += out.nbytes
        if self._total > MAX_DECODED:
            raise codec_error(self._codec, f"at most {MAX_DECODED} bytes of frames", "more")
        if self._metres is not None:
            codes = self._plane(frame, FORMAT, np.dtype("<u2"))[:, : frame.width]
            np.take(self._metres, codes, out=out[..., 0], mode="clip")
            return
        if (matrix := _matrix(frame)) is not None:
            luma, cb, cr = frame.planes
            if cb.line_size == cr.line_size:
                yuv420_to_rgb(luma, cb, cr, luma.line_size, cb.line_size, matrix, out)
                return
        say_narrowed(frame)
        rows = self._plane(frame, "rgb24", np.dtype(np.uint8))
        out[...] = rows[:, : frame.width * 3].reshape(out.shape)

    def _plane(self, frame: Any, pixel_format: str, dtype: np.dtype[Any]) -> Pixels:
        """Return the rows of a frame in a pixel format of one plane, with the padding after each row."""
        plane = self._reformatter.reformat(frame, format=pixel_format, **self._options).planes[0]
        return np.frombuffer(plane, dtype).reshape(frame.height, plane.line_size // dtype.itemsize)


def new_frames(codec: str, count: int, height: int, width: int) -> Pixels:
    """Return an array for frames of this size, with any contents.

    Raises:
        CodecError: It is larger than `MAX_DECODED`.
    """
    channels, kind = 3, "u1"
    if metres_of_codes(codec) is not None:
        channels, kind = 1, "f4"
    shape, dtype = (count, height, width, channels), np.dtype(kind)
    size = math.prod(shape) * dtype.itemsize
    if size > MAX_DECODED:
        raise codec_error(codec, f"at most {MAX_DECODED} bytes of frames", "more")
    return room_for(size).view(dtype).reshape(shape)


def say_narrowed(frame: Any) -> None:
    """Say, once for each pixel format, that RGB of 8 bits lacks something of a frame, such as bits or transparency."""
    if tuple(component.bits for component in frame.format.components) != (8, 8, 8):
        _say_format_narrowed(frame.format.name)


@lru_cache(maxsize=64)
def _say_format_narrowed(pixel_format: str) -> None:
    log_warning(
        "videos of pixel format %s are decoded to RGB of 8 bits: other bits of them are lost",
        pixel_format,
    )


def _matrix(frame: Any) -> int | None:
    """Return the matrix with which the kernel converts a frame as swscale does; None for frames that swscale converts.

    swscale interpolates the chroma of frames of odd height, and takes the fields of interlaced ones
    apart.
    """
    usual = (
        frame.format.name == "yuv420p" and frame.color_range in _LIMITED and frame.height % 2 == 0
    )
    if usual and not frame.interlaced_frame:
        return _MATRICES.get(int(frame.colorspace))
    return None


def _video(name: str, arguments: str) -> Codec:
    """Return codec `mp4` (H.264), `webm` (VP9) or `clip` (of either), at 20 frames per second; `mp4(25)` at 25."""
    if arguments and not re.fullmatch("[1-9][0-9]{0,2}", arguments):
        raise SpecError(
            f"codec {name!r}: the parameter must be a number of frames per second, as in 'mp4(25)'"
        )
    ranged = Ranged(partial(_count, name), partial(_decode_some, name))
    return Codec(name, partial(_encode, name, int(arguments or 20)), partial(_decode, name), ranged)


FACTORIES: Mapping[str, Factory] = dict.fromkeys(("mp4", "webm", ANY), _video)
