"""Croissant 1.1: what Bushel writes is validated and read by the real mlcroissant."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cards.described import jpeg, write
from tests.cli.running import fails, run

import bushel

pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

PERSON: dict[str, Any] = {"license": "cc-by-4.0", "url": "https://example.org/pets", "creators": ["Ann"]}


def consumed(metadata: Path) -> dict[str, Any]:
    """Read the records of a file of metadata with mlcroissant."""
    environment = os.environ | {"CROISSANT_CACHE": str(metadata.parent / "cache")}
    script = Path(__file__).with_name("consume.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, metadata], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_tar_is_read_with_its_columns(tmp_path: Path) -> None:
    ds = bushel.open(write(tmp_path / "pets", "tar"))
    metadata = json.loads(bushel.card(tmp_path / "pets", tmp_path / "pets.json", croissant=True, **PERSON))
    assert json.loads((tmp_path / "pets.json").read_text()) == metadata
    assert metadata["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert metadata["license"] == "https://spdx.org/licenses/cc-by-4.0"
    for each in metadata["distribution"]:
        if each["@type"] == "cr:FileObject":
            assert each["sha256"] == hashlib.sha256((tmp_path / each["contentUrl"]).read_bytes()).hexdigest()
    found = consumed(tmp_path / "pets.json")
    assert all("citeAs" in warning for warning in found["warnings"])
    records = found["records"]
    assert [each["classes/label/name"] for each in records["classes/label"]] == ["cat", "dog"]
    by_key = {each["image/__key__"]: each for each in records["image"]}
    assert sorted(by_key) == sorted(ds.keys)
    for sample in ds:
        own = by_key[sample["__key__"]]
        assert own["image/value"] == ["RGB", 64, 48]
        assert (own["image/label"], own["image/image.width"]) == (sample["label"], 64)
        assert own["image/meta.license"] == sample["meta"]["license"]
    captions = {each["caption/__key__"]: each["caption/value"] for each in records["caption"]}
    assert captions == {sample["__key__"]: sample["caption"] for sample in ds}


@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "gulp", "recordio"])
def test_the_places_of_all_values(container: str, tmp_path: Path) -> None:
    """The record set `samples` has key and columns, and the bytes of each value where it says."""
    if container == "gulp":
        with bushel.Writer(tmp_path / "pets", {"frames": "jpg[]"}, container="gulp") as writer:
            for number in range(3):
                writer.append({"frames": [jpeg(number), jpeg(number + 1)]}, key=f"clip{number}")
    else:
        write(tmp_path / "pets", container)
    ds = bushel.open(tmp_path / "pets")
    bushel.card(tmp_path / "pets", tmp_path / "pets.json", croissant=True, **PERSON)
    records = consumed(tmp_path / "pets.json")["records"]["samples"]
    stored = ds.read(range(len(ds)), decode=False)
    assert [each["samples/__key__"] for each in records] == [sample["__key__"] for sample in stored]
    for record, sample in zip(records, stored, strict=True):
        for name in ds.spec:
            places, values = record[f"samples/{name}.extent"], sample[name]
            if not isinstance(values, list):
                places, values = [places], [values]
            for place, value in zip(places, values, strict=True):
                uri, offset, size = (place[f"samples/{name}.extent/{part}"] for part in ("uri", "offset", "size"))
                assert (tmp_path / uri).read_bytes()[offset : offset + size] == bytes(value)
    for name in ds.columns:
        assert [each[f"samples/{name}"] for each in records] == np.ma.asarray(ds.column(name)).tolist()


def test_splits_are_record_sets_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "all", "tar")
    bushel.split(tmp_path / "all", tmp_path / "out", {"train": 0.75, "val": 0.25})
    bushel.card(tmp_path / "out", tmp_path / "pets.json", croissant=True, **PERSON)
    assert (tmp_path / "pets-train.parquet").exists()
    records = consumed(tmp_path / "pets.json")["records"]
    assert {name: len(own) for name, own in records.items() if "classes" not in name} == {
        **{f"train/{name}": 9 for name in ("samples", "image", "caption", "meta")},
        **{f"val/{name}": 3 for name in ("samples", "image", "caption", "meta")},
    }
    assert all(each["val/image/label"] is not None for each in records["val/image"])


def test_removed_samples_are_not_shown(tmp_path: Path) -> None:
    path = write(tmp_path / "pets", "tar")
    bushel.remove(path, positions=[3, 4], reason="opt-out")
    said = run("card", path, "--croissant", "-o", tmp_path / "pets.json", "--license", "mit")
    assert said.strip() == f"{tmp_path / 'pets.json'}: written"
    records = consumed(tmp_path / "pets.json")["records"]
    assert set(records) == {"classes/label", "samples"}
    assert [each["samples/__key__"] for each in records["samples"]] == list(bushel.open(path).keys)
    assert [each["samples/__position__"] for each in records["samples"]] == [0, 1, 2, *range(5, 12)]


@pytest.mark.parametrize("files", [1, 2])
def test_parquet_of_hugging_face(tmp_path: Path, files: int) -> None:
    pa = pytest.importorskip("pyarrow")
    (tmp_path / "rows").mkdir()
    for number in range(files):
        images = pa.array([{"bytes": jpeg(n), "path": f"{n}.jpg"} for n in range(2)])
        table = pa.table({"image": images, "label": [0, 1], "text": ["a", "b"], "score": [0.5, 1.5]})
        pq.write_table(table, tmp_path / f"rows/{number}.parquet", compression="none")
    bushel.card(tmp_path / "rows", tmp_path / "rows.json", croissant=True, **PERSON)
    rows = consumed(tmp_path / "rows.json")["records"]["rows"]
    assert rows == files * [
        {"rows/image": ["RGB", 64, 48], "rows/label": 0, "rows/text": "a", "rows/score": 0.5},
        {"rows/image": ["RGB", 64, 48], "rows/label": 1, "rows/text": "b", "rows/score": 1.5},
    ]


def test_json_lines_and_csv(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"n": 1, "text": "a"}\n{"n": 2, "text": "b"}\n')
    (tmp_path / "rows.csv").write_text("n,text\n1,a\n2,b\n")
    for name in ("rows.jsonl", "rows.csv"):
        place = tmp_path / f"{name}.json"
        bushel.card(tmp_path / name, place, croissant=True, **PERSON)
        assert consumed(place)["records"]["rows"] == [{"rows/n": 1, "rows/text": "a"}, {"rows/n": 2, "rows/text": "b"}]


def test_digests_are_those_of_the_files(tmp_path: Path) -> None:
    path = write(tmp_path / "pets", "bag")
    seen: list[int] = []
    text = bushel.card(path, croissant=True, progress=lambda now: seen.append(now.bytes))
    files = [each for each in json.loads(text)["distribution"] if each["@type"] == "cr:FileObject"]
    assert seen[-1] == sum((path / each["contentUrl"]).stat().st_size for each in files)
    for each in files:
        assert each["sha256"] == hashlib.sha256((path / each["contentUrl"]).read_bytes()).hexdigest()


def test_published_data_have_urls(tmp_path: Path) -> None:
    write(tmp_path / "my pets", "tar")
    text = bushel.card(
        tmp_path / "my pets", tmp_path / "pets.json", croissant=True, base_url="https://data.example.org/sets/"
    )
    urls = [each["contentUrl"] for each in json.loads(text)["distribution"] if "contentUrl" in each]
    assert "https://data.example.org/sets/my%20pets/shard-000000.tar" in urls
    assert "https://data.example.org/sets/pets.parquet" in urls


def test_what_is_left_out_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "pets", "bag")
    bushel.card(path, croissant=True)
    text = caplog.text
    assert "Croissant requires license, url, creator" in text
    assert "consumers of Croissant cannot read values from a bag" in text
    assert "without a target, no index is exported" in text
    (tmp_path / "elsewhere").mkdir()
    said = fails("card", path, "--croissant", "-o", tmp_path / "elsewhere/pets.json")
    assert "is not below" in said
    assert not list((tmp_path / "elsewhere").iterdir())
