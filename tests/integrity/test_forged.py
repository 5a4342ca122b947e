"""Indexes and manifests that are whole (their CRC-32 fits) and say what the files do not: verify names each."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.integrity.small import jpeg

import bushel
from bushel._index.saving import save_index, sealed
from bushel._index.shard import Keys
from bushel._index.sidecar import load_index
from bushel._index.table import ShardIndex

SPEC = {"image": "jpg", "label": "int", "text": "utf8"}


def write(folder: Path, container: str, shard_samples: int | None = None) -> Path:
    names = {"label": ["cat", "dog", "emu"]}
    with bushel.Writer(
        folder, SPEC, container=container, labels=names, shard_samples=shard_samples, columns="auto", sync=False
    ) as writer:
        for number in range(6):
            writer.append({"image": jpeg(number), "label": number % 3, "text": f"t{number % 4}"}, key=f"k{number}")
    return folder


def sidecars(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


def forge(folder: Path, change: Callable[[ShardIndex], ShardIndex]) -> None:
    place = sidecars(folder)[0]
    index = change(load_index(place))
    place.unlink()
    save_index(index, place)


def field(index: ShardIndex, name: str, **facts: Any) -> ShardIndex:
    fields = {each: replace(own, **facts) if each == name else own for each, own in index.fields.items()}
    return replace(index, fields=fields)


def column(index: ShardIndex, name: str, **facts: Any) -> ShardIndex:
    return replace(index, columns={**index.columns, name: replace(index.columns[name], **facts)})


def swapped(values: Any, one: int, other: int) -> Any:
    order = np.arange(len(values))
    order[[one, other]] = order[[other, one]]
    return np.ascontiguousarray(values[order])


def swap_labels(index: ShardIndex) -> ShardIndex:
    return column(index, "label", values=swapped(index.columns["label"].values, 0, 1))


def swap_rows(index: ShardIndex) -> ShardIndex:
    own = index.fields["image"]
    assert own.crc32 is not None
    facts = {name: swapped(getattr(own, name), 2, 4) for name in ("offset", "length", "crc32")}
    return field(index, "image", **facts)


def another_text(index: ShardIndex) -> ShardIndex:
    text = index.columns["text"].text
    assert text is not None
    text = text.copy()
    text[4:6] = ord("E")
    return column(index, "text", text=text)


def renamed(index: ShardIndex) -> ShardIndex:
    own = index.fields["text"]
    fields = {**index.fields, "test": replace(own, field=replace(own.field, name="test"))}
    return replace(index, fields={name: fields[name] for name in ("image", "label", "test")}, columns={})


def another_width(index: ShardIndex) -> ShardIndex:
    return column(index, "image.width", values=index.columns["image.width"].values + np.eye(6, dtype="i8")[3])


def floats(index: ShardIndex) -> ShardIndex:
    values = index.columns["label"].values
    assert values is not None
    return column(index, "label", kind="float", values=values.astype("f8"))


def another_order(index: ShardIndex) -> ShardIndex:
    return replace(index, keys=Keys.of(["k1", "k0", *(f"k{number}" for number in range(2, 6))]))


def another_type(index: ShardIndex, name: str, codec: str) -> ShardIndex:
    return field(index, name, field=replace(index.fields[name].field, codec=codec), codec=codec)


def shorter(index: ShardIndex) -> ShardIndex:
    fields = {
        name: replace(own, offset=own.offset[:5], length=own.length[:5], crc32=own.crc32[:5])
        for name, own in index.fields.items()
        if own.crc32 is not None
    }
    assert index.keys is not None
    return replace(index, samples=5, fields=fields, columns={}, keys=Keys.of(index.keys.take(np.arange(5))))


def without_a_value(index: ShardIndex) -> ShardIndex:
    return field(index, "text", length=np.where(np.arange(6) == 1, -1, index.fields["text"].length))


def without_a_field(index: ShardIndex) -> ShardIndex:
    return replace(index, fields={name: index.fields[name] for name in ("image", "text")}, columns={})


FORGERIES: dict[str, tuple[Callable[[ShardIndex], ShardIndex], tuple[str | None, str | None]]] = {
    "labels of two samples": (swap_labels, ("k0", "label")),
    "a text": (another_text, ("k2", "text")),
    "a width": (another_width, ("k3", "image")),
    "no label": (lambda index: column(index, "label", missing=np.arange(6) == 5), ("k5", "label")),
    "the kind of a column": (floats, ("k0", "label")),
    "two rows": (swap_rows, ("k2", "image")),
    "a missing value": (without_a_value, ("k1", "text")),
    "class names": (lambda index: replace(index, labels={"label": ("dog", "cat", "emu")}), (None, None)),
    "a dropped field": (without_a_field, (None, None)),
    "the name of a field": (renamed, (None, None)),
    "the type of a field": (lambda index: another_type(index, "label", "uint"), (None, None)),
    "the type of images": (lambda index: another_type(index, "image", "png"), (None, None)),
    "a key": (lambda index: replace(index, keys=Keys.of(["k0", "k1", "kX", "k3", "k4", "k5"])), ("k2", None)),
    "the order of keys": (another_order, ("k0", None)),
    "a shorter table": (shorter, (None, None)),
}


@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "recordio"])
@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_index_is_found(tmp_path: Path, container: str, what: str) -> None:
    folder = write(tmp_path / "data", container)
    assert bushel.verify(folder).verdict == "ok"
    change, (key, name) = FORGERIES[what]
    forge(folder, change)
    result = bushel.verify(folder)
    assert not result.ok
    places = {(problem.key, problem.field) for problem in result.problems if not problem.warning}
    if key is not None and what not in ("a key", "the order of keys"):
        assert (key, name) in places, result.problems


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("samples", 5),
        ("stamps", [1]),
        ("checksums", False),
        ("keyed", False),
        ("spec", {**SPEC, "label": "uint"}),
        ("codecs", {}),
        ("labels", {"label": ["dog", "cat", "emu"]}),
        ("labels", {}),
        ("container", "tbr"),
        ("version", 7),
    ],
)
def test_a_forged_manifest_is_found(tmp_path: Path, name: str, value: Any) -> None:
    folder = write(tmp_path / "data", "tar", shard_samples=3)
    place = folder / ".bushel/manifest.json"
    manifest = json.loads(place.read_text())
    if name in manifest:
        manifest[name] = value
    else:
        manifest["shards"][1][name] = value
    place.write_bytes(sealed(json.dumps(manifest).encode()))
    [problem, *_] = bushel.verify(folder).problems
    assert (problem.kind, problem.file) == ("index", str(place))


def test_the_index_of_another_shard(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "tar", shard_samples=3)
    one, other = sidecars(folder)
    shutil.copy(other, one)
    assert not bushel.verify(folder).ok
    # with names, sizes and stamps of this shard
    files = bushel.open(folder / "shard-000000.tar", index="memory").shards[0].index.files
    index = load_index(other)
    one.unlink()
    save_index(replace(index, files=files), one)
    assert not bushel.verify(folder).ok


def test_an_index_elsewhere(tmp_path: Path) -> None:
    folder, place = write(tmp_path / "data", "tar"), tmp_path / "index"
    for own in folder.rglob(".bushel"):
        shutil.rmtree(own)
    bushel.index(folder, index=place, columns="auto")
    assert bushel.verify(folder, index=place).verdict == "ok"
    forge(place, swap_labels)
    assert not bushel.verify(folder, index=place).ok


def test_a_forged_digest_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "ds", "tar")
    place = sidecars(folder)[0]
    index = load_index(place)
    monkeypatch.setattr("bushel._index.saving.table_digest", lambda _: "0" * 32)
    save_index(index, place)
    found = [problem for problem in bushel.verify(folder).problems if "digest" in problem.message]
    assert [problem.kind for problem in found] == ["index", "index"]  # of the shard, and in the manifest


def test_borders_of_sequences(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"words": "utf8[]"}, container="bag", sync=False) as writer:
        for words in (["a", "b"], ["c"], []):
            writer.append({"words": words})

    def move(index: ShardIndex) -> ShardIndex:
        return field(index, "words", starts=np.array([0, 1, 3, 3]))

    forge(tmp_path / "data", move)
    found = bushel.verify(tmp_path / "data").problems
    named = {(problem.key, problem.field) for problem in found if "the manifest" not in problem.message}
    assert named == {("0", "words"), ("1", "words")}


def test_expanded_blocks_and_scans(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"n": number, "text": f"line {number}" * 5}) + "\n" for number in range(4000))
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows/a.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    bushel.index(tmp_path / "rows")
    assert bushel.verify(tmp_path / "rows").verdict == "ok"

    def shift(index: ShardIndex) -> ShardIndex:
        blocks = index.blocks[0]
        return replace(index, blocks=(replace(blocks, length=blocks.length - 1), *index.blocks[1:]))

    forge(tmp_path / "rows", shift)
    assert not bushel.verify(tmp_path / "rows").ok
    with bushel.Writer(tmp_path / "photos", {"image": "jpg"}, container="tar", seek=True, sync=False) as writer:
        for number in range(3):
            writer.append({"image": jpeg(number, 200)}, key=f"k{number}")
    assert bushel.verify(tmp_path / "photos").verdict == "ok"

    def change(index: ShardIndex) -> ShardIndex:
        seek = index.fields["image"].seek
        assert seek is not None
        words = seek.words.copy()
        words[-1] ^= np.uint64(1)
        return field(index, "image", seek=replace(seek, words=words))

    forge(tmp_path / "photos", change)
    found = bushel.verify(tmp_path / "photos").problems
    assert [(problem.key, problem.field) for problem in found] == [("k2", "image")]


@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "recordio"])
def test_an_empty_dataset_is_whole(tmp_path: Path, container: str) -> None:
    with bushel.Writer(tmp_path / "data", SPEC, container=container, sync=False):
        pass
    result = bushel.verify(tmp_path / "data")
    assert (result.ok, result.verdict, result.problems) == (True, "ok", ())


def test_a_declared_type_is_no_problem(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "tar")
    for own in folder.rglob(".bushel"):
        shutil.rmtree(own)
    bushel.index(folder, spec={"label": "utf8"})
    assert bushel.verify(folder).verdict == "ok"
    os.utime(folder / "shard-000000.tar")
    assert bushel.verify(folder).ok
