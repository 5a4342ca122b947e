"""Columns of datasets: what `column`, `where` and `to_arrow` return, for every container, and when they are stale."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.models import CONTAINERS, MAGIC, make_samples, write

import bushel
from bushel.codecs import get_codec
from bushel.errors import SpecError


def column_of(dataset: bushel.Dataset, name: str) -> list[Any]:
    """The values of a column, None where they are missing."""
    values: list[Any] = dataset.column(name).tolist()  # of a masked array, with None
    return values


@pytest.mark.parametrize("shard_samples", [None, 7])
@pytest.mark.parametrize("container", CONTAINERS)
def test_columns_are_what_reading_gives(tmp_path: Path, container: str, shard_samples: int | None) -> None:
    samples = make_samples(container, 20)
    write(tmp_path / "data", container, samples, shard_samples=shard_samples)
    bushel.index(tmp_path / "data", columns=["label", "text", "text.length"])
    dataset = bushel.open(tmp_path / "data")
    whole = list(dataset)
    assert set(dataset.columns) >= {"label", "text", "text.length"}
    assert column_of(dataset, "label") == [sample.get("label") for sample in whole]
    assert column_of(dataset, "text") == [sample.get("text") for sample in whole]
    lengths = [len(sample["text"]) if "text" in sample else None for sample in whole]
    assert column_of(dataset, "text.length") == lengths
    assert column_of(dataset, "parts.length") == [len(each["parts"]) if "parts" in each else None for each in whole]
    stored = dataset.read(range(20), ["parts"], decode=False)
    sizes = [sum(map(len, each["parts"])) if "parts" in each else None for each in stored]
    assert column_of(dataset, "parts.bytes") == sizes
    view = dataset[[19, 0, 3, 3]].select_fields(["parts"])
    assert column_of(view, "label") == [whole[at]["label"] for at in (19, 0, 3, 3)]
    assert column_of(dataset[15:2:-3], "label") == [sample["label"] for sample in whole[15:2:-3]]
    assert column_of(pickle.loads(pickle.dumps(dataset[3:9])), "label") == [each["label"] for each in whole[3:9]]
    assert list(dataset[:0].column("label")) == []


def test_pieces_of_records(tmp_path: Path) -> None:
    """A recordio value in which the format's magic word is stored in pieces."""
    values = ["plain", (MAGIC * 3).decode("latin-1") + "é", "x" * 40, MAGIC.decode("latin-1")]
    with bushel.Writer(tmp_path / "a.rec", {"name": "bytes", "m": "json"}) as writer:
        for value in values:
            writer.append({"name": MAGIC * 5, "m": {"n": value, "l": [1, 2]}})
    bushel.index(tmp_path / "a.rec", columns="m.n,m.l.length,m.l.1,m.none")
    dataset = bushel.open(tmp_path / "a.rec")
    assert column_of(dataset, "m.n") == values
    assert column_of(dataset, "m.l.length") == [2] * 4
    assert column_of(dataset, "m.none") == [None] * 4


def test_images_arrays_and_clips(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (10, 12, 3), np.uint8)
    images = [get_codec(name).encode(pixels) for name in ("jpg", "png", "webp", "bmp")]
    images += [bytes(get_codec("jpg").encode(pixels[:, :, 0])), b"no image", bytes(images[0])[:40]]
    arrays = [np.zeros((number, 3), np.float32) for number in range(6)] + [np.array(4, np.int16)]
    with bushel.Writer(tmp_path / "a.tar", {"image": "image", "tokens": "npy"}) as writer:
        for image, array in zip(images, arrays, strict=True):
            writer.append({"image": image, "tokens": array})
    names = "image.width,image.height,image.format,image.channels,image.exif_orientation"
    bushel.index(tmp_path / "a.tar", columns=f"{names},tokens.length,tokens.shape.1,tokens.ndim,tokens.dtype")
    dataset = bushel.open(tmp_path / "a.tar")
    assert column_of(dataset, "image.width") == [12] * 5 + [None] * 2
    assert column_of(dataset, "image.height") == [10] * 5 + [None] * 2
    assert column_of(dataset, "image.format") == ["jpeg", "png", "webp", "bmp", "jpeg", None, None]
    assert column_of(dataset, "image.channels") == [3, 3, 3, 3, 1, None, None]
    assert column_of(dataset, "image.exif_orientation") == [1] * 5 + [None] * 2
    assert column_of(dataset, "tokens.length") == [0, 1, 2, 3, 4, 5, None]
    assert column_of(dataset, "tokens.shape.1") == [3] * 6 + [None]
    assert column_of(dataset, "tokens.ndim") == [2] * 6 + [0]
    assert column_of(dataset, "tokens.dtype") == ["float32"] * 6 + ["int16"]


