from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bushel.codecs import get_codec, video
from bushel.errors import CodecError, MissingPackageError


def clip() -> npt.NDArray[np.uint8]:
    """Five frames of 32x48, the left half getting brighter."""
    frames = np.zeros((5, 32, 48, 3), np.uint8)
    frames[:, :, :24] = np.arange(50, 250, 40, dtype=np.uint8)[:, None, None, None]
    return frames


@pytest.mark.parametrize(("name", "rate"), [("mp4", 20), ("webm", 20), ("mp4(5)", 5), ("clip", 20)])
def test_round_trip(name: str, rate: int) -> None:
    av = pytest.importorskip("av")
    stored = get_codec(name).encode(clip())
    found = get_codec(name).decode(memoryview(stored))
    assert (found.shape, found.dtype) == (clip().shape, np.uint8)
    assert np.abs(found.astype(int) - clip()).mean() < 4
    with av.open(io.BytesIO(stored)) as source:
        stream = source.streams.video[0]
        assert (stream.average_rate, stream.codec_context.pix_fmt) == (rate, "yuv420p")
        assert stream.codec_context.name in ("h264", "vp9", "libvpx-vp9")


@pytest.mark.parametrize(
    "value",
    [clip()[:, :31], clip()[:, :, :47], clip()[:0], clip()[0], clip().astype(float), clip()[..., :1], "text"],
)
def test_values_that_do_not_encode(value: Any) -> None:
    pytest.importorskip("av")
    with pytest.raises(CodecError, match="TxHxWx3|even height and width"):
        get_codec("mp4").encode(value)


@pytest.mark.parametrize("data", [b"", b"nonsense", b"#EXTM3U\n#EXTINF:1,\n/etc/hostname\n"])
@pytest.mark.parametrize("name", ["mp4", "webm"])
def test_bytes_that_do_not_decode(name: str, data: bytes) -> None:
    pytest.importorskip("av")
    with pytest.raises(CodecError, match=f"codec '{name}' expected a {name} clip"):
        get_codec(name).decode(data)


def test_a_clip_cut_short() -> None:
    pytest.importorskip("av")
    stored = bytes(get_codec("mp4").encode(clip()))
    with pytest.raises(CodecError):
        get_codec("mp4").decode(stored[: len(stored) // 2])


def test_decoded_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av")
    stored = get_codec("mp4").encode(clip())
    monkeypatch.setattr(video, "MAX_DECODED", 3 * 32 * 48 * 3)
    with pytest.raises(CodecError, match="at most 13824 bytes of frames"):
        get_codec("mp4").decode(stored)


def test_without_pyav_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    for call in (get_codec("mp4").encode, get_codec("mp4").decode):
        with pytest.raises(MissingPackageError, match=r"pip install 'bushel\[video\]'"):
            call(b"")
