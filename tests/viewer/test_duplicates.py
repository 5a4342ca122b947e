"""Duplicates by checksum."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.viewer.serving import client_of

import bushel
from bushel.viewer.quality_pages import groups_of


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40))
def test_groups_are_all_values_that_appear_more_than_once(values: list[tuple[int, int]]) -> None:
    sums = np.array([value[0] for value in values], np.uint32)
    lengths = np.array([value[1] for value in values], np.int64)
    positions = np.arange(len(values), dtype=np.int64) * 2
    found = groups_of(sums, lengths, positions)
    counted = {value: count for value, count in Counter(values).items() if count > 1}
    assert len(found) == len(counted)
    sizes = np.diff(found.starts).tolist()
    assert sizes == sorted(counted.values(), reverse=True)
    assert found.wasted == sum((count - 1) * value[1] for value, count in counted.items())
    for at in range(len(found)):
        members = found.positions[found.starts[at] : found.starts[at + 1]].tolist()
        assert members == sorted(members)
        [value] = {values[member // 2] for member in members}
        assert value[1] == found.lengths[at]


def _written(path: Path) -> Path:
    with bushel.Writer(path, {"text": "utf8", "words": "utf8[]"}, container="bag") as writer:
        for number, text in enumerate(["a", "b", "a", "c", "b", "a"]):
            writer.append({"text": text * 10, "words": [text]}, key=f"k{number}")
    return path


def test_the_page_shows_groups_and_compares_their_bytes(tmp_path: Path) -> None:
    with client_of(_written(tmp_path / "data")) as client:
        text = client.get("/d/0/duplicates").text
    assert "2 groups of equal values" in text
    assert text.count("equal byte by byte") == 2
    assert text.index("3 samples") < text.index("2 samples")
    assert "5 of 6 samples are in groups; all but one of each group hold 30 bytes" in text


def test_of_a_view(tmp_path: Path) -> None:
    with client_of(bushel.open(_written(tmp_path / "data"))[[3, 4, 1]]) as client:
        text = client.get("/d/0/duplicates").text
    assert "1 group of equal values" in text
    assert 'href="/d/0/s/1"' in text
    assert 'href="/d/0/s/2"' in text


def test_without_checksums_the_page_says_so(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"text": "utf8"}, container="recordio") as writer:
        for text in "aab":
            writer.append({"text": text})
    shutil.rmtree(tmp_path / "data" / ".bushel")
    with client_of(tmp_path / "data") as client:
        text = client.get("/d/0/duplicates").text
    assert "3 samples have no recorded checksum" in text


@pytest.mark.parametrize(("field", "status"), [("words", 400), ("nothing", 404)])
def test_fields_that_have_none(tmp_path: Path, field: str, status: int) -> None:
    with client_of(_written(tmp_path / "data")) as client:
        assert client.get(f"/d/0/duplicates?field={field}").status_code == status
