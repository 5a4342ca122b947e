"""What notebooks show."""

from __future__ import annotations

import base64
import html
import io
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bushel
from bushel._pictures.notebook import batch_html


@pytest.fixture
def dataset(tmp_path: Path) -> bushel.Dataset:
    spec = {"image": "png", "label": "int", "caption": "utf8", "vector": "array"}
    with bushel.Writer(tmp_path / "data", spec, container="bag") as writer:
        for number in range(9):
            image = np.full((20, 30, 3), 20 * number, np.uint8)
            values = {"image": image, "label": number, "caption": f"<b>{number}</b>", "vector": np.arange(5.0)}
            writer.append(values, key=f"k<{number}")
    return bushel.index(tmp_path / "data", columns=["label"])


def pictures(text: str) -> list[np.ndarray]:
    found = re.findall(r'src="data:image/\w+;base64,([^"]+)"', text)
    return [np.array(Image.open(io.BytesIO(base64.b64decode(data)))) for data in found]


def test_a_dataset_shows_its_facts_and_first_samples(dataset: bushel.Dataset) -> None:
    text = dataset._repr_html_()
    for part in ("9 samples", "container <b>bag", "checksums <b>of every field", "complete <b>yes", "columns <b>"):
        assert part in text
    assert "k&lt;0" in text
    assert "caption: &lt;b&gt;0&lt;/b&gt;" in text
    shown = pictures(text)
    assert len(shown) == 6
    assert [int(image[0, 0, 0]) for image in shown] == [0, 20, 40, 60, 80, 100]


def test_show_takes_a_number_and_columns(dataset: bushel.Dataset) -> None:
    gallery = dataset[3:].show(2, columns=["label", "image.bytes"])
    assert repr(gallery).splitlines()[0].startswith("k<3  label=3  image.bytes=")
    text = gallery._repr_html_()
    assert len(pictures(text)) == 2
    assert "label: 4" in text
    assert "caption" not in text
    assert len(dataset.show(100)) == 9
    with pytest.raises(KeyError, match="label"):
        dataset.show(columns=["lable"])
    with pytest.raises(TypeError, match="n='x': expected a whole number"):
        dataset.show("x")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["array(uint8,-1,8,8)", "npy"])
def test_windows_of_arrays_show_their_elements(tmp_path: Path, kind: str) -> None:
    with bushel.Writer(tmp_path / "data", {"x": kind}, container="tar") as writer:
        writer.append({"x": np.full((4, 8, 8), np.arange(4)[:, None, None] * 60, np.uint8)})
    windows = bushel.open(tmp_path / "data").windows("x", 1)
    shown = pictures(windows.show()._repr_html_())
    assert len(shown) == 4
    assert len({image.tobytes() for image in shown}) == 4


def test_a_sample_is_a_dict_with_pictures(dataset: bushel.Dataset) -> None:
    sample = dataset[4]
    assert isinstance(sample, dict)
    assert repr(sample).endswith("vector   float64[5]")
    assert pickle.loads(pickle.dumps(sample))["label"] == 4
    text = sample._repr_html_()  # type: ignore[attr-defined]
    assert "&lt;b&gt;4&lt;/b&gt;" in text
    assert "20 × 30 × 3, uint8" in text
    image, curve = pictures(text)
    assert image[0, 0].tolist() == [80, 80, 80]
    assert curve.ndim == 3


def test_damage_is_reported_in_its_place(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"image": "jpg", "label": "int"}, container="tar") as writer:
        writer.append({"image": b"\xff\xd8 broken", "label": 1}, key="a")
        writer.append({"label": 2}, key="b")
    text = bushel.open(tmp_path / "data")._repr_html_()
    assert "expected" in text
    assert "no image" in text


def test_statistics_of_a_loader(dataset: bushel.Dataset) -> None:
    loader = bushel.Loader(dataset, 3, fields=["label"], threads=0)
    for _ in loader:
        pass
    text = loader.stats()._repr_html_()
    assert "9 samples in 3 batches" in text
    assert "<td" in text
    assert "training" in text


def test_an_empty_dataset(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"label": "int"}, container="bag"):
        pass
    dataset = bushel.open(tmp_path / "data")
    assert "0 samples" in dataset._repr_html_()
    assert repr(dataset.show()) == ""


def test_classes_have_their_names(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "photos" / name / "a.png")
    dataset = bushel.open(tmp_path / "photos")
    assert "1 dog" in dataset[1]._repr_html_()  # type: ignore[attr-defined]
    assert "label: 1 dog" in dataset.show()._repr_html_()
    assert "label=1 dog" in repr(dataset.show())


