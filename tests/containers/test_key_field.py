"""Fields named `__key__`, which are the keys of rows and lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import run
from tests.containers.tfrecords import bytes_list, example, framed, int_list

import bushel
from bushel.errors import FormatError

KEYS = ["cat/1", 'ä "b"', "z"]


def _jsonl(path: Path, keys: list[Any]) -> Path:
    path = path / "rows.jsonl"
    path.write_text("".join(json.dumps({"n": number, "__key__": key}) + "\n" for number, key in enumerate(keys)))
    return path


def _csv(path: Path, keys: list[Any]) -> Path:
    path = path / "rows.csv"
    cells = ["" if key is None else '"' + key.replace('"', '""') + '"' if isinstance(key, str) else key for key in keys]
    path.write_text("__key__,n\n" + "".join(f"{key},{number}\n" for number, key in enumerate(cells)))
    return path


def _parquet(path: Path, keys: list[Any]) -> Path:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"__key__": keys, "n": range(len(keys))}), path / "rows.parquet")
    return path / "rows.parquet"


def _arrow(path: Path, keys: list[Any]) -> Path:
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"__key__": keys, "n": range(len(keys))})
    with pa.OSFile(str(path / "rows.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write(table)
    return path / "rows.arrow"


def _tfrecord(path: Path, keys: list[Any]) -> Path:
    path = path / "rows.tfrecord"
    made = []
    for number, key in enumerate(keys):
        own = {} if key is None else {"__key__": int_list(key) if isinstance(key, int) else bytes_list(key.encode())}
        made.append(example({"n": int_list(number), **own}))
    path.write_bytes(framed(made))
    return path


each_format = pytest.mark.parametrize("write", [_jsonl, _csv, _parquet, _arrow, _tfrecord])


@each_format
def test_texts_are_keys(write: Callable[[Path, list[Any]], Path], tmp_path: Path) -> None:
    path = write(tmp_path, KEYS)
    for index in ("memory", "auto"):
        dataset = bushel.open(path, index=index)
        assert dataset.spec == {"n": "int"}
        assert list(dataset.keys) == KEYS
        assert dataset[KEYS[1]] == {"__key__": KEYS[1], "n": 1}
        batch = next(iter(bushel.Loader(dataset, 3, shuffle=True, seed=1)))
        assert [KEYS[number] for number in batch["n"]] == batch["__key__"]
    bushel.index(path)
    assert bushel.open(path, index="require")["z"]["n"] == 2
    bushel.convert(path, tmp_path / "out", container="bag")
    assert list(bushel.open(tmp_path / "out").keys) == KEYS


@each_format
@pytest.mark.parametrize(
    ("keys", "problem"), [([1, 2], "has values of type int, and keys are texts"), (["a", None], "missing in sample 1")]
)
def test_other_values_are_left_out_and_reported(
    write: Callable[[Path, list[Any]], Path],
    keys: list[Any],
    problem: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    dataset = bushel.open(write(tmp_path, keys), index="memory")
    assert list(dataset) == [{"__key__": "0", "n": 0}, {"__key__": "1", "n": 1}]
    assert problem in caplog.text


def test_half_a_surrogate_is_not_a_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert bushel.open(_jsonl(tmp_path, ["a", "\ud800"]), index="memory").keys[1] == "1"
    assert "not Unicode" in caplog.text


@pytest.mark.parametrize("more", [b"", bytes_list(b"a", b"b")])
def test_features_are_keys_whatever_other_features_are(more: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    key, label = {"__key__": bytes_list("ä".encode())}, {"n": int_list(1)}
    path.write_bytes(
        framed([example(key | label), example({"__key__": bytes_list(b"b")} | ({"m": more} if more else {}))])
    )
    assert list(bushel.open(path).keys) == ["ä", "b"]
    path.write_bytes(
        framed([example(key | label | ({"m": more} if more else {})), example({"__key__": bytes_list(b"\xff")})])
    )
    with pytest.raises(FormatError, match=r"sample 1, field '__key__': .*spec={'data': 'bytes'}"):
        bushel.open(path, index="memory")
    assert len(bushel.open(path, index="memory", spec={"data": "bytes"})) == 2


def test_lists_of_texts_are_not_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(framed([example({"__key__": bytes_list(b"a", b"b"), "n": int_list(1)})]))
    assert list(bushel.open(path)) == [{"__key__": "0", "n": 1}]
    assert "has values of type bytes[], and keys are texts" in caplog.text


def test_what_cat_prints_can_be_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = bushel.open(_jsonl(tmp_path, KEYS))
    monkeypatch.chdir(tmp_path)
    Path("again.jsonl").write_text(run("cat", "rows.jsonl"))
    again = bushel.open("again.jsonl")
    assert (again.spec, list(again)) == (first.spec, list(first))