def test_clips(tmp_path: Path) -> None:
    pytest.importorskip("av")
    clip = np.zeros((7, 32, 48, 3), np.uint8)
    with bushel.Writer(tmp_path / "a.tar", {"clip": "mp4(25)"}) as writer:
        writer.append({"clip": clip})
        writer.append({"clip": b"no clip"})
    bushel.index(tmp_path / "a.tar", columns="clip.frames,clip.duration,clip.fps")
    dataset = bushel.open(tmp_path / "a.tar")
    assert column_of(dataset, "clip.frames") == [7, None]
    assert column_of(dataset, "clip.fps") == [25.0, None]
    assert column_of(dataset, "clip.duration") == [pytest.approx(7 / 25), None]


def small(root: Path, count: int = 10) -> Path:
    with bushel.Writer(
        root, {"label": "int", "name": "utf8", "x": "float"}, container="tar", shard_samples=4
    ) as writer:
        for number in range(count):
            sample: dict[str, Any] = {"label": number % 3, "x": number / 2}
            if number % 5:
                sample["name"] = f"name {number % 2}"
            writer.append(sample)
    bushel.index(root, columns="label,name,x")
    return root


CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "label == 1": lambda s: s["label"] == 1,
    "label != 1 and x > 1": lambda s: s["label"] != 1 and s["x"] > 1,
    "0 < label <= 2 or x == 0": lambda s: 0 < s["label"] <= 2 or s["x"] == 0,
    "not (label == 0)": lambda s: s["label"] != 0,
    "label in (0, 2)": lambda s: s["label"] in (0, 2),
    "label not in [0]": lambda s: s["label"] != 0,
    "x * 2 + 1 >= 9 - label": lambda s: s["x"] * 2 + 1 >= 9 - s["label"],
    "-label < -1": lambda s: -s["label"] < -1,
    "(x // 1) % 2 == 1": lambda s: s["x"] // 1 % 2 == 1,
    "name == 'name 1'": lambda s: s.get("name") == "name 1",
    "name != 'name 1'": lambda s: "name" in s and s["name"] != "name 1",
    "not name == 'name 1'": lambda s: "name" in s and s["name"] != "name 1",
    "name is None": lambda s: "name" not in s,
    "name is not None": lambda s: "name" in s,
    "'1' in name": lambda s: "1" in s.get("name", ""),
    "name in {'name 0'} or label == 0": lambda s: s.get("name") == "name 0" or s["label"] == 0,
    "name == 'name 1' and label == 0": lambda s: s.get("name") == "name 1" and s["label"] == 0,
    "not (name == 'name 1' and label == 0)": lambda s: s["label"] != 0 or s.get("name", "name 1") != "name 1",
    "column('label') == 1": lambda s: s["label"] == 1,
    "label.bytes == 1": lambda s: True,
    "True": lambda s: True,
    "1 > 2": lambda s: False,
    "label == 1 == True": lambda s: s["label"] == 1,
    "1 == 1.0 and label < 99999999999999999999": lambda s: True,
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    return bushel.open(small(tmp_path_factory.mktemp("where") / "data"))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(asked: bushel.Dataset, condition: str) -> None:
    expected = [sample["__key__"] for sample in asked if CONDITIONS[condition](sample)]
    assert list(asked.where(condition).keys) == expected
    assert list(asked[::-1].where(condition).keys) == expected[::-1]


