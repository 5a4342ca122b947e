"""Sound: WAV by NumPy, FLAC and MP3 by libsndfile, the rest by PyAV (`pip install 'bushel[audio]'`).

Without soundfile, which brings libsndfile, PyAV decodes FLAC and MP3, too. It finds the same
frames: FLAC is equal, MP3 differs by 2e-6 at most.

Files are stored unchanged. A decoded value is float32[frames, channels], where a frame is one
number per channel; `sample_rate` is the number of frames in a second.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from bushel._kinds import SOUNDS, kind_of
from bushel._runtime.arrays import F32, F64, I64
from bushel.codecs.base import Buffer, Codec, Factory, Ranged, codec_error, describe, found_bytes
from bushel.codecs.frames import choose
from bushel.codecs.libsndfile import flac_frames, flac_frames_of
from bushel.codecs.mp3_parts import Mp3Outline
from bushel.codecs.resampled import resampled, resampled_count, resampled_part
from bushel.codecs.video import MAX_DECODED, reason
from bushel.codecs.wav_parts import WavOutline
from bushel.errors import CodecError, SpecError, needed_by

Sound = F32

_BY_PACKET = ("mp3", "mp3float", "vorbis")
"""FFmpeg's decoders whose frames depend only on a few earlier packets, so that decoding may start at any packet."""
# bytes before a packet of MP3 from which its frames may be made (ISO 11172-3, main_data_begin)
_RESERVOIR = 511
_SIDE = {(True, 2): 32, (True, 1): 17, (False, 2): 17, (False, 1): 9}
"""Bytes of side information in an MP3 packet: of MPEG-1 or not, and by the number of channels."""
_MPEG1 = 32000  # the lowest sample rate of MPEG-1 audio; MPEG-2 has the lower ones
_OVERLAP = 3  # earlier packets whose frames overlap with the needed ones, and one more to be safe
_ENCODERS: Mapping[str, str] = {"wav": "pcm_s16le", "flac": "flac"}
_LAYOUTS = {1: "mono", 2: "stereo"}
ANY = "audio"
"""The codec of sounds of any of these formats, and of MP4."""


def _pyav(codec: str) -> Any:
    """Return the package `av`. Raise MissingPackageError if PyAV is not installed."""
    with needed_by(f"codec {codec!r}", "bushel[audio]"):
        import av
    return av


def sample_rate(data: Buffer, codec: str = "audio") -> int:
    """Return the number of frames per second of an encoded sound.

    Raises:
        CodecError: The bytes are not a sound.
        SpecError: PyAV is not installed, and the sound is not a WAV file.
    """
    container = _format_of(codec, data)
    outline = None
    if container == "wav":
        outline = _read_outline(container, data, slice(0, 0))
    if isinstance(outline, WavOutline) and outline.rate:
        return outline.rate
    with _Sound(codec, container, data) as sound:
        return sound.rate


def _format_of(codec: str, data: Buffer) -> str:
    """Return FFmpeg's name of the format; FFmpeg's own detection also accepts playlists, which open other files."""
    kind = kind_of(data, sound=True)
    if kind not in SOUNDS:
        raise codec_error(codec, "a sound (WAV, FLAC, MP3, Ogg, MP4)", found_bytes(data))
    return "mp4" if kind == "m4a" else kind


class _OutOfRangeError(IndexError):
    """A requested frame does not exist. PyAV raises `IndexError` for files that it cannot read."""


def _chosen(elements: slice | I64, count: int) -> I64:
    try:
        return choose(elements, count, "a sound", "frames")
    except IndexError as error:
        raise _OutOfRangeError(*error.args) from None


