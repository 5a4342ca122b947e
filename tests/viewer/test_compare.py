"""Two fields side by side."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.viewer.serving import client_of

import bushel
from bushel.viewer import compare_pages


def _written(path: Path, texts: dict[str, str], container: str = "bag") -> Path:
    image = np.zeros((8, 8, 3), np.uint8)
    with bushel.Writer(path, {"text": "utf8", "image": "png"}, container=container) as writer:
        for key, text in texts.items():
            writer.append({"text": text, "image": image}, key=key)
    return path


def states(text: str) -> list[str]:
    return re.findall(r'<li class="(\w+)">', text)


def test_samples_are_matched_by_key(tmp_path: Path) -> None:
    left = _written(tmp_path / "left", {"a": "1", "b": "2", "c": "3"})
    right = _written(tmp_path / "right", {"c": "3", "a": "9", "d": "4"}, "tar")
    with client_of(left, right) as client:
        text = client.get("/d/0/compare?left=0:text&right=1:text").text
        assert states(text) == ["differs", "left", "same", "right"]
        assert 'href="/d/1/s/0"' in text
        assert "2 samples on both sides" in text
        assert text.count("1 on the left only") == text.count("1 on the right only") == 1
        for show, expected in (("left", ["left"]), ("right", ["right"]), ("differences", ["differs", "left", "right"])):
            assert states(client.get(f"/d/0/compare?left=0:text&right=1:text&show={show}").text) == expected


def test_a_sample_that_one_side_has_shows_its_picture(tmp_path: Path) -> None:
    left, right = _written(tmp_path / "left", {"a": "1"}), _written(tmp_path / "right", {"b": "2"})
    with client_of(left, right) as client:
        text = client.get("/d/0/compare").text
    assert states(text) == ["left", "right"]
    assert [url[:19] for url in re.findall(r'<img loading="lazy" class="card" src="([^"]+)"', text)] == [
        "/d/0/thumb?i=0&f=im",
        "/d/1/thumb?i=0&f=im",
    ]
    assert text.count("no such sample") == 2
    assert "no image" not in text


def test_equal_values_in_other_bytes_are_a_state_of_their_own(tmp_path: Path) -> None:
    for name, container in (("bag", "bag"), ("tar", "tar")):
        with bushel.Writer(tmp_path / name, {"label": "int"}, container=container) as writer:
            for number in range(24):
                writer.append({"label": number + (name == "tar" and number == 7)}, key=f"k{number:02}")
    with client_of(tmp_path / "bag", tmp_path / "tar") as client:
        text = client.get("/d/0/compare").text
        assert states(text) == ["differs" if number == 7 else "value" for number in range(24)]
        assert "same value, different bytes" in text
        assert states(client.get("/d/0/compare?show=differs").text) == ["differs"]
        assert states(client.get("/d/0/compare?show=value").text) == ["value"] * 23


def test_the_words_of_texts_that_differ_are_marked(tmp_path: Path) -> None:
    long = "word " * 200
    left = _written(tmp_path / "left", {"a": f"{long}a <b>red</b> house"})
    right = _written(tmp_path / "right", {"a": f"{long}a <b>blue</b> house"})
    with client_of(left, right) as client:
        text = client.get("/d/0/compare?left=0:text&right=1:text").text
    assert "<del>red</del>" in text
    assert "<ins>blue</ins>" in text
    assert "&lt;b&gt;" in text
    assert "7 characters differ" in text
    assert text.count("word") < 40


def test_the_difference_of_pictures_is_drawn_and_described(tmp_path: Path) -> None:
    for name in ("left", "right"):
        with bushel.Writer(tmp_path / name, {"image": "png"}, container="bag") as writer:
            for size in (8, 8 + (name == "right")):
                image = np.full((8, size, 3), 100, np.uint8)
                image[:4, 0] += 40 * (name == "right")
                writer.append({"image": image}, key=f"k{size if size == 8 else 9}{len(writer)}")
    with client_of(tmp_path / "left", tmp_path / "right") as client:
        text = client.get("/d/0/compare").text
        assert "6.25 % of elements differ, by 40 at most and 2.5 on average" in text
        [url] = re.findall(r'src="(/d/0/difference[^"]+)"', text)
        shown = np.array(Image.open(io.BytesIO(client.get(url.replace("&amp;", "&")).content)))
        assert (shown.shape[:2], len(np.unique(shown[4:].reshape(-1, 3), axis=0))) == ((8, 8), 1)
        assert shown[0, 0].tolist() == [253, 231, 37]
        answer = client.get("/d/0/difference?left=0:image&i=0&right=1:image&j=1")
        assert answer.status_code == 422
        assert "one shape" in answer.json()["error"]


def test_a_sample_that_lacks_the_field_has_no_difference(tmp_path: Path) -> None:
    """It was an error of the server."""
    with bushel.Writer(tmp_path / "data", {"a": "npy", "b": "npy"}, container="tar") as writer:
        writer.append({"a": np.zeros(3)}, key="k")
    with client_of(tmp_path / "data") as client:
        answer = client.get("/d/0/difference?left=0:a&i=0&right=0:b&j=0")
    assert (answer.status_code, answer.json()["error"]) == (404, "this sample lacks the field 'b'")


def test_elements_that_are_nan_on_both_sides_do_not_differ(tmp_path: Path) -> None:
    """They differed by infinity."""
    for name, number in (("left", 1.0), ("right", 3.0)):
        with bushel.Writer(tmp_path / name, {"numbers": "npy"}, container="bag") as writer:
            writer.append({"numbers": np.array([np.nan, number, 0, 0])}, key="a")
    with client_of(tmp_path / "left", tmp_path / "right") as client:
        text = client.get("/d/0/compare").text
    assert "25 % of elements differ, by 2 at most and 0.5 on average" in text


def test_the_summary_counts_changes_per_field(tmp_path: Path) -> None:
    left = _written(tmp_path / "left", {"a": "1", "b": "2", "c": "3"})
    right = _written(tmp_path / "right", {"a": "1", "b": "9", "c": "8"})
    with client_of(left, right) as client:
        text = client.get("/d/0/compare").text
    rows = re.findall(r"<tr><td><a [^>]*>(\w+)</a></td><td>(\d)</td><td>(?:<a [^>]*>)?(\d)", text)
    assert rows == [("text", "1", "2"), ("image", "3", "0")]


def test_by_default_the_main_fields_of_two_datasets(tmp_path: Path) -> None:
    left = _written(tmp_path / "left", {"a": "1"})
    with client_of(left, left) as client:
        text = client.get("/d/0/compare").text
    assert states(text) == ["same"]
    assert text.count("<img loading") == 2


def test_two_fields_of_one_dataset(tmp_path: Path) -> None:
    with client_of(_written(tmp_path / "left", {"a": "1"})) as client:
        text = client.get("/d/0/compare?left=0:image&right=0:text").text
    assert states(text) == ["differs"]


@pytest.mark.parametrize(("side", "status"), [("5:image", 404), ("0:nothing", 404), ("image", 400), ("-1:image", 400)])
def test_sides_that_are_not_there(tmp_path: Path, side: str, status: int) -> None:
    with client_of(_written(tmp_path / "left", {"a": "1"})) as client:
        assert client.get(f"/d/0/compare?left={side}").status_code == status


def test_pages_after_the_last_are_empty(tmp_path: Path) -> None:
    with client_of(_written(tmp_path / "left", {"a": "1"})) as client:
        assert states(client.get("/d/0/compare?from=9").text) == []
        assert client.get("/d/0/compare?show=odd").status_code == 400


def test_only_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {f"k{number:03}": str(number) for number in range(200)}
    left = _written(tmp_path / "left", texts)
    right = _written(tmp_path / "right", {key: text + "!" * (key in ("k003", "k150")) for key, text in texts.items()})
    address = "/d/0/compare?left=0:text&right=1:text&show=differs"
    with client_of(left, right) as client:
        text = client.get(address).text
        assert states(text) == ["differs", "differs"]
        assert "2 shown, from samples 1 to 2 of the 2 that may differ" in text
        assert 'id="after"' not in text
        monkeypatch.setattr(compare_pages, "_LOOK_AT", 1)
        text = client.get(address).text
        assert states(text) == ["differs"]
        assert 'right=1%3Atext&amp;show=differs&amp;from=1"' in text
        assert states(client.get(f"{address}&from=1").text) == ["differs"]
        assert states(client.get(f"{address}&from=2").text) == []
        monkeypatch.setattr(compare_pages, "_SECONDS", 0)
        assert "from=1" in client.get(address).text
        assert client.get(f"{address}&from=999").status_code == 200
