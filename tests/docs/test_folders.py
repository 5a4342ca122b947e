"""The table of layouts on the page about folders is what Bushel does."""

from __future__ import annotations

import re

import pytest
from tests.paths import ROOT

from bushel._recognise.layout import layout_of
from bushel._recognise.names import junk_kind

PAGE = (ROOT / "docs/folders.md").read_text("utf-8")
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| `.*` \| .* \| `", line)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_row_of_the_table(row: list[str]) -> None:
    names, _, fields = row
    files = [name for name in re.findall(r"`([^`]+)`", names) if not name.startswith("metadata")]
    found = layout_of(files)
    assert len({number for own in found.fields.values() for number in own.files} - {-1}) == len(files)
    shown = dict(part.split(": ") for part in re.findall(r"`([^`]+: [^`]+)`", fields))
    labelled = shown.pop("label", None) == "int"
    if shown.get("label") is None and "label" in found.fields:
        shown["label"] = "utf8"
    assert {name: own.codec for name, own in found.fields.items()} == shown
    assert bool(found.classes) == labelled


def test_the_rows_are_there() -> None:
    assert len(ROWS) > 8


@pytest.mark.parametrize(
    "name", ["._a.jpg", ".DS_Store", "__MACOSX/a", "Thumbs.db", "desktop.ini", "a~", ".ipynb_checkpoints/a"]
)
def test_junk_on_the_page(name: str) -> None:
    kind = junk_kind(name)
    assert kind is not None
    assert kind.removesuffix("/") in PAGE
