"""Every command takes URLs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.running import fails, run
from tests.sources.folders import jpeg
from tests.storage.objects.memory import Buckets, objects_in

import bushel
from bushel.cli.app import app
from bushel.storage import as_path, read_text, read_whole, remove, walk_names, write_whole
from bushel.storage.objects.location import ObjectPath


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Buckets:
    return Buckets(monkeypatch, tmp_path / "scratch")


@pytest.fixture
def data(buckets: Buckets) -> str:
    url = "s3://bucket/data"
    with bushel.Writer(url, {"image": "jpg", "label": "int"}, container="tar", shard_samples=3) as writer:
        for number in range(7):
            writer.append({"image": jpeg(number), "label": number}, key=f"key{number}")
    return url


def test_reading(data: str, tmp_path: Path) -> None:
    assert run("ls", data).split() == [f"key{number}" for number in range(7)]
    assert json.loads(run("info", data, "--json"))["samples"] == 7
    assert "s3://" not in run("info", data)
    assert [json.loads(line)["label"] for line in run("cat", data, "--fields", "label").splitlines()] == list(range(7))
    assert CliRunner().invoke(app, ["get", data, "key3", "image"]).stdout_bytes == jpeg(3)
    run("get", data, "key3", "image", "-o", "s3://bucket/out/3.jpg")
    assert read_whole(as_path("s3://bucket/out/3.jpg")) == jpeg(3)
    run("get", data, "key3", "image", "-o", tmp_path / "3.jpg")
    assert (tmp_path / "3.jpg").read_bytes() == jpeg(3)
    assert run("card", data, "-o", "s3://bucket/out/README.md") == "s3://bucket/out/README.md: written\n"
    assert read_text(as_path("s3://bucket/out/README.md")).startswith('---\npretty_name: "data"\n')
    assert f"{data}: ok" in run("verify", data)


def test_index(data: str) -> None:
    for name in list(walk_names(as_path(data))):
        if ".bushel" in name:
            remove(as_path(data) / name)
    assert json.loads(run("index", data, "--json"))["checksums"] is True
    assert len(bushel.open(data, index="require")) == 7


def test_writing(data: str) -> None:
    assert run("convert", data, "s3://bucket/x.rec", "-q") == ""
    assert "7 samples written as bag" in run("convert", data, "s3://bucket/bag", "-c", "bag")
    said = run("split", data, "s3://bucket/parts", "train=0.7", "val=0.3")
    assert "s3://bucket/parts/train: 5 samples" in said
    assert "7 samples written as tar" in run(
        "merge", "s3://bucket/y.tar", "s3://bucket/parts/train", "s3://bucket/parts/val"
    )


def test_repair(data: str, buckets: Buckets, tmp_path: Path) -> None:
    broken = as_path("s3://bucket/data/shard-000001.tar")
    stored = bytearray(read_whole(broken))
    stored[1024 + 600] ^= 1  # in the first sample of the shard, behind the header with the names of fields
    write_whole(broken, bytes(stored))
    kept = [f"key{number}" for number in (0, 1, 2, 4, 5, 6)]
    said = run("repair", data, "s3://bucket/fixed", "--json", code=1)
    done = json.loads(said)
    assert (done["target"], done["samples"], done["lost"], done["checked"]) == ("s3://bucket/fixed", 6, 1, True)
    assert [(problem["kind"], problem["key"]) for problem in done["problems"]] == [("checksum", "key3")]
    assert run("ls", "s3://bucket/fixed").split() == kept
    assert "s3://bucket/fixed: ok" in run("verify", "s3://bucket/fixed")
    run("repair", data, tmp_path / "here", "-q", code=1)
    fixed = ObjectPath.parse("s3://bucket/fixed")
    assert objects_in(fixed) == {path.name: path.read_bytes() for path in (tmp_path / "here").glob("*.tar")}
    run("repair", data, "s3://bucket/one.tar", "-q", code=1)
    assert run("ls", "s3://bucket/one.tar").split() == kept
    assert buckets.staged() == []
    assert list(buckets.scratch.iterdir()) == [buckets.scratch / f"bushel-{os.getuid()}"]
    before = objects_in(fixed, sidecars=True)
    said = fails("repair", data, "s3://bucket/fixed")
    assert "s3://bucket/fixed already holds a dataset, but a repair writes a new one: use another path" in said
    assert "--append" not in said
    assert objects_in(fixed, sidecars=True) == before


def test_a_repair_without_indexes(data: str, buckets: Buckets) -> None:
    for name in list(walk_names(as_path(data))):
        if ".bushel" in name:
            remove(as_path(data) / name)
    broken = as_path("s3://bucket/data/shard-000001.tar")
    write_whole(broken, read_whole(broken)[:1000])
    said = run("repair", data, "s3://bucket/fixed", code=1)
    assert "4 samples written as tar" in said
    assert run("ls", "s3://bucket/fixed").split() == [f"key{number}" for number in (0, 1, 2, 6)]


def test_packing(buckets: Buckets, tmp_path: Path) -> None:
    for number in range(6):
        write_whole(as_path(f"s3://bucket/photos/class{number % 2}/{number}.jpg"), jpeg(number))
    assert "6 samples written as bag" in run("pack", "s3://bucket/photos", "s3://bucket/packed", "-c", "bag")
    assert len(bushel.open("s3://bucket/packed")) == 6
    run("im2rec-list", "s3://bucket/lists/all", "s3://bucket/photos", "--recursive", "--no-shuffle")
    assert read_text(as_path("s3://bucket/lists/all.lst")).splitlines()[0] == "0\t0.000000\tclass0/0.jpg"
    run("pack", "s3://bucket/lists/all.lst", tmp_path / "x.rec", "--root", "s3://bucket/photos")
    assert len(bushel.open(tmp_path / "x.rec")) == 6
    run("pack", "s3://bucket/lists/all.lst", "s3://bucket/x.rec", "--root", "s3://bucket/photos")
    assert read_whole(as_path("s3://bucket/x.rec")) == (tmp_path / "x.rec").read_bytes()
