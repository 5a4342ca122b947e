"""Sound: WAV by NumPy, FLAC and MP3 by libsndfile, the rest by PyAV (`pip install 'bushel[audio]'`).

Without soundfile, which brings libsndfile, PyAV decodes FLAC and MP3, too. It finds the same
frames: FLAC is equal, MP3 differs by 2e-6 at most. soundfile encodes arrays, too.

Files are stored unchanged. A decoded value is float32[frames, channels], where a frame is one
number per channel; `sample_rate` is the number of frames in a second.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from bushel._kinds import SOUNDS, kind_of
from bushel._runtime.arrays import F32, I64
from bushel.errors import SpecError, needed_by

from .base import (
    Buffer,
    Codec,
    Factory,
    Ranged,
    choose,
    codec_error,
    found_bytes,
    refused,
    refusing,
)
from .libsndfile import flac_frames, flac_frames_of
from .mp3_parts import Mp3Outline, size_of_tag
from .video import MAX_DECODED
from .wav_parts import WavOutline

Sound = F32

_ENCODED = ("wav", "flac")
_ALL = slice(None)
_MARGIN = 64
"""Frames before and after a part, at the lower one of both rates, that its frames may depend on."""
_AT_ONCE = 1 << 20  # frames that FFmpeg is given together
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
    with _opened(codec, container, data) as (_, stream):
        return int(stream.rate)


def _format_of(codec: str, data: Buffer) -> str:
    """Return FFmpeg's name of the format; FFmpeg's own detection also accepts playlists, which open other files.

    The first bytes tell it, after a tag. Where they do not, it is that of the codec.
    """
    base = codec.partition("(")[0]
    kind = kind_of(memoryview(data)[size_of_tag(data) :], sound=True)
    if kind not in SOUNDS and base != ANY:
        return base
    if kind not in SOUNDS:
        raise refused(codec, "a sound (WAV, FLAC, MP3, Ogg, MP4)", data)
    return "mp4" if kind == "m4a" else kind


@contextmanager
def _opened(codec: str, container: str, data: Buffer) -> Iterator[tuple[Any, Any]]:
    """Yield PyAV's container and stream of a sound. Every error of PyAV in the block becomes a `CodecError`."""
    av = _pyav(codec)
    with (
        refusing(codec, f"a complete sound ({container})", data),
        av.open(io.BytesIO(data), format=container) as source,
    ):
        stream = source.streams.audio[0]
        # decoding many sounds at once uses processors better
        stream.codec_context.thread_count = 1
        if stream.rate < 1 or stream.channels < 1:
            raise ValueError("no sample rate or no channels")
        yield source, stream


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
    with _opened(codec, container, data) as (source, stream):
        resampler = _pyav(codec).AudioResampler(
            format="flt", layout=stream.layout, rate=stream.rate
        )
        parts, total = [np.zeros((0, stream.channels), np.float32)], 0
        for frame in source.decode(stream):
            for converted in resampler.resample(frame):
                parts.append(converted.to_ndarray().reshape(-1, stream.channels))
                total += parts[-1].nbytes
                if total > MAX_DECODED:
                    raise codec_error(
                        codec, f"at most {MAX_DECODED} bytes of decoded sound", "more"
                    )
        if not total and not (container == "flac" and _is_empty_flac(data)):
            raise codec_error(
                codec, f"a complete sound ({container})", f"{found_bytes(data)} without a frame"
            )
        return np.concatenate(parts)


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
    if outline is None or (part := outline.part(elements)) is None:
        return None
    view = memoryview(data)
    extents = zip(part.offsets.tolist(), part.lengths.tolist(), strict=True)
    return part.read([view[offset : offset + length] for offset, length in extents]).decode(codec)


def _decode(codec: str, data: Buffer, elements: slice | I64 = _ALL) -> Sound:
    """Decode frames: float32[frames, channels]. Others before and after them are not decoded if possible.

    Raises:
        CodecError: The bytes are not a sound.
        SpecError: PyAV is not installed, and neither NumPy nor libsndfile decodes the sound.
    """
    container = _format_of(codec, data)
    sound = _decode_part(codec, container, data, elements)
    if sound is not None:
        return sound
    if elements is _ALL:
        return decode_by_pyav(codec, container, data)
    whole = _decode(codec, data)
    return whole[choose(elements, len(whole), "a sound", "frames")]


def _count(codec: str, data: Buffer) -> int:
    container = _format_of(codec, data)
    outline = _read_outline(container, data, slice(0, 0))
    if outline is not None and outline.count is not None:
        return outline.count
    if container in ("wav", "flac"):  # whose headers may have it
        with _opened(codec, container, data) as (_, stream):
            frames = (stream.duration or 0) * (stream.time_base or 0) * stream.rate
        if frames and frames.denominator == 1:
            return int(frames)
    return len(_decode(codec, data))


