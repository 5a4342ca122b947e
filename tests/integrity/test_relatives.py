"""Samples of a dataset in other files: a removal list and a saved view follow them, and never take another."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.integrity.removed import write

import bushel

KEYS = [f"k{number:02}" for number in range(12)]
GONE = {"k02", "k05"}
LEFT = [key for key in KEYS if key not in GONE]
SAVED = ["k01", "k05", "k09"]


@pytest.fixture
def a(tmp_path: Path) -> Path:
    """A dataset from which two samples were removed after two views of it had been saved."""
    path = write(tmp_path / "a", count=12)
    bushel.open(path)[[1, 5, 9]].save_view("list")
    bushel.open(path).where("label >= 5").save_view("condition")
    bushel.remove(path, keys=sorted(GONE), reason="opt-out")
    return path


def reordered(a: Path, to: Path) -> Path:
    """The samples of A in reverse order, with its own files beside them."""
    whole = write(a.with_name("whole"), count=12)
    bushel.convert(bushel.open(whole)[::-1], to, container="tar", shard_samples=5, sync=False)
    return with_files_of(a, to)


def of_other_samples(a: Path, to: Path) -> Path:
    with bushel.Writer(to, {"data": "bytes", "label": "int"}, container="tar", sync=False) as writer:
        for number, key in enumerate(KEYS):
            writer.append({"data": b"another", "label": number}, key=key)
    return with_files_of(a, to)


def with_files_of(a: Path, to: Path) -> Path:
    """Put the removal list and the views of A beside other files."""
    shutil.copy(a / ".bushel/removed.safetensors", to / ".bushel")
    shutil.copytree(a / ".bushel/views", to / ".bushel/views")
    return to


def divided(a: Path, to: Path) -> Path:
    bushel.split(a, to / "parts", {"x": 0.5, "y": 0.5}, sync=False)
    bushel.merge([to / "parts/x", to / "parts/y"], to / "all", shard_samples=6, sync=False)
    return to / "all"


def converted(container: str) -> Callable[[Path, Path], Path]:
    def convert(a: Path, to: Path) -> Path:
        bushel.convert(a, to, container=container, sync=False)
        return to

    return convert


def copied(a: Path, to: Path) -> Path:
    return Path(shutil.copytree(a, to))


# how the dataset is made of A: its keys, those of each view if it has them, and whether it is "the same data"
RELATIVES: Mapping[str, tuple[Callable[[Path, Path], Path], list[str], dict[str, list[str]], bool]] = {
    "copied": (copied, LEFT, {"list": ["k01", "k09"], "condition": LEFT[4:]}, True),
    "reordered": (reordered, LEFT[::-1], {"list": ["k01", "k09"], "condition": LEFT[:3:-1]}, False),
    "other samples": (of_other_samples, KEYS, {"list": [], "condition": KEYS[5:]}, False),
    "divided and merged": (divided, LEFT, {}, False),
    "converted to bag": (converted("bag"), LEFT, {}, False),
    "converted to ffrecord": (converted("ffrecord"), LEFT, {}, False),
    "converted to recordio": (converted("recordio"), LEFT, {}, False),
}


@pytest.mark.parametrize("name", RELATIVES)
def test_datasets_made_of_another(name: str, a: Path, tmp_path: Path) -> None:
    make, keys, views, is_same = RELATIVES[name]
    path = make(a, tmp_path / "made")
    dataset = bushel.open(path)
    assert list(dataset.keys) == keys
    assert (dataset.fingerprint == bushel.open(a).fingerprint) == is_same
    for view, shown in views.items():
        with pytest.warns(UserWarning, match="stale"):
            assert list(bushel.open(path, view=view, allow_stale=True).keys) == shown
    assert list(bushel.open(a).keys) == LEFT


ROWS = [{"id": f"k{number}", "txt": f"row {number}", "cls": number} for number in range(6)]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(rows), path)


def write_zip(path: Path, rows: list[dict[str, Any]]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for row in rows:
            for suffix in ("txt", "cls"):
                archive.writestr(f"{row['id']}.{suffix}", str(row[suffix]))


def texts(path: Path, **options: Any) -> list[str]:
    return [sample["txt"] for sample in bushel.open(path, **options)]


@pytest.mark.parametrize(
    ("name", "write_rows"), [("x.jsonl", write_lines), ("x.parquet", write_parquet), ("x.zip", write_zip)]
)
def test_files_read_in_place(name: str, write_rows: Callable[[Path, list[Any]], None], tmp_path: Path) -> None:
    path, other = tmp_path / name, tmp_path / f"other-{name}"
    write_rows(path, ROWS)
    write_rows(other, ROWS)
    bushel.open(path)[[1, 4]].save_view("some")
    bushel.remove(path, positions=[2, 4], reason="opt-out")
    fingerprint, left = bushel.open(path).fingerprint, [f"row {number}" for number in (0, 1, 3, 5)]
    assert (texts(path), len(bushel.open(other))) == (left, 6)  # another file has its own list
    changed = [{**row, "txt": f"new {row['cls']}"} for row in ROWS]
    for rows, kept in ((ROWS[::-1], left[::-1]), (changed, [row["txt"] for row in changed]), (ROWS, left)):
        write_rows(path, rows)
        assert texts(path) == kept
        assert (bushel.open(path).fingerprint == fingerprint) == (rows is ROWS)
        if name == "x.zip":  # which has keys and checksums of its own
            with pytest.warns(UserWarning, match="stale"):
                assert texts(path, view="some", allow_stale=True) == ([] if rows is changed else ["row 1"])
        else:
            with pytest.raises(bushel.errors.StateError, match=r"no keys, or no checksums"):
                bushel.open(path, view="some", allow_stale=True)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_view_of_photos(indexed: bool, tmp_path: Path) -> None:
    """Another photo of the same name and length is never shown, with checksums or without."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.jpg").write_bytes(b"\xff\xd8\xff photo %d" % number)
    if indexed:
        bushel.index(folder)
    bushel.open(folder)[[1, 4]].save_view("some")
    (folder / "1.jpg").write_bytes(b"\xff\xd8\xff photo 9")
    with pytest.raises(bushel.errors.StateError, match="stale"):
        bushel.open(folder, view="some")
    if indexed:
        bushel.index(folder, force=True)
        with pytest.warns(UserWarning, match="stale"):
            assert list(bushel.open(folder, view="some", allow_stale=True).keys) == ["4"]
    else:
        with pytest.raises(bushel.errors.StateError, match=r"no checksums \(`bushel index`\)"):
            bushel.open(folder, view="some", allow_stale=True)


