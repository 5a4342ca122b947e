from __future__ import annotations

from pathlib import Path

import pytest
from tests.sources.folders import jpeg

import bushel
from bushel.errors import FormatError, TooManyErrors
from bushel.sources import Recipe
from bushel.testing import check_source


def test_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(jpeg(1))
    (tmp_path / "words").write_text("two words")
    lines = "0.jpg photo.jpg\n0.txt text:a  caption\n\n1.txt file:words\n2.txt\tpipe:printf three\n"
    (tmp_path / "recipe").write_text(lines)
    with pytest.raises(TooManyErrors, match="runs a command: allow that"):
        bushel.pack(Recipe(tmp_path / "recipe", root=tmp_path), tmp_path / "x.tar")
    source = Recipe(tmp_path / "recipe", root=tmp_path, allow_commands=True)
    check_source(source)
    assert [dict(source[at]) for at in range(3)] == [
        {"__key__": "0", "jpg": jpeg(1), "txt": b"a  caption"},
        {"__key__": "1", "txt": b"two words"},
        {"__key__": "2", "txt": b"three"},
    ]
    bushel.pack(source, tmp_path / "y.tar")
    dataset = bushel.open(tmp_path / "y.tar")
    assert [sample["txt"] for sample in dataset] == ["a  caption", "two words", "three"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.jpg", "b.jpg", "a.cls"], "are not adjacent"),
        (["a.jpg", "a.JPG"], "has the member 'jpg' twice"),
        (["a"], "has no extension"),
        (["x/.jpg"], "has no extension"),
    ],
)
def test_what_makes_no_samples(names: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "recipe").write_text("".join(f"{name} text:x\n" for name in names))
    with pytest.raises(FormatError, match=message):
        Recipe(tmp_path / "recipe")


def test_a_line_without_a_place(tmp_path: Path) -> None:
    (tmp_path / "recipe").write_text("a.jpg a.jpg\nb.jpg\n")
    with pytest.raises(FormatError, match="line 2: expected a name and a location"):
        Recipe(tmp_path / "recipe")