@pytest.mark.parametrize(
    "condition",
    [
        "",
        "label",
        "label ==",
        "__import__('os').system('true')",
        "label.__class__ == 3",
        "(lambda: 1)() == 1",
        "[x for x in (1,)] == 1",
        "label == 'a'",
        "name + 'x' == 'a'",
        "name * 1000000000 == 'a'",
        "2 ** 99999999 == label",
        "label if label else x",
        "label[0] == 1",
        "f'{label}' == '1'",
        "label == None",
        "label is 3",
        "label in name",
        "(label := 3) == 3",
        "label == 1; x",
        "1 / 0 == label",
        "(" * 200 + "label" + ")" * 200,
        "not " * 1500 + "label == 1",
        "label == 1" + " or label == 1" * 2000,
        "'\ud800' == name",
        "name < 3",
        "x == 1 << 3",
    ],
)
def test_refused_conditions(asked: bushel.Dataset, condition: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        asked.where(condition)


def test_masks_and_positions(asked: bushel.Dataset) -> None:
    chosen = asked[asked.column("name") == "name 1"]
    assert list(chosen.column("name")) == ["name 1"] * len(chosen)
    assert len(chosen) == len(asked.where("name == 'name 1'"))
    assert list(asked[np.array([3, 1])].column("x")) == [1.5, 0.5]
    with pytest.raises(IndexError):
        asked[asked.column("label")[:3] == 1]


def test_errors_say_what_to_do(asked: bushel.Dataset, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="did you mean 'label'"):
        asked.column("lable")
    with pytest.raises(TypeError, match="the name of a column is a text, not 3"):
        asked.column(3)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="did you mean 'name'"):
        asked.where("nam == 'a'")
    with bushel.Writer(tmp_path / "data", {"name": "utf8"}, container="tar", columns=()) as writer:
        writer.append({"name": "a"})
    with pytest.raises(KeyError, match=r"bushel index .*data --columns name\.length"):
        bushel.open(tmp_path / "data").column("name.length")
    with pytest.raises(SpecError, match="can have"):
        bushel.index(asked.shards[0].shard.root, columns="label.x")
    with pytest.raises(KeyError, match="did you mean"):
        bushel.index(asked.shards[0].shard.root, columns="lable")
    assert "label" in asked.columns


def test_columns_are_added_and_made_again(tmp_path: Path) -> None:
    root = small(tmp_path / "data")
    bushel.index(root, columns=" name.length,")
    dataset = bushel.open(root)
    assert dataset.columns == ("label", "name", "x", "name.length")
    arrays = dataset.column("label").copy()
    bushel.index(root, force=True)
    assert bushel.open(root).columns == dataset.columns
    assert np.array_equal(bushel.open(root).column("label"), arrays)


def test_columns_of_a_changed_file_are_not_used(tmp_path: Path) -> None:
    root, new = tmp_path / "a.rec", tmp_path / "new.rec"
    for path, labels in ((root, [1, 2, 3]), (new, [7, 8])):
        with bushel.Writer(path, {"label": "int", "x": "int"}) as writer:
            for label in labels:
                writer.append({"label": label, "x": label})
    bushel.index(root, columns="label")
    assert bushel.open(root).column("label").tolist() == [1, 2, 3]
    for name in ("rec", "idx"):
        new.with_suffix(f".{name}").replace(root.with_suffix(f".{name}"))
    with pytest.raises(KeyError, match="bushel index"):
        bushel.open(root).column("label")
    bushel.index(root, force=True)
    assert bushel.open(root).column("label").tolist() == [7, 8]


def test_only_the_shards_of_a_view_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = small(tmp_path / "data")
    monkeypatch.setattr("bushel._dataset.open.shards._STAT_ALL", 1)
    dataset = bushel.open(root)
    assert dataset[5:7].column("label").tolist() == [2, 0]
    assert [shard.loaded for shard in dataset.shards] == [False, True, False]


