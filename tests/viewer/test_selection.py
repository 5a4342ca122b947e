"""Selections: filters and order, against the obvious way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.viewer.serving import client_of, write

import bushel


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write(tmp_path_factory.mktemp("viewer") / "data", 30)
    bushel.index(path, columns=["label", "caption", "meta.n", "vector.length"]).close()
    return path


@pytest.fixture
def client(folder: Path) -> Iterator[Any]:
    with client_of(folder) as client:
        yield client


def positions(client: Any, **query: str) -> list[int]:
    found = client.get("/api/0/rows", params={**query, "count": 100}).json()
    assert found["total"] == len(found["rows"])
    return [row["position"] for row in found["rows"]]


def test_by_a_condition(client: Any) -> None:
    assert positions(client, where="label == 2 and meta.n < 10") == [2, 5, 8]
    assert positions(client, where="label == 2", q="01") == [11, 14, 17]
    assert positions(client, where="label == 9") == []


def test_sorted(client: Any) -> None:
    order = sorted(range(30), key=lambda number: number % 3)
    assert positions(client, sort="label") == order
    assert positions(client, sort="-label") == sorted(range(30), key=lambda number: -(number % 3))
    assert positions(client, sort="-meta.n", where="label == 0", q="02") == [27, 24, 21]
    assert positions(client, sort="raw.bytes")[:3] == [1, 3, 5]


def test_texts_are_sorted(client: Any) -> None:
    assert positions(client, sort="caption") == sorted(range(30), key=lambda number: f"number {number}: <b>bold</b>")


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ({"where": "lable == 3"}, 404, "label"),
        ({"where": "label =="}, 400, "malformed"),
        ({"where": "__import__('os').system('true')"}, 400, ""),
        ({"sort": "nothing"}, 404, "unknown column 'nothing'"),
    ],
)
def test_what_is_wrong_with_a_query_is_reported(client: Any, query: dict[str, str], status: int, why: str) -> None:
    answer = client.get("/api/0/rows", params=query)
    assert answer.status_code == status
    assert why in answer.json()["error"]


def test_the_page_offers_the_columns(client: Any) -> None:
    text = client.get("/d/0?where=label+%3D%3D+2").text
    for name in ("label", "caption", "meta.n", "vector.length", "frames.length", "image.bytes"):
        assert f'data-column="{name}"' in text
    assert 'value="label == 2"' in text


def test_histograms_of_a_selection(client: Any) -> None:
    found = client.get("/api/0/histogram", params={"column": "label", "where": "meta.n < 10"}).json()
    assert found["kind"] == "classes"
    assert [(bin_["condition"], bin_["count"], bin_["all"]) for bin_ in found["bins"]] == [
        ("label == 0", 4, 10),
        ("label == 1", 3, 10),
        ("label == 2", 3, 10),
    ]
    assert client.get("/api/0/histogram?column=nothing").status_code == 404


def test_of_a_view(folder: Path) -> None:
    view = bushel.open(folder)[np.array([20, 5, 11, 0])]
    with client_of(view) as client:
        assert positions(client, where="label == 2") == [0, 1, 2]
        assert positions(client, sort="meta.n") == [3, 1, 2, 0]
        assert positions(client, sort="-meta.n", q="^set/01") == [2]


def test_neighbours_keep_the_order(client: Any) -> None:
    text = client.get("/d/0/s/5", params={"where": "label == 2", "sort": "-meta.n"}).text
    assert 'rel="prev" href="/d/0/s/8?where=label+%3D%3D+2&amp;sort=-meta.n"' in text
    assert 'rel="next" href="/d/0/s/2?where=' in text


def test_samples_without_a_value_come_last(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"meta": "json"}, container="bag") as writer:
        for value in ({"a": 3}, {}, {"a": 1}, {}, {"a": 2}):
            writer.append({"meta": value})
    bushel.index(tmp_path / "data", columns=["meta.a"]).close()
    with client_of(tmp_path / "data") as client:
        assert positions(client, sort="meta.a") == [2, 4, 0, 1, 3]
        assert positions(client, sort="-meta.a") == [0, 4, 2, 1, 3]


@pytest.fixture(scope="module")
def of_any_case(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    path, keys = tmp_path_factory.mktemp("keys") / "data", ["ab", "AB/a", "é", "É/b", "b", "a/B/é"]
    with bushel.Writer(path, {"x": "int"}, container="bag") as writer:
        for key in keys:
            writer.append({"x": 1}, key=key)
    return path, keys


@pytest.mark.parametrize("text", ["a", "B", "é", "É", "/b", "ab", "x", "B/É"])
@pytest.mark.parametrize("of_view", [False, True])
def test_the_same_keys_as_one_by_one(of_any_case: tuple[Path, list[str]], text: str, of_view: bool) -> None:
    path, keys = of_any_case
    dataset = bushel.open(path)
    if of_view:
        dataset, keys = dataset[::-2], keys[::-2]
    with client_of(dataset) as client:
        for prefix, test in (("", str.__contains__), ("^", str.startswith)):
            expected = [row for row, key in enumerate(keys) if test(key.lower(), text.lower())]
            assert positions(client, q=prefix + text) == expected
