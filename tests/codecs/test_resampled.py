"""Sounds of any kind and rate, decoded at one rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.codecs.sounds import compressed

import bushel
from bushel.codecs import get_codec
from bushel.errors import SpecError
from bushel.loader import RandomWindow

pytest.importorskip("av")
SECONDS = 3


def sine(rate: int, channels: int = 1) -> np.ndarray[Any, Any]:
    """A tone of 440 Hz."""
    seconds = np.arange(rate * SECONDS) / rate
    return np.stack([0.5 * np.sin(2 * np.pi * 440 * seconds)] * channels, 1).astype(np.float32)


@pytest.mark.parametrize(
    ("source", "rate"), [(44100, 16000), (48000, 16000), (8000, 16000), (11025, 44100), (16000, 16000)]
)
def test_parts_equal_the_whole(source: int, rate: int) -> None:
    codec = get_codec(f"audio({rate})")
    assert codec.ranged is not None
    rng = np.random.default_rng(0)
    data = get_codec(f"wav({source})").encode(rng.normal(0, 0.1, (source * 2 + 17, 2)).astype(np.float32))
    whole = codec.decode(data)
    count = codec.ranged.count(data)
    assert whole.shape == (count, 2) == (-(-(source * 2 + 17) * rate // source), 2)
    parts: list[Any] = [slice(0, 100), slice(rate, rate + 777), slice(-300, None), slice(5, 5), slice(100, 9000, 7)]
    parts += [np.array([count - 1, 0, 5000]), np.array([-1, -2]), np.zeros(0, np.int64)]
    for part in parts:
        np.testing.assert_array_equal(codec.ranged.decode(data, part), whole[part])
    for part in ([count], [-count - 1]):
        with pytest.raises(IndexError, match=r"has no frames"):
            codec.ranged.decode(data, np.array(part))


def test_a_tone_stays_a_tone() -> None:
    for source in (44100, 48000, 22050):
        sound = get_codec("audio(16000)").decode(get_codec(f"wav({source})").encode(sine(source, 2)))
        assert sound.shape == (16000 * SECONDS, 2)
        inside = slice(500, -500)
        assert np.abs(sound - sine(16000, 2))[inside].max() < 1e-3


def test_a_folder_of_mixed_kinds_and_rates(tmp_path: Path) -> None:
    folder = tmp_path / "sounds"
    folder.mkdir()
    folder.joinpath("a.wav").write_bytes(bytes(get_codec("wav(44100)").encode(sine(44100))))
    folder.joinpath("b.flac").write_bytes(bytes(get_codec("flac(16000)").encode(sine(16000))))
    folder.joinpath("c.mp3").write_bytes(compressed("libmp3lame", 22050, 1, seconds=SECONDS))
    folder.joinpath("d.ogg").write_bytes(compressed("libopus", 48000, 1, seconds=SECONDS))
    with pytest.raises(SpecError, match=r"nothing says when the elements of 'audio' are.*audio\(16000\)"):
        bushel.open(folder).windows("audio", seconds=1)
    ds = bushel.open(folder, spec={"audio": "audio(16000)"})
    with pytest.raises(KeyError, match=r"--columns audio\.length --spec 'audio=audio\(16000\)'`"):
        ds.windows("audio", seconds=1)
    ds = bushel.index(folder, columns=["audio.length"], spec={"audio": "audio(16000)"})
    assert ds.column("audio.length").tolist()[:2] == [48000, 48000]
    views = ds.windows("audio", seconds=1, hop=0.25)
    assert list(views.keys)[:3] == ["a@0s", "a@0.25s", "a@0.5s"]
    for sample in views:
        name, _, mark = sample["__key__"].partition("@")
        first = int(float(mark[:-1]) * 16000)
        np.testing.assert_array_equal(sample["audio"], ds[name]["audio"][first : first + 16000])
    fields = {"audio": RandomWindow(seconds=1.5)}
    [batch] = bushel.Loader(ds, 4, fields=fields, seed=3)
    assert (batch["audio"].dtype, batch["audio"].shape) == (np.float32, (4, 24000, 1))
    [again] = bushel.Loader(ds, 4, fields=fields, seed=3, processes=1)
    np.testing.assert_array_equal(batch["audio"], again["audio"])


def test_wrong_rates() -> None:
    for name in ("audio(0)", "audio(x)", "mp3(16000)", "audio(16000,1)"):
        with pytest.raises(SpecError, match="the parameter must be the frames per second"):
            get_codec(name)
