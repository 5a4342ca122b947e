"""Measures of pictures, near-duplicates, and the page that shows them."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFilter
from tests.viewer.serving import client_of

import bushel
from bushel.viewer.quality import (
    array_measures,
    near_duplicates,
    picture_hash,
    picture_measures,
    sound_measures,
    text_hash,
    text_measures,
)


def picture(seed: int, width: int = 64, height: int = 48) -> npt.NDArray[np.uint8]:
    small = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8)
    return np.array(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC))


def encoded(pixels: npt.NDArray[np.uint8], quality: int = 90) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=quality)
    return stream.getvalue()


def test_measures_of_dark_flat_blurred_and_wide_pictures() -> None:
    usual = picture_measures(picture(0))
    assert picture_measures(picture(0) // 10)["brightness"] < 0.1 < usual["brightness"]
    flat = picture_measures(np.full((40, 40, 3), 90, np.uint8))
    assert flat["entropy"] == 0
    assert flat["contrast"] == pytest.approx(0, abs=1e-6)
    assert flat["sharpness"] == pytest.approx(0, abs=1e-3)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8))
    assert (
        picture_measures(np.array(noise.filter(ImageFilter.GaussianBlur(2))))["sharpness"]
        < 0.1 * picture_measures(np.array(noise))["sharpness"]
    )
    assert picture_measures(picture(0, 90, 30))["aspect"] == 3
    assert picture_measures(np.zeros((1, 1, 3), np.uint8))["sharpness"] == 0


def test_the_hash_survives_encoding_and_size() -> None:
    for seed in range(20):
        first = picture_hash(picture(seed))
        again = picture_hash(np.array(Image.open(io.BytesIO(encoded(picture(seed, 200, 150), 60)))))
        assert (first ^ again).bit_count() <= 3
        assert (first ^ picture_hash(picture(seed + 100))).bit_count() > 8


@given(st.lists(st.integers(0, 2**64 - 1), max_size=12), st.data())
def test_groups_hold_all_hashes_that_are_near(values: list[int], data: st.DataObject) -> None:
    for value in values[:4]:
        bits = data.draw(st.sets(st.integers(0, 63), max_size=3))
        values.append(value ^ sum(1 << bit for bit in bits))
    groups = near_duplicates(np.array(values, np.uint64))
    of = {member: number for number, group in enumerate(groups) for member in group}
    for one in range(len(values)):
        for other in range(one):
            if (values[one] ^ values[other]).bit_count() <= 3:
                assert of[one] == of[other]
    assert all(len(group) > 1 and group == sorted(group) for group in groups)


def write(path: Path, seeds: list[int], labels: list[int] | None = None) -> Path:
    with bushel.Writer(path, {"image": "jpg", "label": "int"}, container="tar") as writer:
        for number, seed in enumerate(seeds):
            data = b"\xff\xd8 broken" if seed < 0 else encoded(picture(seed), 95 - number)
            writer.append({"image": data, "label": labels[number] if labels else 0}, key=f"k{number}")
    return path


def test_the_page_finds_duplicates_and_labels_that_disagree(tmp_path: Path) -> None:
    with client_of(write(tmp_path / "data", [1, 2, 1, 3, -1, 3], [0, 0, 1, 2, 2, 2])) as client:
        text = client.get("/d/0/quality").text
        assert "6 of 6 samples are measured; 1 could not" in text
        assert text.count("2 pictures") == 2
        assert text.count("with different labels: 0, 1") == 1
        assert 'href="/d/0/quality"' in client.get("/d/0").text


def test_the_page_finds_what_two_datasets_share(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", [1, 2, 2, 3]), write(tmp_path / "two", [7, 3, 8])
    with client_of(one, two) as client:
        text = client.get("/d/0/quality?with=1").text
        assert "3 of 3 samples are measured." in text
        assert text.count("2 pictures") == 1  # those of one dataset only are left out
        assert 'href="/d/0/s/3"' in text
        assert 'href="/d/1/s/1"' in text


def test_large_groups_show_pictures_of_both_datasets(tmp_path: Path) -> None:
    one, two = write(tmp_path / "one", [1] * 20), write(tmp_path / "two", [1] * 20)
    with client_of(one, two) as client:
        text = client.get("/d/0/quality?with=1").text.partition("Brightness")[0]
        assert "40 pictures" in text
        assert text.count('href="/d/0/s/') == text.count('href="/d/1/s/') == 4
        assert "and 32 more" in text


def test_measures_are_columns(tmp_path: Path) -> None:
    with client_of(write(tmp_path / "data", [1, -1, 2, 3])) as client:
        answer = client.get("/api/0/rows?sort=quality.image.brightness")
        assert answer.status_code == 404
        assert "the page Quality makes the column" in answer.json()["error"]
        client.get("/d/0/quality")
        rows = client.get("/api/0/rows?sort=-quality.image.brightness").json()["rows"]
        order = sorted([0, 2, 3], key=lambda place: -picture([1, -1, 2, 3][place]).astype(float).mean())
        assert [row["position"] for row in rows][3] == 1  # without a measure
        assert {row["position"] for row in rows[:3]} == set(order)
        assert client.get("/api/0/rows?where=quality.image.aspect+%3E+1").json()["total"] == 3
        assert client.get("/api/0/histogram?column=quality.image.entropy").json()["missing"] == 1
        assert "quality.image.sharpness" in client.get("/d/0").text


def test_measuring_continues_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bushel.viewer import quality_pages

    monkeypatch.setattr(quality_pages, "_SECONDS", 1e-9)
    with client_of(write(tmp_path / "data", [1, 2, 3])) as client:
        done: list[Any] = [
            client.get("/d/0/quality").text.partition(" of 3 samples are measured")[0][-1] for _ in range(4)
        ]
        assert done == sorted(done)
        monkeypatch.setattr(quality_pages, "_SECONDS", 60)
        assert "3 of 3 samples are measured." in client.get("/d/0/quality").text


def test_datasets_without_such_values_have_no_such_page(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"label": "int"}, container="bag") as writer:
        writer.append({"label": 1})
    with client_of(tmp_path / "data") as client:
        assert client.get("/d/0/quality").status_code == 404
        assert "/quality" not in client.get("/d/0").text


def test_measures_of_silent_loud_and_clipped_sounds() -> None:
    wave = np.sin(np.arange(8000, dtype=np.float32) / 5).reshape(-1, 1)
    usual = sound_measures((wave / 2).astype(np.float32))
    assert usual["loudness"] == pytest.approx(10 * np.log10(1 / 8), abs=0.05)
    assert usual["peak"] == pytest.approx(0.5, abs=1e-3)
    assert usual["silence"] == usual["clipping"] == 0
    half = np.concatenate([wave, np.zeros_like(wave)])
    assert sound_measures(half)["silence"] == 0.5
    assert sound_measures(np.zeros((3, 2), np.float32)) == {"loudness": -120, "peak": 0, "silence": 1, "clipping": 0}
    assert sound_measures((4 * wave).clip(-1, 1).astype(np.float32))["clipping"] > 0.5


def test_measures_of_texts() -> None:
    assert text_measures("one two two {}") == {"characters": 14, "words": 4, "distinct": 0.75, "symbols": 2 / 14}
    empty = text_measures("")
    assert empty["characters"] == empty["words"] == 0
    assert np.isnan(empty["distinct"])


def test_the_hash_of_a_text_survives_case_punctuation_and_one_word() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in rng.integers(0, 500, 400)]
    first = text_hash(" ".join(words))
    again = text_hash(", ".join(words[:200]).upper() + "\n" + " ".join(words[200:]))
    assert first is not None
    assert first == again
    changed = text_hash(" ".join([*words[:100], "other", *words[101:]]))
    other = text_hash(" ".join(f"w{number}" for number in rng.integers(0, 500, 400)))
    assert changed is not None
    assert other is not None
    assert (first ^ changed).bit_count() <= 6
    assert (first ^ other).bit_count() > 12
    assert text_hash("a few words") is None


def test_measures_of_arrays() -> None:
    found = array_measures(np.array([0, -3, np.nan, np.inf]))
    assert found == {"invalid": 0.5, "zeros": 0.25, "mean": -1.5, "spread": 1.5, "largest": 3}
    lost = array_measures(np.array([np.nan]))
    assert lost["invalid"] == 1
    assert np.isnan([lost["mean"], lost["spread"], lost["largest"]]).all()
    assert array_measures(np.array([[True, False]]))["zeros"] == 0.5


def test_texts_and_arrays_are_measured(tmp_path: Path) -> None:
    long = " ".join(f"word{number % 40}" for number in range(90))
    texts = ["short", long, "", long + " end", "short too"]
    with bushel.Writer(tmp_path / "data", {"text": "utf8", "vector": "array", "n": "int"}, container="bag") as writer:
        for number, text in enumerate(texts):
            vector = np.array([number, np.nan if number == 2 else 1], np.float32)
            writer.append({"text": text, "vector": vector, "n": 10_000 if number == 4 else number})
    bushel.index(tmp_path / "data", columns=["n"]).close()
    with client_of(tmp_path / "data") as client:
        page = client.get("/d/0/quality").text
        assert "5 of 5 samples are measured." in page
        assert "2 texts" in page
        assert client.get("/api/0/rows?where=quality.text.characters+%3C+6").json()["total"] == 2
        assert client.get("/api/0/rows?sort=-quality.text.words").json()["rows"][0]["position"] == 3
        [listing] = re.findall(r'href="[^"]*\?(where=[^"]+)">List them', page)
        assert {row["position"] for row in client.get(f"/api/0/rows?{listing}").json()["rows"]} == {1, 3}
        page = client.get("/d/0/quality?field=vector").text
        assert client.get("/api/0/rows?where=quality.vector.invalid+%3E+0").json()["total"] == 1
        assert client.get("/d/0/quality?field=n").status_code == 404


def test_what_cannot_be_decoded_is_counted(tmp_path: Path) -> None:
    with client_of(write(tmp_path / "data", [1, -1, 2])) as client:
        assert "3 of 3 samples are measured; 1 could not be read or decoded." in client.get("/d/0/quality").text


def test_sounds_are_measured(tmp_path: Path) -> None:
    pytest.importorskip("av")
    wave = np.sin(np.arange(4000, dtype=np.float32) / 5).reshape(-1, 1)
    with bushel.Writer(tmp_path / "data", {"audio": "wav(8000)"}, container="bag") as writer:
        for loudness in (0.5, 0.0, 0.05):
            writer.append({"audio": wave * np.float32(loudness)})
    with client_of(tmp_path / "data") as client:
        client.get("/d/0/quality")
        rows = client.get("/api/0/rows?sort=quality.audio.loudness").json()["rows"]
        assert [row["position"] for row in rows] == [1, 2, 0]
        assert client.get("/api/0/rows?where=quality.audio.silence+%3D%3D+1").json()["total"] == 1
