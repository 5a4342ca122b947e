"""What notebooks show."""

from __future__ import annotations

import base64
import io
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import bushel


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


def test_a_sample_is_a_dict_with_pictures(dataset: bushel.Dataset) -> None:
    sample = dataset[4]
    assert isinstance(sample, dict)
    assert repr({"label": 4})[1:-1] in repr(sample)
    assert pickle.loads(pickle.dumps(sample))["label"] == 4
    text = sample._repr_html_()  # type: ignore[attr-defined]
    assert "&lt;b&gt;4&lt;/b&gt;" in text
    assert "20 × 30 × 3, uint8" in text
    image, curve = pictures(text)
    assert image[0, 0].tolist() == [80, 80, 80]
    assert curve.ndim == 3


def test_what_is_damaged_is_said_in_its_place(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"image": "jpg", "label": "int"}, container="tar") as writer:
        writer.append({"image": b"\xff\xd8 broken", "label": 1}, key="a")
        writer.append({"label": 2}, key="b")
    text = bushel.open(tmp_path / "data")._repr_html_()
    assert "expected" in text
    assert "no image" in text


def test_statistics_of_a_loader(dataset: bushel.Dataset) -> None:
    loader = bushel.Loader(dataset, 3, fields=["label"], workers=0)
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