def _encode(codec: str, container: str, rate: int | None, value: Any) -> bytes:
    if rate is None:
        how = "arrays are encoded by wav and flac"
        if container in _ENCODED:
            how = f"{container}(16000) encodes arrays"
        raise refused(codec, f"the bytes of a file ({how})", value)
    sound = np.asarray(value)
    if sound.ndim == 1:
        sound = sound[:, None]
    if (
        sound.ndim != 2
        or sound.shape[1] not in (1, 2)
        or sound.dtype not in (np.float32, np.float64, np.int16)
    ):
        raise refused(
            codec, "an array of frames or frames x 1 or 2 channels, float32 or int16", value
        )
    if sound.dtype != np.int16:
        if not np.isfinite(sound).all():
            raise refused(codec, "finite numbers", value)
        sound = np.clip(np.rint(sound * 32768), -32768, 32767).astype(np.int16)
    if container == "flac" and not len(sound):
        # libsndfile writes nothing: only STREAMINFO (RFC 9639, section 8.2), of no samples
        form: int = rate << 44 | (sound.shape[1] - 1) << 41 | 15 << 36
        return b"fLaC\x80\0\0\x22\x10\0\x10\0" + bytes(6) + form.to_bytes(8) + bytes(16)
    with needed_by(f"encoding of {codec!r}", "bushel[audio]"):
        import soundfile
    stored = io.BytesIO()
    with refusing(codec, "a sound that the encoder accepts", value):
        soundfile.write(stored, sound, rate, format=container, subtype="PCM_16")
    return stored.getvalue()


def resampled_count(count: int, source: int, rate: int) -> int:
    """Return the number of frames of a sound of `count` frames at rate `source`, at another rate."""
    return -(-count * rate // source)


def resampled_part(
    av: Any, decode: Callable[[slice], F32], source: int, rate: int, numbers: I64
) -> F32:
    """Return frames of a sound at another rate: float32[frames, channels], as of the whole sound.

    Args:
        av: PyAV.
        decode: Decodes a range of the frames at the sound's own rate.
        source: That rate.
        rate: The other rate.
        numbers: int64[n], the frames at that rate, at least 0.

    Raises:
        IndexError: A frame is out of range.
    """
    # both grids meet at every `up`-th frame, so parts that begin there have the phase of the whole
    up, down = rate // math.gcd(rate, source), source // math.gcd(rate, source)
    margin = _MARGIN * -(-max(rate, source) // source)
    if len(numbers):
        first, stop = int(numbers.min()), int(numbers.max()) + 1
    else:
        first, stop = 0, 0
    begin = max(first - margin, 0) // up * up
    frames = decode(slice(begin // up * down, -(-(stop + margin) * down // up)))
    part = resampled(av, frames, source, rate)
    if begin + len(part) < stop:
        raise IndexError(f"a sound of {begin + len(part)} frames has no frames {numbers.tolist()}")
    return part[numbers - begin]


def resampled(av: Any, sound: F32, source: int, rate: int) -> F32:
    """Return a sound of float32[frames, channels] at another rate."""
    if source == rate or not len(sound):
        return sound
    # silence after the end, so that FFmpeg makes all frames
    silence = np.zeros((sound.shape[1], _MARGIN * -(-max(rate, source) // rate)), np.float32)
    channels = []
    for channel in np.concatenate([sound.T, silence], axis=1):
        resampler = av.AudioResampler(format="fltp", layout="mono", rate=rate)
        parts = []
        for begin in range(0, len(channel), _AT_ONCE):
            frame = av.AudioFrame.from_ndarray(
                channel[None, begin : begin + _AT_ONCE], format="fltp", layout="mono"
            )
            frame.sample_rate, frame.pts = source, begin
            parts += resampler.resample(frame)
        parts += resampler.resample(None)
        channels.append(np.concatenate([part.to_ndarray()[0] for part in parts]))
    return np.stack(channels, axis=1)[: resampled_count(len(sound), source, rate)]


def _decode_at(name: str, rate: int, data: Buffer, elements: slice | I64 = _ALL) -> Sound:
    """Decode frames of a sound of any format at a rate."""
    source = sample_rate(data, name)
    if source == rate or elements is _ALL:
        return resampled(_pyav(name), _decode(name, data, elements), source, rate)
    if isinstance(elements, slice) or (elements < 0).any():
        elements = choose(elements, _count_at(name, rate, data), "a sound", "frames")
    return resampled_part(_pyav(name), partial(_decode, name, data), source, rate, elements)


def _count_at(name: str, rate: int, data: Buffer) -> int:
    return resampled_count(_count(name, data), sample_rate(data, name), rate)


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
    rated = container in (*_ENCODED, ANY)
    if arguments and not (rated and re.fullmatch("[1-9][0-9]{2,5}", arguments)):
        raise SpecError(
            f"codec {name!r}: the parameter must be the frames per second, as in "
            "'audio(16000)' of decoded sounds, or 'wav(16000)' and 'flac(16000)' of arrays"
        )
    rate = int(arguments) if arguments else None
    encode = partial(_encode, name, container, None if container == ANY else rate)
    if container == ANY and rate is not None:
        decode_at = partial(_decode_at, name, rate)
        return Codec(name, encode, decode_at, Ranged(partial(_count_at, name, rate), decode_at))
    ranged = Ranged(
        partial(_count, name),
        partial(_decode, name),
        in_file=partial(flac_frames, name) if container == "flac" else None,
        outline=_OUTLINES.get(container),
    )
    return Codec(name, encode, partial(_decode, name), ranged)


FACTORIES: Mapping[str, Factory] = dict.fromkeys(("wav", "flac", "mp3", "ogg", ANY), _audio)
