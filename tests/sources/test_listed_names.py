"""The names in lists and listings stay in their folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sources.folders import image_folder

import bushel
from bushel.errors import FormatError, TooManyErrors
from bushel.sources import Files, LabelledFolder, ListFile, Table


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of photos, and one beside it that no list in it may name."""
    image_folder(tmp_path / "photos", 6)
    image_folder(tmp_path / "other", 6)
    return tmp_path / "photos"


def photo(folder: Path) -> str:
    return next(path for path in sorted(folder.rglob("*")) if path.is_file()).relative_to(folder).as_posix()


def sources(path: Path, name: str, **options: Any) -> list[Any]:
    (path / "set.lst").write_text(f"0\t1.0\t{name}\n")
    (path / "set.csv").write_text(f"path,label\n{name},1\n")
    (path / "set.json").write_text(json.dumps([{"path": name, "label": 1}]))
    return [
        ListFile(path / "set.lst", **options),
        Table(path / "set.csv", **options),
        Table(path / "set.json", **options),
    ]


LEADING_OUT = ["../other/{}", "{}/../../../other/{}", "{other}/{}", "file://{other}/{}"]


@pytest.mark.parametrize("form", LEADING_OUT)
def test_lists_that_lead_out(form: str, photos: Path) -> None:
    other = photos.parent / "other"
    name = form.replace("{other}", str(other)).replace("{}", photo(other))
    for source in sources(photos, name):
        with pytest.raises(FormatError, match="leads out of the folder"):
            source[0]
        with pytest.raises(TooManyErrors, match="none of the 1 items can be packed.*leads out of the folder"):
            bushel.pack(source, photos.parent / "out.tar", mode="overwrite", max_errors=1)


@pytest.mark.parametrize("form", ["{}", "./{}", "a/../{}", "{photos}/{}"])
def test_lists_that_stay(form: str, photos: Path) -> None:
    name = form.replace("{photos}", str(photos)).replace("{}", photo(photos))
    for source in sources(photos, name):
        assert source[0]["image"] == (photos / photo(photos)).read_bytes()


def test_a_root_that_allows_every_path(photos: Path) -> None:
    other = photos.parent / "other"
    for source in sources(photos, str(other / photo(other)), root="/"):
        assert source[0]["image"]


def test_rows_of_a_program_are_used_as_they_are(photos: Path) -> None:
    other = photos.parent / "other"
    assert Table([{"path": str(other / photo(other))}])[0]["image"]
    assert Table([{"path": f"../other/{photo(other)}"}], root=photos)[0]["image"]


def test_patterns_that_lead_out(photos: Path) -> None:
    (photos / "set.csv").write_text("id\n../other/class0/0000\n")
    with pytest.raises(FormatError, match="leads out of the folder"):
        Table(photos / "set.csv", file="{id}*")[0]


@pytest.mark.parametrize("name", ["../other/x.jpg", "/etc/passwd", "a/../../x.jpg", ""])
def test_listings(name: str, photos: Path) -> None:
    with pytest.raises(FormatError):
        Files(photos, listing=[name])[0]
    if name.endswith(".jpg"):
        with pytest.raises(FormatError):
            LabelledFolder(photos, listing=[f"{name}", f"class0/{name}"])[0]
