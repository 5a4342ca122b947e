"""Columns that writers record: they equal columns of the stored bytes, however a dataset was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.models import CONTAINERS, MAGIC, make_samples, write

import bushel
from bushel._index import contents
from bushel.codecs import get_codec
from bushel.errors import SpecError


def values_of(path: Path) -> dict[str, list[Any]]:
    """The columns of a dataset, None where a value is missing."""
    dataset = bushel.open(path)
    return {name: dataset.column(name).tolist() for name in dataset.columns}


@pytest.mark.parametrize("container", CONTAINERS)
def test_recorded_columns_equal_stored_values(tmp_path: Path, container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = make_samples(container, 30)
    write(tmp_path / "recorded", container, samples, shard_samples=8)
    with monkeypatch.context() as patched:
        patched.setattr(contents.Recorder, "recorded", lambda *_: {})
        write(tmp_path / "read", container, samples, shard_samples=8)
    recorded, read = (sorted((tmp_path / name).rglob("*.safetensors")) for name in ("recorded", "read"))
    assert [path.stat().st_size for path in recorded] == [path.stat().st_size for path in read]
    found = values_of(tmp_path / "recorded")
    assert found == values_of(tmp_path / "read")
    whole = list(bushel.open(tmp_path / "recorded"))
    assert set(found) == {"label", "text"}
    assert found["label"] == [sample["label"] for sample in whole]
    assert found["text"] == [sample.get("text") for sample in whole]


def image(number: int) -> bytes:
    pixels = np.full((4 + number % 3, 8, 3), number, np.uint8)
    return bytes(get_codec(["jpg", "png", "webp"][number % 3]).encode(pixels))


SPEC = {"image": "image", "label": "int", "name": "utf8", "x": "float", "m": "json", "data": "bytes"}


def sample(number: int) -> dict[str, Any]:
    data = MAGIC * 3 if number == 5 else bytes(number)
    own = {"image": image(number), "label": (number - 3) * 1000, "name": f"n{number % 2}", "x": number / 3}
    return {**own, "m": {"a": [number]}, "data": data}


def expected(count: int) -> dict[str, list[Any]]:
    return {
        "image.width": [8] * count,
        "image.height": [4 + number % 3 for number in range(count)],
        "label": [(number - 3) * 1000 for number in range(count)],
        "name": [f"n{number % 2}" for number in range(count)],
        "x": [number / 3 for number in range(count)],
    }


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_all_ways_to_write(tmp_path: Path, container: str) -> None:
    one, two, three = tmp_path / "one", tmp_path / "two", tmp_path / "three"
    with bushel.Writer(one, SPEC, container=container, shard_samples=7) as writer:
        for number in range(20):
            writer.append(sample(number), key=f"k{number}")
    assert values_of(one) == expected(20)
    with bushel.Writer(two, SPEC, container=container, shard_samples=7) as writer:
        columns: dict[str, Any] = {name: [sample(number)[name] for number in range(20)] for name in SPEC}
        columns["label"] = np.array(columns["label"])
        writer.extend(columns, keys=[f"k{number}" for number in range(20)])
    assert values_of(two) == expected(20)
    with bushel.Writer(three, SPEC, container=container) as writer:
        for number in range(12):
            writer.append(sample(number), key=f"k{number}")
    bushel.index(three, columns="m.a.0")
    with bushel.Writer(three, container=container, mode="append") as writer:
        for number in range(12, 20):
            writer.append(sample(number), key=f"k{number}")
    assert values_of(three) == {**expected(20), "m.a.0": list(range(20))}
    bushel.convert(three, tmp_path / "four", container="tar", rename={"m": "meta"})
    assert values_of(tmp_path / "four") == {**expected(20), "meta.a.0": list(range(20))}


def test_resumed_writes_have_them_too(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for first, end in ((0, 8), (6, 13), (12, 14)):
        writer = bushel.Writer(path, SPEC, container="tar", shard_samples=6, mode="resume")
        assert len(writer) == first
        for number in range(first, end):
            writer.append(sample(number), key=f"k{number}")
        writer.close() if end == 14 else writer.suspend()
    assert values_of(path) == expected(14)


@pytest.mark.parametrize("interrupted", [False, True])
def test_appended_shards_decide_by_their_own_texts(tmp_path: Path, interrupted: bool) -> None:
    """Whether a text is short is decided shard by shard, also after the run that appends was interrupted."""
    path, spec = tmp_path / "data", {"label": "int", "text": "utf8"}
    with bushel.Writer(path, spec, container="tar", shard_samples=2) as writer:
        for number in range(2):
            writer.append({"label": number, "text": "short"}, key=f"k{number}")
    writer = bushel.Writer(path, container="tar", shard_samples=2, mode="append")
    for number in range(2, 8):
        if interrupted and number in (4, 6):
            writer.suspend()
            writer = bushel.Writer(path, spec, container="tar", shard_samples=2, mode="resume")
        writer.append({"label": number, "text": "short" if number > 5 else "long" * 100}, key=f"k{number}")
    writer.close()
    names = [bushel.open(shard).columns for shard in sorted(path.glob("*.tar"))]
    long = ("label", "text.length")
    assert names == [("label", "text"), long, long, ("label", "text")]


def test_given_columns(tmp_path: Path) -> None:
    for columns, names in (
        ((), ()),
        ("label", ("label",)),
        (["m.a.0", "auto"], (*expected(0), "m.a.0")),
        (["image.format", "data.bytes"], ("image.format",)),
    ):
        with bushel.Writer(tmp_path / "a.tar", SPEC, mode="overwrite", columns=columns) as writer:
            for number in range(4):
                writer.append(sample(number))
        assert bushel.open(tmp_path / "a.tar").columns == names
    with bushel.Writer(tmp_path / "b.tar", SPEC, columns=()) as writer:
        writer.append(sample(0))
    with bushel.Writer(tmp_path / "b.tar", mode="append") as writer:
        writer.append(sample(1))
    assert bushel.open(tmp_path / "b.tar").columns == ()


def test_wrong_columns_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="did you mean 'label'"):
        bushel.Writer(tmp_path / "data", SPEC, columns=["lable"], container="tar")
    with pytest.raises(SpecError, match="can have"):
        bushel.Writer(tmp_path / "data", SPEC, columns=["image.size"], container="tar")
    assert not (tmp_path / "data").exists()


def test_long_texts_are_not_recorded(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tar", {"caption": "utf8", "name": "utf8"}) as writer:
        for number in range(10):
            writer.append({"caption": f"{number} " * 20, "name": "x" * number * 7})
    assert bushel.open(tmp_path / "a.tar").columns == ("caption.length", "name")
    with bushel.Writer(tmp_path / "b.tar", {"caption": "utf8"}, columns="caption") as writer:
        for number in range(10):
            writer.append({"caption": "é" * 30 * number})
    assert values_of(tmp_path / "b.tar") == {
        "caption": ["é" * 30 * number if number * 60 <= 256 else None for number in range(10)]
    }


def test_pack_in_parts_merge_split_and_repair(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a", SPEC, container="tar", shard_samples=5) as writer:
        for number in range(12):
            writer.append(sample(number), key=f"k{number}")
    for parts in (None, 3):
        bushel.pack(tmp_path / "a", tmp_path / f"packed{parts}", container="bag", parts=parts, columns="auto,m.a.0")
        assert values_of(tmp_path / f"packed{parts}") == {**expected(12), "m.a.0": list(range(12))}
    bushel.index(tmp_path / "a", columns="data.bytes,m.a.0")
    from bushel._pack import merge, split

    merge([tmp_path / "a", bushel.open(tmp_path / "a")[:2]], tmp_path / "merged", keys=False)
    assert values_of(tmp_path / "merged")["m.a.0"] == [*range(12), 0, 1]
    split(tmp_path / "a", tmp_path / "split", {"x": 0.5, "y": 0.5})
    both = [values_of(tmp_path / "split" / name)["m.a.0"] for name in ("x", "y")]
    assert sorted(both[0] + both[1]) == list(range(12))
    [shard, *_] = sorted((tmp_path / "a").glob("*.tar"))
    shard.write_bytes(shard.read_bytes()[:-6000])
    bushel.repair(tmp_path / "a", tmp_path / "fixed")
    fixed = bushel.open(tmp_path / "fixed")
    assert {"m.a.0", "label", "image.width"} <= set(fixed.columns)
    assert fixed.column("m.a.0").tolist() == [each["m"]["a"][0] for each in fixed]


@pytest.mark.parametrize("texts", [["é" * number for number in range(9)], ["é" * 90 * number for number in range(9)]])
@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord"])
def test_lengths_of_texts_are_columns(tmp_path: Path, container: str, texts: list[str]) -> None:
    """Short texts are a column themselves, which has their lengths; those of long ones are a column of their own."""
    expected = [len(text) for text in texts]
    with bushel.Writer(tmp_path / "one", {"text": "utf8"}, container=container, shard_samples=4) as writer:
        for text in texts:
            writer.append({"text": text})
    with bushel.Writer(tmp_path / "many", {"text": "utf8"}, container=container) as writer:
        writer.extend({"text": texts})
    bushel.convert(tmp_path / "one", tmp_path / "converted", container="bag")
    for name in ("one", "many", "converted"):
        dataset = bushel.open(tmp_path / name)
        assert dataset.column("text.length").tolist() == expected
        assert dataset[::-1].column("text.length").tolist() == expected[::-1]
    loader = bushel.Loader(bushel.open(tmp_path / "one"), 2, bucket_by="text.length")
    assert sum(len(batch["text"]) for batch in loader) == 9


def test_recorded_lengths_of_texts_equal_those_that_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = ["a" * 500, "é" * 400, b"\xff" * 300, None, "", b"\xc3", b"\xa9" * 9]
    found = []
    for recorded in (True, False):
        with monkeypatch.context() as patched:
            if not recorded:
                patched.setattr(contents.Recorder, "recorded", lambda *_: {})
            path = tmp_path / str(recorded)
            with bushel.Writer(path, {"text": "utf8", "n": "int"}, container="tar") as writer:
                for number, value in enumerate(values):
                    writer.append({"n": number} | ({} if value is None else {"text": value}))
        found.append(bushel.open(path).column("text.length"))
    assert found[0].tolist() == found[1].tolist() == [500, 400, None, None, 0, None, None]