class _Sound:
    """An open sound. Every error of PyAV in its block becomes a `CodecError`."""

    def __init__(self, codec: str, container: str, data: Buffer) -> None:
        self._av, self._codec, self._container, self._data = _pyav(codec), codec, container, data

    def __enter__(self) -> _Sound:
        try:
            self._source = self._av.open(io.BytesIO(self._data), format=self._container)
            self._stream = self._source.streams.audio[0]
            # decoding many sounds at once uses processors better
            self._stream.codec_context.thread_count = 1
            self.rate, self.channels = int(self._stream.rate), int(self._stream.channels)
            if self.rate < 1 or self.channels < 1:
                raise ValueError("no sample rate or no channels")  # noqa: TRY301 - reported as every error here
        except (
            Exception
        ) as error:  # beside FFmpeg's errors, PyAV raises IndexError, ValueError, TypeError …
            raise self._failed(error) from error
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._source.close()
        if isinstance(error, Exception) and not isinstance(error, CodecError | _OutOfRangeError):
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> CodecError:
        description = f"{found_bytes(self._data)} ({reason(error)})"
        return codec_error(self._codec, f"a complete sound ({self._container})", description)

    @property
    def length(self) -> int | None:
        """Number of frames if the header of a WAV or FLAC file has it, else None."""
        stream = self._stream
        if (
            self._container not in ("wav", "flac")
            or not stream.duration
            or stream.time_base is None
        ):
            return None
        frames = stream.duration * stream.time_base * self.rate
        if frames.denominator == 1:
            return int(frames)
        return None

    def packets(self) -> list[Any]:
        """Return the packets of the sound; an empty list if decoding has to start with the first one of them."""
        if self._stream.codec_context.name not in _BY_PACKET:
            return []
        packets = [packet for packet in self._source.demux(self._stream) if packet.size]
        times, durations = (
            [packet.pts for packet in packets],
            [packet.duration for packet in packets],
        )
        if None in times or not all(durations):
            return []
        begins = np.array(times, np.int64)
        if np.array_equal(begins[:-1] + durations[:-1], begins[1:]):
            return packets
        return []

    def numbers(self, packets: Sequence[Any]) -> F64:
        """Return the number of the first frame of each packet, counted as `parts` does."""
        frames = self._stream.time_base * self.rate
        numbers: F64 = (
            np.array([packet.pts for packet in packets]) * frames.numerator / frames.denominator
        )
        return numbers

    def parts(self, packets: Iterable[Any] | None = None) -> Iterator[tuple[int | None, Sound]]:
        """Decode to the end, or some packets: the number of the first frame of each part, float32[frames, channels]."""
        resampler = self._av.AudioResampler(
            format="flt", layout=self._stream.layout, rate=self.rate
        )
        total = 0
        context = self._stream.codec_context
        source = self._source
        if packets is None:
            frames = source.decode(self._stream)
        else:
            frames = chain.from_iterable(map(context.decode, packets))
        for frame in frames:
            if frame.pts is None:
                first = None
            else:
                first = round(frame.pts * frame.time_base * self.rate)
            for converted in resampler.resample(frame):
                part = converted.to_ndarray().reshape(-1, self.channels)
                total += part.nbytes
                if total > MAX_DECODED:
                    raise codec_error(
                        self._codec, f"at most {MAX_DECODED} bytes of decoded sound", "more"
                    )
                yield first, part
                first = None if first is None else first + len(part)


def decode_sound(codec: str, container: str, data: Buffer) -> Sound:
    """Decode a whole sound: float32[frames, channels].

    Raises:
        CodecError: The bytes are not a sound of this format.
        SpecError: PyAV is not installed, and neither NumPy nor libsndfile decodes the sound.
    """
    sound = _decode_part(codec, container, data, slice(None))
    if sound is None:
        return decode_by_pyav(codec, container, data)
    return sound


def _is_empty_flac(data: Buffer) -> bool:
    """Return whether a file ends with its metadata: it is a sound without frames, and not a damaged one."""
    view, at, last = memoryview(data), 4, False
    while not last and at + 4 <= len(view):
        last = view[at] >= 0x80
        at += 4 + int.from_bytes(view[at + 1 : at + 4])
    return last and at == len(view)


def decode_by_pyav(codec: str, container: str, data: Buffer) -> Sound:
    """Decode a whole sound by PyAV: float32[frames, channels].

    Raises:
        CodecError: The bytes are not a sound of this format.
        SpecError: PyAV is not installed.
    """
    with _Sound(codec, container, data) as sound:
        parts = [part for _, part in sound.parts()]
        if not parts and not (container == "flac" and _is_empty_flac(data)):
            raise codec_error(
                codec, f"a complete sound ({container})", f"{found_bytes(data)} without a frame"
            )
        if parts:
            return np.concatenate(parts)
        return np.zeros((0, sound.channels), np.float32)


_OUTLINES: Mapping[str, Callable[[int], WavOutline | Mp3Outline]] = {
    "wav": WavOutline,
    "mp3": Mp3Outline,
}


def _read_outline(
    container: str, data: Buffer, elements: slice | I64
) -> WavOutline | Mp3Outline | None:
    """Return the outline of a sound in memory, which knows where some frames are, or that they cannot be found."""
    if (make := _OUTLINES.get(container)) is None:
        return None
    outline, view = make(len(data)), memoryview(data)
    while (extent := outline.probe(elements)) is not None:
        offset, length = extent
        outline.learn(offset, bytes(view[offset : offset + length]))
    return outline