def test_arrow(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    samples = bushel.open(small(tmp_path / "data")).to_arrow()  # noqa: F841 - DuckDB finds it by name
    counts = duckdb.sql("SELECT label, count(*) FROM samples GROUP BY label ORDER BY label").fetchall()
    assert counts == [(0, 4), (1, 3), (2, 3)]
    assert duckdb.sql('SELECT count(*) FROM samples WHERE name IS NULL AND "label.extent".length > 0').fetchall() == [
        (2,)
    ]
    view = bushel.open(tmp_path / "data")[::-1].select_fields(["label"]).to_arrow()
    assert view.column_names == ["__key__", "label.extent", "label"]
    assert view.column("label").to_pylist() == [number % 3 for number in range(10)][::-1]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 1 << 64, None], [Decimal(1), Decimal(1 << 64), None]),
        ([-1, 1 << 63], [Decimal(-1), Decimal(1 << 63)]),
        ([0.5, (1 << 53) + 1, None], ["0.5", "9007199254740993", None]),
        ([10**40], [str(10**40)]),
        (["a", 1, None], ["a", "1", None]),
    ],
)
def test_arrow_of_numbers_that_no_dtype_holds(tmp_path: Path, values: list[Any], expected: list[Any]) -> None:
    pytest.importorskip("pyarrow")
    with bushel.Writer(tmp_path / "a.tar", {"m": "json"}) as writer:
        for value in values:
            writer.append({"m": {"x": value}})
    bushel.index(tmp_path / "a.tar", columns="m.x")
    assert bushel.open(tmp_path / "a.tar").to_arrow()["m.x"].to_pylist() == expected


def test_a_missing_column_of_one_file_among_others_names_the_file(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text('{"x": [1, 2]}\n')
    one, both = bushel.open(tmp_path / "a.jsonl"), bushel.open(tmp_path)
    with pytest.raises(KeyError, match=f"bushel index {tmp_path}/a.jsonl --columns x"):
        one.column("x")
    with pytest.raises(KeyError, match=f"bushel index {tmp_path} --columns x"):
        both.column("x")


def test_files_with_other_types_and_without_values(tmp_path: Path) -> None:
    (tmp_path / "lines").mkdir()
    for name, line in (("a", '{"x": null, "y": 1, "z": 1}'), ("b", '{"x": 2.5, "y": 1.5, "z": "s"}'), ("c", "")):
        (tmp_path / f"lines/{name}.jsonl").write_text(f"{line}\n")
    dataset = bushel.open(tmp_path / "lines", index="memory")
    assert dataset.spec == {"x": "float", "y": "float", "z": "json"}
    assert column_of(dataset, "x") == [None, 2.5]
    assert column_of(dataset, "y") == [1, 1.5]
    assert [sample["__key__"] for sample in dataset.where("x > 2")] == ["1"]
    bushel.convert(tmp_path / "lines", tmp_path / "tar", container="tar")
    assert [[sample.get(name) for name in "xyz"] for sample in bushel.open(tmp_path / "tar")] == [
        [None, 1, 1],
        [2.5, 1.5, "s"],
    ]


def test_a_file_without_samples_adds_no_field(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,text,old\n")
    (tmp_path / "b.csv").write_text("x,text\n1.5,a\n")
    assert bushel.open(tmp_path, index="memory").spec == {"x": "float", "text": "utf8"}
    assert set(bushel.open(tmp_path / "a.csv", index="memory").spec) == {"x", "text", "old"}


@pytest.mark.parametrize("container", ["tar", "bag", "recordio"])
def test_columns_of_times(tmp_path: Path, container: str) -> None:
    times = np.array(["2018-01-01T00:00:00.123", "2021-01-01"], "datetime64[ms]")
    with bushel.Writer(
        tmp_path / "ds", {"at": "datetime64(ms)", "took": "timedelta64(s)"}, container=container
    ) as writer:
        for number, time in enumerate(times):
            writer.append({"at": time, "took": np.timedelta64(number, "m")}, key=str(number))
    ds = bushel.open(tmp_path / "ds")
    assert ds.column("at").dtype == times.dtype
    assert column_of(ds, "at") == times.tolist()
    assert column_of(ds, "took") == [timedelta(0), timedelta(minutes=1)]
    assert ds.where("at > '2019-01-01'").keys[:] == ["1"]
