"""The table of a folder of many files, which the next opening takes from the user's cache of tables."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import bushel
from bushel.codecs import get_codec
from bushel.containers import kept_folder
from bushel.errors import FormatError

FILES = 80
"""More than the 64 files of a shard that stay open."""


def photo(path: Path, level: int) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = bytes(get_codec("jpg").encode(np.full((8, 8, 3), level, np.uint8)))
    path.write_bytes(data)
    return data


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of 80 photos in four folders, of which the first opening keeps a table."""
    monkeypatch.setattr(kept_folder, "_MANY", 10)
    monkeypatch.setattr(kept_folder, "_SETTLED_NS", -(10**15))
    for number in range(FILES):
        photo(tmp_path / "photos" / f"c{number % 4}" / f"{number:03}.jpg", number)
    return tmp_path / "photos"


def shift(path: Path, seconds: int = 10) -> None:
    """Give a folder or file another time, as a change after some time does."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + seconds * 10**9))


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    ds = bushel.open(folder)
    labels = ds.read(range(len(ds)), ["label"])
    found = ds.read(range(len(ds)), ["image"], decode=False)
    return {a["__key__"]: (bytes(a["image"]), b["label"]) for a, b in zip(found, labels, strict=True)}


def is_kept(folder: Path) -> bool:
    return kept_folder.names_below(folder).table is not None


def test_the_second_opening_gives_the_same(photos: Path) -> None:
    first, wanted = bushel.open(photos), contents(photos)
    assert is_kept(photos)
    second = bushel.open(photos)
    assert (second.spec, second.labels, list(second.keys)) == (first.spec, first.labels, list(first.keys))
    assert [len(each.where("label == 'c2'")) for each in (first, second)] == [FILES // 4] * 2
    assert second.fingerprint == first.fingerprint
    assert contents(photos) == wanted
    again = pickle.loads(pickle.dumps(second))
    assert bytes(again.read([7], ["image"], decode=False)[0]["image"]) == wanted[second.keys[7]][0]
    assert bushel.open(photos, spec={"image": "image"}).spec["image"] == "image"
    assert not (photos / ".bushel").exists()


def test_the_files_of_a_kept_folder_are_not_looked_at(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bushel._dataset.open.shards._STAT_ALL", 1)
    bushel.open(photos)
    assert is_kept(photos)
    looked_at: list[str] = []
    stat = Path.stat

    def noted(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        looked_at.append(path.suffix)
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", noted)
    assert len(bushel.open(photos)) == FILES
    assert ".jpg" not in looked_at


def test_a_file_that_is_written_in_place_is_noticed_when_it_is_read(photos: Path) -> None:
    bushel.open(photos)
    path = photos / "c1" / "005.jpg"
    with open(path, "r+b") as file:  # the times of its folder stay
        file.write(path.read_bytes())
    shift(path)
    ds = bushel.open(photos)
    assert ds["c1/001"]["label"] == 1
    with pytest.raises(FormatError, match=r"005\.jpg: the file has changed since .*open the dataset again"):
        ds["c1/005"]
    assert not is_kept(photos)
    assert bushel.open(photos)["c1/005"]["label"] == 1


def test_a_large_file_that_is_written_in_place_is_noticed(photos: Path) -> None:
    large = photos / "c0" / "000.jpg"
    large.write_bytes(large.read_bytes() + bytes(2 << 20))
    bushel.open(photos)
    with open(large, "ab") as file:
        file.write(b"more")
    ds = bushel.open(photos)
    with pytest.raises(FormatError, match=r"000\.jpg: the file has changed since"):
        ds["c0/000"]
    assert bushel.open(photos)["c0/000"]["label"] == 0


@pytest.mark.parametrize("change", ["add", "remove", "rename", "folder", "replace"])
def test_a_change_of_a_folder_is_seen(photos: Path, change: str) -> None:
    before = contents(photos)
    wanted, own = dict(before), photos / "c3" / "007.jpg"
    if change == "add":
        wanted["c3/new"] = (photo(photos / "c3" / "new.jpg", 99), 3)
    elif change == "remove":
        own.unlink()
        del wanted["c3/007"]
    elif change == "rename":
        own.rename(own.with_name("x.jpg"))
        wanted["c3/x"] = wanted.pop("c3/007")
    elif change == "folder":
        wanted["d/1"] = (photo(photos / "d" / "1.jpg", 50), 4)
    else:
        wanted["c3/007"] = (photo(photos.parent / "other.jpg", 200), 3)
        os.replace(photos.parent / "other.jpg", own)
    shift(photos if change == "folder" else photos / "c3")
    assert contents(photos) == wanted != before


def test_metadata_that_are_written_in_place_are_read_again(photos: Path) -> None:
    metadata = photos / "metadata.csv"
    metadata.write_text("file_name,stars\n" + "".join(f"c{n % 4}/{n:03}.jpg,{n}\n" for n in range(FILES)))
    assert bushel.open(photos)["c1/005"]["stars"] == 5
    assert is_kept(photos)
    assert (bushel.open(photos)["c1/005"]["stars"], bushel.open(photos).where("stars > 77")[0]["stars"]) == (5, 78)
    with open(metadata, "r+") as file:
        file.write("file_name,moons\n")
    shift(metadata)
    assert bushel.open(photos)["c1/005"]["moons"] == 5


def test_what_is_damaged_is_not_used(photos: Path) -> None:
    wanted = contents(photos)
    [path] = Path(os.environ["BUSHEL_TABLES_DIR"]).rglob("*-0")
    path.write_bytes(path.read_bytes()[:-3])
    assert contents(photos) == wanted
    assert is_kept(photos)


def test_a_table_of_older_rules_is_not_used(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(kept_folder, "_LAYOUT", 4)  # `train_images` was a class
        bushel.open(photos)
        assert is_kept(photos)
    assert not is_kept(photos)


def test_an_index_looks_at_all_files(photos: Path) -> None:
    bushel.open(photos)
    path = photos / "c1" / "005.jpg"
    with open(path, "ab") as file:
        file.write(b"more")
    ds = bushel.index(photos)
    assert bytes(ds.read([ds.position("c1/005")], ["image"], decode=False)[0]["image"]) == path.read_bytes()
    assert bushel.verify(photos).ok


def test_names_that_are_no_text(photos: Path) -> None:
    try:
        photo(photos / "c0" / os.fsdecode(b"\xff.jpg"), 1)
    except OSError:
        pytest.skip("this file system takes text only")
    wanted = contents(photos)
    assert is_kept(photos)
    assert contents(photos) == wanted
    photo(photos / os.fsdecode(b"\xfe") / "1.jpg", 1)  # the name of a class is in the header of a table, which is text
    shift(photos)
    assert len(bushel.open(photos)) == FILES + 2


def test_nothing_is_kept_of_few_files_or_without_a_cache(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSHEL_TABLES_SIZE", "0")
    wanted = contents(photos)
    assert contents(photos) == wanted
    monkeypatch.setenv("BUSHEL_TABLES_SIZE", "1MB")
    monkeypatch.setattr(kept_folder, "_MANY", FILES + 1)
    bushel.open(photos)
    assert not is_kept(photos)


def test_a_folder_that_changed_a_moment_ago_is_not_kept(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_folder, "_SETTLED_NS", 10**15)
    bushel.open(photos)
    assert not is_kept(photos)
