"""Parts of MP3 files: the samples of the whole, bit by bit, and the same frames as PyAV finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.counted import counted
from tests.codecs.sounds import compressed

import bushel
from bushel.codecs import get_codec
from bushel.codecs.audio import decode_by_pyav
from bushel.codecs.mp3_parts import Mp3Outline, _crc16, _Form
from bushel.kernels import mp3_frames

pytest.importorskip("av")
soundfile = pytest.importorskip("soundfile")

FORMS = [
    (44100, 2, 0),
    (44100, 1, 32000),
    (48000, 2, 320000),
    (32000, 2, 64000),
    (24000, 2, 24000),
    (22050, 1, 48000),
    (16000, 1, 8000),
    (8000, 1, 8000),
]


def tag_bytes(data: bytes) -> int:
    """Return the length of the ID3 tag at the start, which names the version of FFmpeg: below 128 bytes."""
    return 10 + data[9]


def outline_of(data: bytes) -> Mp3Outline:
    outline = Mp3Outline(len(data))
    assert outline.probe(slice(0, 1)) == (0, len(data))
    outline.learn(0, data)
    assert outline.probe(slice(0, 1)) is None
    return outline


def decoded(data: bytes, elements: Any) -> Any:
    """Decode a part from its own bytes alone."""
    part = outline_of(data).part(elements)
    assert part is not None
    own = [data[at : at + size] for at, size in zip(part.offsets.tolist(), part.lengths.tolist(), strict=True)]
    return part.read(own).decode("mp3")


def variants(data: bytes) -> dict[str, bytes]:
    """Return a file with other tags, and without what its encoder says about it."""
    tag = tag_bytes(data)
    offsets, _ = mp3_frames(data, tag, 1, 1)
    nameless = bytearray(data)
    at = data.index(b"Lavf", tag)
    nameless[at : at + 4] = b"none"
    return {
        "as it is": data,
        "no tag": data[tag:],
        "no information": data[int(offsets[1]) :],
        "a tag at the end": data + b"TAG" + bytes(125),
        "another encoder": bytes(nameless),
    }


@pytest.mark.parametrize(("rate", "channels", "bit_rate"), FORMS)
def test_samples_of_all_forms(rate: int, channels: int, bit_rate: int, capfd: pytest.CaptureFixture[str]) -> None:
    data = compressed("libmp3lame", rate, channels, bit_rate, seconds=4)
    whole = get_codec("mp3").decode(data)
    by_pyav = decode_by_pyav("mp3", "mp3", data)
    assert whole.shape == by_pyav.shape == (4 * rate, channels)
    assert np.abs(whole - by_pyav).max() < 2e-6
    rng = np.random.default_rng(1)
    parts: list[Any] = [slice(0, 1), slice(-1, None), slice(None), slice(None, None, 3000), slice(90, 90)]
    parts += [slice(first, first + 900) for first in rng.integers(0, len(whole), 40).tolist()]
    parts += [np.array([len(whole) - 1, 5, 5, -7]), np.arange(1000, 3000)]
    for part in parts:
        np.testing.assert_array_equal(decoded(data, part), whole[part])
    assert capfd.readouterr().err == ""  # libsndfile reports frames that lack bytes
    with pytest.raises(IndexError, match="a sound of"):
        outline_of(data).part(np.array([len(whole)]))


@pytest.mark.parametrize(("rate", "channels", "bit_rate"), [FORMS[0], FORMS[6]])
def test_frames_are_counted_as_by_pyav(rate: int, channels: int, bit_rate: int) -> None:
    for name, data in variants(compressed("libmp3lame", rate, channels, bit_rate)).items():
        whole, count = decode_by_pyav("mp3", "mp3", data), outline_of(data).count
        assert (name, count) == (name, len(whole))
        assert np.abs(get_codec("mp3").decode(data) - whole).max() < 2e-6
        part = slice(len(whole) // 2, len(whole) // 2 + 500)
        np.testing.assert_array_equal(decoded(data, part), get_codec("mp3").decode(data)[part])


def test_the_samples_of_libsndfile(tmp_path: Path) -> None:
    data = compressed("libmp3lame", 44100, 2)
    (tmp_path / "a.mp3").write_bytes(data)
    found, _ = soundfile.read(tmp_path / "a.mp3", dtype="float32")
    np.testing.assert_array_equal(get_codec("mp3").decode(data), found)


def test_files_that_are_left_to_pyav() -> None:
    data = compressed("libmp3lame", 44100, 2)
    tag = tag_bytes(data)
    offsets, count = mp3_frames(data, tag, 1, 1)
    at = int(offsets[20])
    others = {
        "empty": b"",
        "short": data[:30],
        "a tag only": data[:tag],
        "a long tag": b"ID3\4\0\0\x7f\x7f\x7f\x7f" + data,
        "a cut stream": data[int(offsets[9]) :],
        "an unfinished frame": data[:-7],
        "bytes between frames": data[:at] + b"x" * 50 + data[at:],
        "bytes after frames": data + b"garbage " * 9,
    }
    for name, each in others.items():
        outline = outline_of(each)
        assert (name, outline.count, outline.part(slice(0, 9))) == (name, None, None)


def test_the_number_of_frames_must_be_right() -> None:
    data = bytearray(compressed("libmp3lame", 44100, 2))
    data[data.index(b"Xing" if b"Xing" in data else b"Info") + 11] ^= 1
    assert outline_of(bytes(data)).count is None


def test_checksums_of_side_information() -> None:
    assert _crc16(b"123456789") == 0xAEE7  # the check value of CRC-16/CMS


def test_frames_that_lack_bytes_are_silent() -> None:
    data = compressed("libmp3lame", 16000, 1, 8000)
    tag = tag_bytes(data)
    offsets, _ = mp3_frames(data, tag, 1, 1)
    form = _Form.of(data[tag : tag + 4])
    own = data[int(offsets[20]) : int(offsets[80])]
    silent = form.without_reservoir(own)
    assert len(silent) == len(own)
    changed = np.flatnonzero(np.frombuffer(own, np.uint8) != np.frombuffer(silent, np.uint8))
    places = mp3_frames(own, 0, 1, 1)[0]
    frame = np.searchsorted(places, changed, side="right") - 1
    assert (changed - places[frame] < 4 + form.side).all()
    assert 0 < int(frame.max()) < 50
    assert mp3_frames(bytes(silent), 0, 1, 1)[0].tolist() == places.tolist()


def test_only_bytes_of_the_window_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = compressed("libmp3lame", 44100, 2)
    with bushel.Writer(tmp_path / "x", {"audio": "mp3"}, container="bag", sync=False) as writer:
        writer.append({"audio": data}, key="a")
    whole = get_codec("mp3").decode(data)
    asked = counted(monkeypatch)
    ds = bushel.open(tmp_path / "x")
    for start in (100_000, 200_000, 5):
        np.testing.assert_array_equal(
            ds[0, {"audio": slice(start, start + 4410)}]["audio"], whole[start : start + 4410]
        )
    assert sum(length for _, length in asked) < 1.3 * len(data)  # it was read once, for the places of its frames
    bushel.index(tmp_path / "x", columns=["audio.length"])
    windows = bushel.open(tmp_path / "x").windows("audio", 4410, hop=4410)
    for number, sample in zip((3, 20, 21), windows.read([3, 20, 21]), strict=True):
        np.testing.assert_array_equal(sample["audio"], whole[number * 4410 : (number + 1) * 4410])
