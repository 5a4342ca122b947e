"""Tags of samples, and exports of what is listed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.viewer.serving import client_of, write

import bushel


def keys(client: Any, query: str = "") -> list[str]:
    return [row["key"] for row in client.get(f"/api/0/rows?{query}").json()["rows"]]


def test_samples_are_tagged_listed_and_untagged(tmp_path: Path) -> None:
    with client_of(write(tmp_path / "data")) as client:
        found = client.post("/api/0/tags?name=odd&do=add&i=1&i=3&i=5").json()
        assert found == {"tags": {"odd": 3}, "lost": {}}
        assert keys(client, "tag=odd") == ["set/001", "set/003", "set/005"]
        assert keys(client, "tag=odd&q=003") == ["set/003"]
        assert len(keys(client, "tag=-")) == 9
        assert keys(client, "tag=nothing") == []
        assert [row["tags"] for row in client.get("/api/0/rows?count=2").json()["rows"]] == [[], ["odd"]]
        assert client.post("/api/0/tags?name=odd&do=remove&i=3").json()["tags"] == {"odd": 2}
        assert keys(client, "tag=odd") == ["set/001", "set/005"]  # no stale selection
        assert client.post("/api/0/tags?name=odd&do=remove&tag=odd").json()["tags"] == {}


def test_rows_of_the_listed_are_tagged_together(tmp_path: Path) -> None:
    with client_of(write(tmp_path / "data")) as client:
        assert client.post("/api/0/tags?name=a&do=add&first=2&count=3&sort=-label.bytes").json()["tags"] == {"a": 3}
        assert client.post("/api/0/tags?name=b&do=add&q=01").json()["tags"] == {"a": 3, "b": 3}
        assert client.post("/api/0/tags?name=c&do=add").json()["tags"]["c"] == 12
        assert client.post("/api/0/tags?name=d&do=add&first=90").json()["tags"].get("d") is None


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("name=&do=add&i=1", 400),
        ("name=a&do=odd&i=1", 400),
        ("name=a&do=add&i=99", 404),
        ("name=a&do=add&i=x", 400),
        ("name=" + "x" * 81 + "&do=add&i=1", 400),
    ],
)
def test_what_cannot_be_tagged_is_reported(tmp_path: Path, query: str, status: int) -> None:
    with client_of(write(tmp_path / "data")) as client:
        assert client.post(f"/api/0/tags?{query}").status_code == status
        assert client.get("/api/0/tags").json()["tags"] == {}


def test_exports_open_the_same_samples(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", 40)
    with client_of(folder) as client:
        client.post("/api/0/tags?name=a|b&do=add&i=30&i=7")
        listed = client.get("/api/0/export?tag=a|b&sort=-label.bytes")
        assert listed.headers["content-disposition"] == 'attachment; filename="selection.txt"'
        assert listed.text.splitlines() == keys(client, "tag=a|b&sort=-label.bytes")
        rows = list(csv.reader(io.StringIO(client.get("/api/0/export?as=table&tag=a|b").text)))
        assert rows == [["position", "key", "tags"], ["7", "set/007", "a|b"], ["30", "set/030", "a|b"]]
        for query, count in (("", 40), ("where=label.bytes > 0", 40), ("tag=a|b", 2), ("q=03", 11)):
            line = client.get(
                "/api/0/export", params=dict(part.split("=", 1) for part in f"as=python&{query}".split("&") if part)
            ).json()["python"]
            assert len(eval(line)) == count
        line = client.get("/api/0/export?as=python&q=set").json()["python"]
        assert line.endswith(
            '.select_keys(open("selection.txt", encoding="utf-8", newline="").read().split("\\n")[:-1])'
        )
        assert client.get("/api/0/export?as=odd").status_code == 400
        assert client.get("/api/0/export?where=odd+%3D%3D+1").status_code == 404


def test_a_condition_on_a_measure_is_exported_by_keys(tmp_path: Path) -> None:
    """The line of Python had the condition, which the dataset refuses: it has no such column."""
    with bushel.Writer(tmp_path / "data", {"text": "utf8"}, container="bag") as writer:
        for text in ("a", "a long text"):
            writer.append({"text": text}, key=text[2:] or "a")
    with client_of(tmp_path / "data") as client:
        client.post("/api/0/measure?field=text")
        answer = client.get("/api/0/export", params={"as": "python", "where": "quality.text.characters > 1"})
        assert [sample["text"] for sample in eval(answer.json()["python"])] == ["a long text"]


def test_samples_without_keys_are_exported_by_position(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"label": "int"}, container="bag") as writer:
        for number in range(5):
            writer.append({"label": number})
    with client_of(tmp_path / "data") as client:
        client.post("/api/0/tags?name=a&do=add&i=2&i=4")
        assert client.get("/api/0/export?tag=a").text == "2\n4\n"
        line = client.get("/api/0/export?as=python&tag=a").json()["python"]
        assert [sample["label"] for sample in eval(line)] == [2, 4]


def test_a_file_keeps_the_tags(tmp_path: Path) -> None:
    one, two, file = write(tmp_path / "one"), write(tmp_path / "two", 3), tmp_path / "tags.json"
    with client_of(one, tags=file) as client:
        client.post("/api/0/tags?name=good&do=add&i=1&i=11")
    with client_of(two, tags=file) as client:
        client.post("/api/0/tags?name=bad&do=add&i=2")
    with client_of(one, two, tags=file) as client:
        assert client.get("/api/0/tags").json() == {"tags": {"good": 2}, "lost": {}}
        assert client.get("/api/1/tags").json() == {"tags": {"bad": 1}, "lost": {}}
    kept = json.loads(file.read_text())
    kept["datasets"][str(two)]["bad"].append("elsewhere")
    file.write_text(json.dumps(kept))
    with client_of(two, tags=file) as client:
        assert client.get("/api/0/tags").json() == {"tags": {"bad": 1}, "lost": {"bad": 1}}
        client.post("/api/0/tags?name=bad&do=remove&i=2")
    assert json.loads(file.read_text())["datasets"][str(two)] == {"bad": ["elsewhere"]}
    file.write_text("[]")
    with pytest.raises(ValueError, match="expected tags that bushel view has written"), client_of(one, tags=file):
        pass


def test_two_viewers_keep_each_others_tags_in_one_file(tmp_path: Path) -> None:
    data, tags = write(tmp_path / "data"), tmp_path / "tags.json"
    with client_of(data, tags=tags) as first, client_of(data, tags=tags) as second:
        first.post("/api/0/tags?name=odd&do=add&i=1&i=3")
        second.post("/api/0/tags?name=odd&do=add&i=5")
        second.post("/api/0/tags?name=good&do=add&i=2")
        first.post("/api/0/tags?name=odd&do=remove&i=3")
        first.post("/api/0/tags?name=dark&do=add&i=4")
    (found,) = json.loads(tags.read_text())["datasets"].values()
    members = {name: sorted(keys) for name, keys in found.items()}
    assert members == {"odd": ["set/001", "set/005"], "good": ["set/002"], "dark": ["set/004"]}


def test_a_view_has_tags_of_its_own_positions(tmp_path: Path) -> None:
    ds = bushel.open(write(tmp_path / "data"))[np.array([5, 3, 9])]
    with client_of(ds) as client:
        client.post("/api/0/tags?name=a&do=add&i=1")
        assert keys(client, "tag=a") == ["set/003"]
        for query, expected in (("", ["set/005", "set/003", "set/009"]), ("&tag=a", ["set/003"])):
            line = client.get(f"/api/0/export?as=python{query}").json()["python"]
            assert [sample["__key__"] for sample in eval(line)] == expected


def test_what_is_listed_is_saved_as_a_view(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    bushel.index(path, columns="auto").close()
    with client_of(path) as client:
        client.post("/api/0/tags?name=odd&do=add&i=1&i=3")
        found = client.post("/api/0/view?tag=odd&name=odd").json()
        assert found["samples"] == 2
        assert found["command"].endswith("data OUT --view odd")
        assert client.post("/api/0/view?where=label+==+2&name=twos").json()["samples"] == 4
        answer = client.post("/api/0/view?name=odd")
        assert answer.status_code == 422
        assert "view 'odd' exists already" in answer.json()["error"]
        assert client.post("/api/0/view?name=../x").status_code == 400
    with bushel.open(path, view="odd") as view:
        assert list(view.keys) == ["set/001", "set/003"]
    assert {view.name: view.made for view in bushel.list_views(path)}["twos"] == "where label == 2"
