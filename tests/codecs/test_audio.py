"""Sound: files stay as they are, frames of them decode alone."""

from __future__ import annotations

import io
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codecs.sounds import RATE, compressed, encoded, tone

import bushel
from bushel.codecs import get_codec, libsndfile, mp3_parts
from bushel.codecs.audio import sample_rate
from bushel.errors import CodecError, MissingPackageError, SpecError

pytest.importorskip("av")


@pytest.fixture(params=["libsndfile", "PyAV"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with libsndfile, if it is installed, and with PyAV alone."""
    if request.param == "libsndfile":
        pytest.importorskip("soundfile")
    else:
        for module in (mp3_parts, libsndfile):
            monkeypatch.setattr(module, "has_libsndfile", lambda: False)
    return str(request.param)


FILES = {kind: encoded(kind) for kind in ("wav", "flac", "mp3", "ogg")}


@pytest.mark.parametrize("kind", [*FILES, "m4a"])
def test_the_codec_of_mixed_sounds_looks_at_first_bytes(kind: str) -> None:
    stored, codec = encoded(kind), get_codec("audio")
    whole = codec.decode(stored)
    assert (whole.dtype, whole.shape[1]) == (np.float32, 2)
    if kind in FILES:
        assert np.array_equal(whole, get_codec(kind).decode(stored))
    assert codec.ranged is not None
    assert codec.ranged.count(stored) == len(whole)
    assert np.array_equal(codec.ranged.decode(stored, slice(1000, 1100)), whole[1000:1100])
    with pytest.raises(CodecError, match="a sound"):
        codec.decode(b"\xff\xd8\xff\xe0 a photo")


def test_a_folder_of_mixed_sounds(tmp_path: Path) -> None:
    for kind in (*FILES, "m4a"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"1.{kind}").write_bytes(encoded(kind))
    bushel.index(tmp_path, columns=["audio.length"])
    ds = bushel.open(tmp_path)
    assert (ds.spec, ds.labels["label"]) == ({"audio": "audio", "label": "int"}, tuple(sorted((*FILES, "m4a"))))
    lengths = [len(sample["audio"]) for sample in ds]
    windows = ds.windows("audio", 4000)
    assert len(windows) == sum(length // 4000 for length in lengths)
    assert windows[0]["audio"].shape == (4000, 2)


@pytest.mark.parametrize("kind", ["wav", "flac"])
@pytest.mark.parametrize("channels", [1, 2])
def test_arrays_are_stored_without_loss_at_16_bits(kind: str, channels: int) -> None:
    codec = get_codec(f"{kind}({RATE})")
    data = bytes(codec.encode(tone(channels=channels)))
    found = codec.decode(data)
    assert (found.dtype, found.shape) == (np.float32, (9000, channels))
    assert np.abs(found - tone(channels=channels)).max() <= 0.5 / 32768 + 1e-6
    assert bytes(codec.encode(found)) == data
    assert sample_rate(data) == RATE


def test_a_wav_of_another_program() -> None:
    values = (tone(500, 1) * 32767).astype(np.int16)
    stored = io.BytesIO()
    with wave.open(stored, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(values.tobytes())
    found = get_codec("wav").decode(stored.getvalue())
    assert np.array_equal(found, values.astype(np.float32) / 32768)
    assert sample_rate(stored.getvalue()) == 8000


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_frames_are_those_of_the_whole(kind: str, decoder: str, data: st.DataObject) -> None:
    codec = get_codec(kind)
    assert codec.ranged is not None
    whole = codec.decode(FILES[kind])
    count = codec.ranged.count(FILES[kind])
    assert count == len(whole)
    first, last = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
    step = data.draw(st.sampled_from([1, 1, 3, -2]))
    part = slice(first, last, step)
    assert np.array_equal(codec.ranged.decode(FILES[kind], part), whole[part])
    numbers = np.array(data.draw(st.lists(st.integers(-count, count - 1), max_size=4)), np.int64)
    assert np.array_equal(codec.ranged.decode(FILES[kind], numbers), whole[numbers])


@pytest.mark.parametrize(
    ("encoder", "rate", "channels", "bit_rate"),
    [
        ("libmp3lame", 44100, 2, 0),
        ("libmp3lame", 44100, 1, 32000),
        ("libmp3lame", 16000, 1, 8000),
        ("libmp3lame", 24000, 2, 24000),
        ("vorbis", 44100, 2, 0),
        ("libopus", 48000, 2, 0),
    ],
)
def test_parts_of_mp3_and_ogg(encoder: str, rate: int, channels: int, bit_rate: int, decoder: str) -> None:
    stored = compressed(encoder, rate, channels, bit_rate)
    kind = "mp3" if encoder == "libmp3lame" else "ogg"
    codec = get_codec(kind)
    assert codec.ranged is not None
    whole = codec.decode(stored)
    assert codec.ranged.count(stored) == len(whole)
    rng = np.random.default_rng(1)
    parts = [slice(0, 10), slice(-10, None), slice(None, None, 5000), slice(7, 7), slice(len(whole) - 1, None)]
    parts += [
        slice(first, first + 2000) for first in rng.integers(0, len(whole), settings().max_examples // 3).tolist()
    ]
    for part in parts:
        assert np.array_equal(codec.ranged.decode(stored, part), whole[part])
    with pytest.raises(IndexError):
        codec.ranged.decode(stored, np.array([len(whole)]))


@pytest.mark.parametrize("container", ["tar", "bag", "recordio"])
def test_a_dataset_of_sounds(tmp_path: Path, container: str) -> None:
    with bushel.Writer(tmp_path / "data", {"audio": "flac", "label": "int"}, container=container) as writer:
        for number in range(3):
            writer.append({"audio": FILES["flac"], "label": number}, key=f"k{number}")
    dataset = bushel.open(tmp_path / "data")
    assert dataset.read([1], ["audio"], decode=False)[0]["audio"] == FILES["flac"]
    assert dataset.available(1)["audio"] == range(9000)
    part = dataset[1, {"audio": slice(4000, 4100)}]["audio"]
    assert np.array_equal(part, dataset[1]["audio"][4000:4100])


def test_sounds_are_packed_from_a_dataset_unchanged(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a", {"audio": "mp3"}, container="tar") as writer:
        writer.append({"audio": FILES["mp3"]}, key="k")
    bushel.pack(bushel.open(tmp_path / "a"), tmp_path / "b", container="bag")
    assert bushel.open(tmp_path / "b").read([0], decode=False)[0]["audio"] == FILES["mp3"]


def test_a_tar_recognises_sounds_by_their_extension(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tar", {"wav": "wav"}) as writer:
        writer.append({"wav": FILES["wav"]}, key="a")
    (tmp_path / "a.tar").rename(tmp_path / "b.tar")
    assert bushel.open(tmp_path / "b.tar").spec == {"wav": "wav"}


DAMAGED = {
    "empty": b"",
    "short": b"RIFF",
    "text": b"nothing",
    "cut flac": FILES["flac"][:20],
    "cut ogg": FILES["ogg"][:30],
    "playlist": b"#EXTM3U\nfile:///etc/passwd",
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("kind", FILES)
def test_damaged_bytes_are_refused(kind: str, data: bytes, decoder: str) -> None:
    with pytest.raises(CodecError, match=f"codec '{kind}'"):
        get_codec(kind).decode(data)
    with pytest.raises(CodecError):
        sample_rate(data)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("wav", tone()),
        ("mp3", tone()),
        ("wav(16000)", np.zeros((5, 3), np.float32)),
        ("wav(16000)", np.zeros((5, 2), np.int64)),
        ("flac(16000)", np.array([np.nan], np.float32)),
        ("flac(16000)", "text"),
    ],
)
def test_values_that_cannot_be_encoded(kind: str, value: Any) -> None:
    with pytest.raises(CodecError):
        get_codec(kind).encode(value)


@pytest.mark.parametrize("name", ["mp3(16000)", "wav(1)", "wav(fast)", "flac(0)"])
def test_wrong_parameters(name: str) -> None:
    with pytest.raises(SpecError):
        get_codec(name)


def test_a_folder_of_sounds(tmp_path: Path) -> None:
    for number, name in enumerate(["dog/a.wav", "cat/b.wav", "cat/c.wav", "cat/notes.txt"]):
        path = tmp_path / "sounds" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FILES["wav"] if number < 3 else b"text")
    packed = bushel.pack(tmp_path / "sounds", tmp_path / "out", container="tar")
    dataset = bushel.open(tmp_path / "out")
    assert packed.samples == 3
    assert dataset.spec == {"audio": "wav", "label": "int"}
    assert list(dataset.keys) == ["cat/b", "cat/c", "dog/a"]
    assert [int(sample["label"]) for sample in dataset] == [0, 0, 1]
    (tmp_path / "sounds" / "dog" / "d.flac").write_bytes(FILES["flac"])
    assert bushel.sources.LabelledFolder(tmp_path / "sounds", bushel.sources.Audio()).spec == {
        "audio": "audio",
        "label": "int",
    }


def test_sounds_that_are_whole_need_no_other_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    for module in (mp3_parts, libsndfile):
        monkeypatch.setattr(module, "has_libsndfile", lambda: False)
    codec = get_codec("wav")
    assert codec.ranged is not None
    assert codec.decode(FILES["wav"]).shape == (9000, 2)
    assert codec.ranged.count(FILES["wav"]) == 9000
    for kind in ("flac", "mp3", "ogg"):
        with pytest.raises(MissingPackageError, match=f"codec '{kind}' needs av.*pip install 'bushel.audio.'"):
            get_codec(kind).decode(FILES[kind])


def _flac(frames: npt.NDArray[np.int16]) -> bytes:
    soundfile = pytest.importorskip("soundfile")
    stored = io.BytesIO()
    soundfile.write(stored, frames, RATE, format="FLAC", subtype="PCM_16")
    return stored.getvalue()


def test_bytes_that_look_like_a_frame_of_flac() -> None:
    frames = np.random.default_rng(0).integers(-32768, 32768, 200_000, dtype=np.int16)
    for at in range(1000, 199_000, 2000):
        frames[at : at + 3] = np.array([0xFFF8, 0xC9A8, 0xFF21], np.uint16).view(np.int16)
    data, codec = _flac(frames), get_codec("flac")
    wanted = frames[:, None].astype(np.float32) / 32768
    assert np.array_equal(codec.decode(data), wanted)
    assert codec.ranged is not None
    assert np.array_equal(codec.ranged.decode(data, slice(100_000, 100_200)), wanted[100_000:100_200])


def test_flac_without_frames() -> None:
    data, codec = _flac(np.arange(30_000, dtype=np.int16)), get_codec("flac")
    empty = codec.decode(get_codec(f"flac({RATE})").encode(np.zeros(0, np.int16)))
    assert empty.shape == (0, 1)
    long = data[:4] + b"\x00" + data[5:42] + b"\xff\xff\xff\xff" + data[42:]  # a last block of metadata
    for damaged in (long, data[:60], data[:42]):
        with pytest.raises(CodecError, match="flac"):
            codec.decode(damaged)


@pytest.mark.parametrize("named", ["wav", "flac", "mp3", "ogg"])
@pytest.mark.parametrize("kind", ["wav", "flac", "mp3", "ogg", "m4a"])
def test_a_sound_that_is_named_like_another_format_is_decoded_by_its_first_bytes(
    tmp_path: Path, named: str, kind: str
) -> None:
    sound = get_codec("audio").decode(encoded(kind))
    for number in range(2):
        (tmp_path / f"{number}.{named}").write_bytes(encoded(kind))
    bushel.pack(tmp_path, tmp_path.parent / f"{named}-{kind}.tar")
    for path in (tmp_path, tmp_path.parent / f"{named}-{kind}.tar"):
        dataset = bushel.index(path, columns="audio.length")
        assert (dict(dataset.spec), dataset.column("audio.length").tolist()) == ({"audio": named}, [len(sound)] * 2)
        assert np.array_equal(dataset[1]["audio"], sound)
        window = dataset.windows("audio", 1000, hop=1000)[2]["audio"]
        assert np.array_equal(window, sound[2000:3000])


def test_tags_before_a_sound_do_not_make_it_an_mp3() -> None:
    tag = b"ID3\x03\0\0\0\0\0\x0a" + bytes(10)
    flac = encoded("flac")
    assert np.array_equal(get_codec("flac").decode(tag + flac), get_codec("flac").decode(flac))