def test_joins(a: Path, tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", count=12)
    sides = [bushel.open(path).select_fields([field]) for path, field in ((whole, "label"), (a, "data"))]
    joined = bushel.join(*sides, on="key")
    assert list(joined.keys) == LEFT
    assert joined.fingerprint == bushel.join(*sides, on="key").fingerprint
    complete = bushel.join(sides[0], bushel.open(whole).select_fields(["data"]), on="key")
    assert joined.fingerprint != complete.fingerprint
    left = bushel.join(*sides, on="key", how="left")
    assert {sample["__key__"] for sample in left if sample.get("data") is None} == GONE


@pytest.mark.parametrize("name", ["data", "data.tar"])
def test_a_removed_sample_stays_out_of_another_container(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Digests are of stored bytes: an integer is decimal text in a tar, and binary in a bag. Values are compared."""
    path, spec = tmp_path / name, {"label": "int", "text": "utf8"}
    samples = {f"k{number}": {"label": number, "text": f"text {number}"} for number in range(8)}

    def write(container: str, changed: dict[str, Any], kind: str, **options: Any) -> None:
        with bushel.Writer(path, {**spec, "label": kind}, container=container, sync=False, **options) as writer:
            for key, sample in {**samples, **changed}.items():
                writer.append(sample, key=key)

    write("tar", {}, "int")
    first = bushel.remove(path, keys=["k1", "k2"], reason="one")
    second = bushel.remove(path, keys=["k5"], reason="two")
    # other bytes of equal values, and another sample under the key of a removed one
    kinds = {
        "data": [("bag", "int"), ("tar", "i64"), ("ffrecord", "int")],
        "data.tar": [("tar", "i64"), ("tar", "int")],
    }
    for container, kind in kinds[name]:
        caplog.clear()
        write(container, {"k2": {"label": 2, "text": "another"}}, kind, mode="overwrite")
        assert list(bushel.open(path).keys) == ["k0", "k2", "k3", "k4", "k6", "k7"]
        assert f"{path}: 2 of the new samples stay removed" in caplog.text
        assert f"{path}: 1 of the new samples have the keys of removed ones and are read" in caplog.text
    calls = [(call.call, call.samples, call.missing) for call in bushel.removals(path)]
    assert calls == [(first.call, 1, 1), (second.call, 1, 0)]
    bushel.restore(path, first.call)
    assert list(bushel.open(path).keys) == [key for key in samples if key != "k5"]


def test_what_was_erased_is_read_again_in_another_container(
    a: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is left to compare it with, so the writer says so."""
    whole = write(tmp_path / "whole", count=12)
    bushel.erase(a)
    other = "bag" if bushel.open(a).info.container == "tar" else "tar"
    bushel.convert(whole, a, container=other, mode="overwrite", sync=False)
    assert len(bushel.open(a)) == 12
    assert f"{a}: 2 of the new samples have the keys of removed ones and are read" in caplog.text