def _decode_part(codec: str, container: str, data: Buffer, elements: slice | I64) -> Sound | None:
    """Decode only some frames of a sound in memory; None if it has to be decoded whole."""
    if container == "flac":
        return flac_frames_of(codec, data, elements)
    outline = _read_outline(container, data, elements)
    part = None if outline is None else outline.part(elements)
    if part is None:
        return None
    view = memoryview(data)
    extents = zip(part.offsets.tolist(), part.lengths.tolist(), strict=True)
    return part.read([view[offset : offset + length] for offset, length in extents]).decode(codec)


def _decode_some(codec: str, container: str, data: Buffer, elements: slice | I64) -> Sound:
    """Decode frames. Those before the first and after the last of them are not decoded if possible."""
    sound = _decode_part(codec, container, data, elements)
    if sound is None and container in ("mp3", "ogg"):
        sound = _decode_packets(codec, container, data, elements)
    if sound is None:
        whole = decode_sound(codec, container, data)
        sound = whole[_chosen(elements, len(whole))]
    return sound


def _decode_packets(
    codec: str, container: str, data: Buffer, elements: slice | I64
) -> Sound | None:
    """Decode the packets that frames of MP3 or Vorbis need; None if the sound has to be decoded whole."""
    # decoding the whole raises it again
    with suppress(CodecError), _Sound(codec, container, data) as sound:
        packets = sound.packets()
        if (span := _span(sound, packets)) is None:
            return None
        begin, end = span
        numbers = _chosen(elements, end - begin)
        if not len(numbers):
            return np.zeros((0, sound.channels), np.float32)
        first, last = int(numbers.min()), int(numbers.max()) + 1
        starts = sound.numbers(packets)
        needed = max(0, int(np.searchsorted(starts, first + begin, side="right")) - 1)
        needed_packets = packets[
            _first_needed(sound, packets, needed) : int(np.searchsorted(starts, last + begin)) + 1
        ]
        if (frames := _between(sound, first + begin, last + begin, needed_packets)) is not None:
            return frames[numbers - first]
    return None


def _packet_count(codec: str, container: str, data: Buffer) -> int | None:
    with suppress(CodecError), _Sound(codec, container, data) as sound:
        span = _span(sound, sound.packets())
        if span is None:
            return None
        return span[1] - span[0]
    return None


def _span(sound: _Sound, packets: Sequence[Any]) -> tuple[int, int] | None:
    """Return the numbers of the first frame and after the last one; None if they are not known."""
    begin, end = next((start for start, part in sound.parts(packets) if len(part)), None), None
    for start, part in sound.parts(packets[_first_needed(sound, packets, len(packets) - 1) :]):
        end = None if start is None else start + len(part)
    if begin is None or end is None:
        return None
    return begin, end


def _first_needed(sound: _Sound, packets: Sequence[Any], number: int) -> int:
    """Return the number of the packet with which decoding has to start, so that the frames of another one are right."""
    reservoir, header = 0, 6 + _SIDE.get((sound.rate >= _MPEG1, sound.channels), 32)
    for first in range(number - _OVERLAP, 0, -1):
        reservoir += max(1, packets[first].size - header)
        if reservoir >= _RESERVOIR:
            return first
    return 0


def _between(sound: _Sound, first: int, last: int, packets: Sequence[Any]) -> Sound | None:
    """Decode some neighbouring frames; None if the packets of the sound have no positions."""
    out = np.empty((last - first, sound.channels), np.float32)
    filled = first
    for start, part in sound.parts(packets):
        if start is None or start > filled:
            return None
        skipped = filled - start
        if skipped < len(part):
            unread = part[skipped : skipped + last - filled]
            out[filled - first : filled - first + len(unread)] = unread
            filled += len(unread)
        if filled >= last:
            return out
    return None


def _count(codec: str, container: str, data: Buffer) -> int:
    if (
        outline := _read_outline(container, data, slice(0, 0))
    ) is not None and outline.count is not None:
        return outline.count
    with _Sound(codec, container, data) as sound:
        length = sound.length
    if length is None and container in ("mp3", "ogg"):
        length = _packet_count(codec, container, data)
    if length is None:
        return len(decode_sound(codec, container, data))
    return length


