"""The samples of a zip archive, beside `zipfile`: members in any order, in steps of any size."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path

import pytest
from tests.containers.zip_archives import check, written

import bushel
from bushel.containers import zip as container
from bushel.containers.tar import samples
from bushel.errors import FormatError


def shuffle_directory(path: Path, rng: random.Random) -> None:
    """Bring the entries of the directory of an archive into another order."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"changed"
        rng.shuffle(archive.filelist)


@pytest.mark.parametrize("step", [1, 3, 1 << 16])
@pytest.mark.parametrize("seed", range(4))
def test_members_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, step: int) -> None:
    monkeypatch.setattr(container, "STEP", step)
    rng = random.Random(seed)
    names = [f"{number % 9}.{each}" for number in range(30) for each in rng.sample(["txt", "bin", "a.bin", "XML"], 2)]
    names = [*dict.fromkeys(names), "none", ".h/x.txt"]
    if seed % 2:
        rng.shuffle(names)
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name in names:
            archive.writestr(name, name * rng.randrange(5), rng.choice((0, 8)) if seed > 1 else 0)
    check(tmp_path / "x.zip")
    shuffle_directory(tmp_path / "x.zip", rng)
    check(tmp_path / "x.zip")


@pytest.mark.parametrize("step", [2, 1 << 16])
def test_sequences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(container, "STEP", step)
    found = {
        "a.f.002.txt": b"3",
        "b.cls": b"1",
        "a.f.000.txt": b"1",
        "c.f.000.txt": b"x",
        "a.f.001.txt": b"",
        "c.cls": b"2",
    }
    with bushel.open(written(tmp_path / "x.zip", found), index="memory", spec={"f": "utf8[]", "cls": "cls"}) as ds:
        assert list(ds.spec) == ["f", "cls"]
        assert list(ds) == [
            {"__key__": "a", "f": ["1", "", "3"]},
            {"__key__": "b", "f": [], "cls": 1},
            {"__key__": "c", "f": ["x"], "cls": 2},
        ]
    found["a.f.02.txt"] = b"again"
    with pytest.raises(FormatError, match=r"'a\.f\.02\.txt': its sample already has a member for the field 'f'"):
        bushel.open(written(tmp_path / "x.zip", found), spec={"f": "utf8[]"})


@pytest.mark.parametrize("step", [1, 1 << 16])
def test_two_members_for_one_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(container, "STEP", step)
    found = {"a.txt": b"1", "b.txt": b"2", "a.TXT": b"3"}
    with pytest.raises(FormatError, match=r"'a\.TXT': its sample already has a member for the field 'txt'"):
        bushel.open(written(tmp_path / "x.zip", found))


def test_names_that_make_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "_MOST_CELLS", 1000)
    monkeypatch.setattr(samples, "_CELLS_PER_MEMBER", 1)
    with pytest.raises(FormatError, match="40 different extensions in 40 samples"):
        bushel.open(written(tmp_path / "x.zip", {f"{number}.{number}": b"" for number in range(40)}))
    with pytest.raises(FormatError, match="'__key__', which is reserved"):
        bushel.open(written(tmp_path / "x.zip", {"a.__key__": b""}))


def test_a_stored_member_of_two_sizes(tmp_path: Path) -> None:
    data = bytearray(written(tmp_path / "x.zip", {"a.txt": b"one", "b.txt": b"two"}).read_bytes())
    data[data.index(b"PK\1\2") + 24] = 9
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(FormatError, match=r"'a\.txt' has 9 bytes, stored in 3 without compression"):
        bushel.open(tmp_path / "x.zip")