def test_a_loader_names_the_classes_of_its_next_batch(tmp_path: Path) -> None:
    with bushel.Writer(
        tmp_path / "data", {"label": "int"}, container="bag", labels={"label": ["cat", "dog"]}
    ) as writer:
        for number in range(4):
            writer.append({"label": number % 2})
    text = bushel.Loader(bushel.open(tmp_path / "data"), 4, threads=0)._repr_html_()
    assert "<span>0 cat</span>, <span>1 dog</span>, <span>0 cat</span>" in text


def test_sounds_have_a_waveform_and_a_player(tmp_path: Path) -> None:
    pytest.importorskip("av")
    with bushel.Writer(tmp_path / "data", {"audio": "flac(8000)"}, container="tar") as writer:
        writer.append({"audio": np.sin(np.arange(4000) / 20).astype(np.float32)}, key="a")
    dataset = bushel.open(tmp_path / "data")
    sample = dataset[0]
    text = sample._repr_html_()  # type: ignore[attr-defined]
    [player] = re.findall(r'<audio controls src="data:audio/flac;base64,([^"]+)">', text)
    assert base64.b64decode(player) == dataset.read([0], decode=False)[0]["audio"]
    assert 'alt="waveform of audio"' in text
    copied = pickle.loads(pickle.dumps(sample))
    assert list(copied) == list(sample)
    assert "<audio" not in copied._repr_html_()


def test_windows_of_sounds_show_their_own_part(tmp_path: Path) -> None:
    pytest.importorskip("soundfile")
    halves = [np.zeros(4000, np.float32), np.sin(np.arange(4000) / 20).astype(np.float32)]
    for name, sounds in {"whole": [np.concatenate(halves)], "halves": halves}.items():
        with bushel.Writer(tmp_path / name, {"audio": "wav(8000)"}, container="tar") as writer:
            for sound in sounds:
                writer.append({"audio": sound})
    bushel.index(tmp_path / "whole", columns=["audio.length"])
    windows = bushel.open(tmp_path / "whole").windows("audio", 4000)
    shown, expected = (pictures(each.show()._repr_html_()) for each in (windows, bushel.open(tmp_path / "halves")))
    assert len(shown) == 2
    assert all(map(np.array_equal, shown, expected))
    text = windows[1]._repr_html_()  # type: ignore[attr-defined]
    assert 'alt="waveform of audio"' in text
    assert "4000 × 1, float32" in text
    assert "<audio" not in text  # which would play the whole sound


def test_the_result_of_a_verification(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "other", {"text": "utf8"}, container="tar") as writer:
        writer.append({"text": "<b>one</b>"}, key="k<1")
    assert "Verified: ok" in bushel.verify(tmp_path / "other")._repr_html_()
    path, offset = bushel.open(tmp_path / "other").location(0, "text")
    data = bytearray(Path(path).read_bytes())
    data[offset] ^= 1
    times = os.stat(path)
    Path(path).write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    text = bushel.verify(tmp_path / "other")._repr_html_()
    for part in ("1 problem", "checksum", "k&lt;1", "text"):
        assert part in text


def test_a_loader_shows_its_next_batch(dataset: bushel.Dataset) -> None:
    loader = bushel.Loader(dataset, 4, shuffle=True, seed=3, fields=["image", "label", "caption"], threads=0)
    text = loader._repr_html_()
    for part in ("9 samples", "seed <b>3", "rank <b>0 of 1", "0 of 9 samples consumed", "4 × 20 × 30 × 3, uint8"):
        assert part in text
    first = next(iter(loader))
    assert [int(image[0, 0, 0]) for image in pictures(text)[:4]] == first["image"][:, 0, 0, 0].tolist()
    broken = bushel.Loader(dataset, 4, fields=["image"], transforms={"image": [lambda image: image[99]]}, threads=0)
    assert "cannot be made" in broken._repr_html_()


@pytest.mark.parametrize("asked", [{}, {"step": 1}])
def test_a_batch_that_peek_returns(dataset: bushel.Dataset, asked: dict[str, int]) -> None:
    loader = bushel.Loader(dataset, 4, fields=["image", "label", "caption"], threads=0)
    batch: Any = loader.peek(**asked)
    text = batch_html(batch)
    assert "data:image/" in text
    assert "uint8" in text
    numbers = ", ".join(f"<span>{label}</span>" for label in batch["label"].tolist())
    assert numbers in text
    assert str(batch["caption"][0]) in html.unescape(text)
    assert type(batch) is type(next(iter(loader))) is dict  # frameworks take another class for a single value
