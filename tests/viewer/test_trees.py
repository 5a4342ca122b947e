"""Chats and tables in values of JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.viewer.serving import client_of

import bushel
from bushel.viewer.rows import chat_of, table_of


@pytest.mark.parametrize(
    ("value", "turns"),
    [
        ([{"role": "user", "content": "Hi"}], [("user", "Hi")]),
        ([{"from": "human", "value": "Hi", "id": 3}], [("human", "Hi")]),
        ([{"role": "assistant", "content": None, "tool_calls": []}], [("assistant", "")]),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}, {"type": "text", "text": "What?"}]}],
            [("user", "[image_url]\nWhat?")],
        ),
        ([{"role": "user", "content": ["a", "b"]}], [("user", "a\nb")]),
        ([{"role": "admin", "name": "x"}], []),
        ([{"role": "user", "content": "Hi"}, "there"], []),
        ({"role": "user", "content": "Hi"}, []),
        ([], []),
        ("Hi", []),
    ],
)
def test_chats(value: Any, turns: list[tuple[str, str]]) -> None:
    assert chat_of(value) == turns


@pytest.mark.parametrize(
    ("value", "table"),
    [
        ([{"id": 1, "x": None}, {"id": 2, "x": "b"}], (["id", "x"], [["1", "null"], ["2", "b"]])),
        ([{"id": 1}, {"name": "b"}], None),
        ([{"id": [1]}], None),
        ([{"id": 1}, 3], None),
        ([], None),
        ({"id": 1}, None),
    ],
)
def test_tables(value: Any, table: Any) -> None:
    assert table_of(value) == table


def test_chats_are_the_tiles_and_searched_by_other_columns(tmp_path: Path) -> None:
    spec = {"source": "utf8", "label": "int", "messages": "json", "rows": "json"}
    with bushel.Writer(tmp_path / "data", spec, container="tar", labels={"label": ["Dog", "cat"]}) as writer:
        for number, source in enumerate(("Books", "web", "web")):
            turns = [{"role": "user", "content": f"number {number}?"}, {"role": "assistant", "content": "<b>"}]
            row = {"source": source, "label": number % 2, "messages": turns, "rows": [{"id": 1}, {"id": 2}]}
            writer.append(row, key=f"k{number}")
    bushel.index(tmp_path / "data", columns=["source", "label"]).close()
    with client_of(tmp_path / "data") as client:
        [first, *_] = client.get("/api/0/rows").json()["rows"]
        assert first["cells"][0]["field"] == "messages"
        assert dict(first["values"])["messages"] == "user: number 0? assistant: <b>"
        page = client.get("/d/0/s/0").text
        assert "<b>user</b><p>number 0?</p>" in page
        assert "<p>&lt;b&gt;</p>" in page
        assert '<th scope="col">id</th>' in page
        for text, expected in (("book", [0]), ("dog", [0, 2]), ("K1", [1]), ("^boo", []), ("web", [1, 2]), ("0", [0])):
            rows = client.get("/api/0/rows", params={"q": text}).json()["rows"]
            assert [row["position"] for row in rows] == expected, text


def test_the_page_that_compares_opens_with_the_dataset_that_shares_keys(tmp_path: Path) -> None:
    for name, prefix in (("a", "x"), ("b", "y"), ("c", "x")):
        with bushel.Writer(tmp_path / name, {"label": "int"}, container="bag") as writer:
            for number in range(200):
                writer.append({"label": number}, key=f"{prefix}{number}")
    with client_of(tmp_path / "a", tmp_path / "b", tmp_path / "c") as client:
        assert "200 samples on both sides" in client.get("/d/0/compare").text
        assert "200 samples on both sides" in client.get("/d/2/compare").text
