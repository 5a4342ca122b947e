"""Data cards in Markdown: what they say, and that the Hub and `bushel.open` read their front matter."""

from __future__ import annotations

import io
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.cards.described import write
from tests.cli.running import run

import bushel

yaml = pytest.importorskip("yaml")


def parts(card: str) -> tuple[dict[str, Any], str]:
    """Return the front matter of a card, and the rest."""
    _, front, rest = card.split("---\n", 2)
    return yaml.safe_load(front), rest


def rows(card: str, section: str) -> list[list[str]]:
    """Return the cells of the table in a section, without its header."""
    text = card.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def test_what_it_says(tmp_path: Path) -> None:
    path = write(tmp_path / "pets")
    bushel.remove(path, positions=[0], reason="opt-out | <b>")
    bushel.open(path).where("label == 'dog'").save_view("dogs")
    front, card = parts(
        bushel.card(
            path, title="Cats: dogs", description="Pets.", license="CC-BY-4.0", url="https://a.org", creators=["A"]
        )
    )
    assert front["pretty_name"] == "Cats: dogs"
    assert (front["license"], front["size_categories"]) == ("cc-by-4.0", ["n<1K"])
    assert front["configs"][0]["data_files"] == [{"split": "train", "path": ["*.tar"]}]
    assert card.startswith("\n# Cats: dogs\n\nPets.\n")
    assert "[CC-BY-4.0](https://spdx.org/licenses/CC-BY-4.0)" in card
    info = bushel.open(path).info
    assert rows(card, "Contents") == [["tar", "11", "1", "3", "3", rows(card, "Contents")[0][5], "yes"]]
    assert info.samples == 11
    assert [row[:3] for row in rows(card, "Fields")] == [
        ["image", "jpg", "jpg"],
        ["label", "int", "cls"],
        ["caption", "utf8", "utf8"],
        ["meta", "json", "json"],
    ]
    assert rows(card, "Classes of label") == [["0", "cat", "5"], ["1", "dog", "6"]]
    assert [row[0] for row in rows(card, "Columns")] == [
        *("image.width", "image.height", "label", "caption", "meta.license", "meta.url"),
    ]
    assert rows(card, "Columns")[4][-1] == "cc-by-4.0 (8), cc0-1.0 (3)"
    assert [row[1:] for row in rows(card, "Removed samples")] == [["1", "0", r"opt-out \| &lt;b&gt;"]]
    assert [row[0] for row in rows(card, "Saved views")] == ["dogs"]
    assert bushel.open(path).fingerprint in card
    assert "<caption>" not in card


def test_bushel_opens_the_splits_that_it_lists(tmp_path: Path) -> None:
    write(tmp_path / "all")
    bushel.split(tmp_path / "all", tmp_path / "out", {"train": 0.75, "validation": 0.25})
    said = run("card", tmp_path / "out", "-o", tmp_path / "out/README.md", "--license", "https://a.org/licence")
    assert said == f"{tmp_path / 'out/README.md'}: written\n"
    front, card = parts((tmp_path / "out/README.md").read_text())
    assert (front["license"], front["license_link"]) == ("other", "https://a.org/licence")
    assert [row[:3] for row in rows(card, "Contents")] == [["train", "tar", "9"], ["validation", "tar", "3"]]
    assert [row[1] for row in rows(card, "Classes of label")] == ["cat", "dog"]
    assert len(bushel.open(tmp_path / "out", split="train")) == 9
    assert len(bushel.open(tmp_path / "out", split="validation")) == 3


def test_a_card_among_the_data_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "pets", "bag")
    before = bushel.open(path).fingerprint
    bushel.card(path, path / "README.md")
    front, _ = parts((path / "README.md").read_text())
    assert "configs" not in front  # the Hub reads no bags
    assert bushel.open(path).fingerprint == before
    assert bushel.verify(path).ok


def test_datasets_without_an_index_or_labels(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with tarfile.open(tmp_path / "photos/a.tar", "w") as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = 3
        archive.addfile(info, io.BytesIO(b"abc"))
    front, card = parts(bushel.card(tmp_path / "photos"))
    assert front["tags"] == ["bushel", "tar"]
    assert "## Classes" not in card
    assert "CRC-32 in the index: not of every field" in card
    with pytest.raises(FileNotFoundError):
        bushel.card(tmp_path / "nothing")