def _encode(codec: str, container: str, rate: int | None, value: Any) -> bytes:
    if rate is None:
        how = "arrays are encoded by wav and flac"
        if container in _ENCODERS:
            how = f"{container}(16000) encodes arrays"
        raise codec_error(codec, f"the bytes of a file ({how})", describe(value))
    sound = np.asarray(value)
    if sound.ndim == 1:
        sound = sound[:, None]
    if (
        sound.ndim != 2
        or sound.shape[1] not in _LAYOUTS
        or sound.dtype not in (np.float32, np.float64, np.int16)
    ):
        raise codec_error(
            codec,
            "an array of frames or frames x 1 or 2 channels, float32 or int16",
            describe(value),
        )
    if sound.dtype != np.int16:
        if not np.isfinite(sound).all():
            raise codec_error(codec, "finite numbers", describe(value))
        sound = np.clip(np.rint(sound * 32768), -32768, 32767).astype(np.int16)
    av = _pyav(codec)
    stored = io.BytesIO()
    try:
        with av.open(stored, "w", format=container, options={"fflags": "+bitexact"}) as output:
            layout = _LAYOUTS[sound.shape[1]]
            stream = output.add_stream(
                _ENCODERS[container], rate=rate, options={"flags": "+bitexact"}
            )
            stream.codec_context.layout, stream.codec_context.format = layout, "s16"
            frame = av.AudioFrame.from_ndarray(
                np.ascontiguousarray(sound.reshape(1, -1)), format="s16", layout=layout
            )
            frame.sample_rate, frame.pts = rate, 0
            if len(sound):
                output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
    except (av.FFmpegError, ValueError) as error:
        raise codec_error(
            codec, "a sound that the encoder accepts", f"{describe(value)} ({error})"
        ) from error
    return stored.getvalue()


def _decode_at(name: str, rate: int, data: Buffer, elements: slice | I64 | None = None) -> Sound:
    """Decode frames of a sound of any format at a rate, or all."""
    container, source = _format_of(name, data), sample_rate(data, name)
    if source == rate or elements is None:
        whole = _decode_some(name, container, data, slice(None) if elements is None else elements)
        return resampled(_pyav(name), whole, source, rate)
    if isinstance(elements, slice) or (elements < 0).any():
        elements = _chosen(elements, _count_at(name, rate, data))
    decode = partial(_decode_some, name, container, data)
    return resampled_part(_pyav(name), decode, source, rate, elements)


def _count_at(name: str, rate: int, data: Buffer) -> int:
    count = _count(name, _format_of(name, data), data)
    return resampled_count(count, sample_rate(data, name), rate)


def rate_of(codec: str) -> int | None:
    """Return the frames in a second of all sounds of a codec: 16000 of `audio(16000)`; None if they may differ."""
    name, _, rate = codec.partition("(")
    if name == ANY and rate:
        return int(rate.rstrip(")"))
    return None


def _audio(name: str, arguments: str) -> Codec:
    """Return a codec of sounds; `wav(16000)` and `flac(16000)` also encode arrays at that rate.

    `audio(16000)` decodes sounds of any rate at that one.
    """
    container = name.partition("(")[0]
    rated = container in (*_ENCODERS, ANY)
    if arguments and not (rated and re.fullmatch("[1-9][0-9]{2,5}", arguments)):
        raise SpecError(
            f"codec {name!r}: the parameter must be the frames per second, as in 'audio(16000)' of"
            " decoded sounds, or 'wav(16000)' and 'flac(16000)' of arrays"
        )
    rate = int(arguments) if arguments else None
    encode = partial(_encode, name, container, None if container == ANY else rate)
    if container == ANY and rate is not None:
        decode_at = partial(_decode_at, name, rate)
        return Codec(name, encode, decode_at, Ranged(partial(_count_at, name, rate), decode_at))
    if container == ANY:
        ranged = Ranged(partial(_of_any, _count, name), partial(_of_any, _decode_some, name))
        return Codec(name, encode, partial(_of_any, decode_sound, name), ranged)
    ranged = Ranged(
        partial(_count, name, container),
        partial(_decode_some, name, container),
        in_file=partial(flac_frames, name) if container == "flac" else None,
        outline=_OUTLINES.get(container),
    )
    return Codec(name, encode, partial(decode_sound, name, container), ranged)


def _of_any(function: Callable[..., Any], name: str, data: Buffer, *elements: slice | I64) -> Any:
    """Call a function of one format with a sound, whose first bytes tell the format."""
    return function(name, _format_of(name, data), data, *elements)


FACTORIES: Mapping[str, Factory] = dict.fromkeys(("wav", "flac", "mp3", "ogg", ANY), _audio)
