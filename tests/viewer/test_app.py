"""The pages and the data that the viewer answers with."""

from __future__ import annotations

import contextlib
import io
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.viewer.serving import SVG, client_of, damage, sample, write

import bushel

HTML = {"accept": "text/html"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("viewer") / "data")


@pytest.fixture
def client(folder: Path) -> Iterator[Any]:
    with client_of(folder) as client:
        yield client


def test_the_first_page(client: Any) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert str(answer.url).endswith("/d/0")
    assert "12 samples" in answer.text
    assert "<script>" not in answer.text  # the policy forbids inline scripts, so there are none
    assert not re.search(r"\son\w+=|style=", answer.text)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", answer.text)


def test_one_sample_is_one_sample(tmp_path: Path) -> None:
    with client_of(write(tmp_path / "data", samples=1)) as client:
        text = client.get("/d/0").text
    assert ">1 sample<" in text
    assert "all 1 result<" in text


def test_rows(client: Any) -> None:
    found = client.get("/api/0/rows?first=10&count=60").json()
    assert (found["total"], found["first"]) == (12, 10)
    assert [row["key"] for row in found["rows"]] == ["set/010", "set/011"]
    row = found["rows"][0]
    assert row["position"] == 10
    assert row["cells"] == [{"field": "image", "kind": "picture", "plays": None, "there": True}]
    assert dict(row["values"])["label"] == "1"
    assert dict(row["values"])["caption"] == "number 10: <b>bold</b>"


def test_rows_with_other_fields(client: Any) -> None:
    found = client.get("/api/0/rows?first=4&count=1&field=frames&field=caption").json()
    assert [(cell["kind"], cell["there"]) for cell in found["rows"][0]["cells"]] == [("picture", False), ("text", True)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("00", [f"set/{n:03d}" for n in range(10)]), ("SET/01", ["set/010", "set/011"]), ("^et", []), ("^set/0", None)],
)
def test_keys_are_filtered(client: Any, text: str, expected: list[str] | None) -> None:
    found = client.get("/api/0/rows", params={"q": text, "count": 60}).json()
    keys = [f"set/{n:03d}" for n in range(12)] if expected is None else expected
    assert [row["key"] for row in found["rows"]] == keys
    assert found["total"] == len(keys)


@pytest.mark.parametrize("parameters", ["first=x", "first=-1", "count=1e3", "first=" + "9" * 30])
def test_wrong_numbers_are_named(client: Any, parameters: str) -> None:
    answer = client.get(f"/api/0/rows?{parameters}")
    assert answer.status_code == 400
    assert "expected a number" in answer.json()["error"]


def test_a_thumbnail(client: Any) -> None:
    answer = client.get("/d/0/thumb?i=3&f=image&side=160")
    assert answer.headers["content-type"] == "image/png"
    assert np.array_equal(np.array(Image.open(io.BytesIO(answer.content))), sample(3)["image"])


@pytest.mark.parametrize("query", ["f=frames&i=3", "f=frames&i=3&e=2", "f=vector&i=3"])
def test_values_of_other_kinds_have_pictures(client: Any, query: str) -> None:
    answer = client.get(f"/d/0/thumb?{query}")
    assert answer.status_code == 200
    Image.open(io.BytesIO(answer.content)).load()


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ("f=image&i=99", 404, "out of range"),
        ("f=nothing&i=0", 404, "unknown field 'nothing'"),
        ("f=caption&i=0", 422, "has no picture"),
        ("f=frames&i=0", 422, "empty sequence"),
        ("f=frames&i=1&e=7", 422, "no such element"),
        ("f=image", 400, "expected a number"),
    ],
)
def test_what_has_no_picture_says_why(client: Any, query: str, status: int, why: str) -> None:
    answer = client.get(f"/d/0/thumb?{query}")
    assert answer.status_code == status
    assert why in answer.json()["error"]


def test_the_page_of_a_sample(client: Any, folder: Path) -> None:
    text = client.get("/d/0/s/5").text
    assert "<h1>set/005</h1>" in text
    assert "number 5: &lt;b&gt;bold&lt;/b&gt;" in text
    assert "&lt;svg" in text
    assert "<svg" not in text
    assert text.count("checksum matches") >= 8
    assert str(folder) in text
    [crc] = re.findall(r"raw.bag.*?<code>bytes</code>.*?<code>(\w{8})</code>", text, re.DOTALL)
    assert crc == f"{zlib.crc32(SVG):08x}"
    assert 'href="/d/0/s/4"' in text
    assert 'href="/d/0/s/6"' in text


def test_neighbours_are_those_of_the_selection(client: Any) -> None:
    text = client.get("/d/0/s/10?q=01").text
    assert 'rel="prev" href="/d/0/s/1?q=01"' in text
    assert 'rel="next" href="/d/0/s/11?q=01"' in text


def test_a_sample_by_key(client: Any) -> None:
    answer = client.get("/d/0/key/set%2F007")
    assert str(answer.url).endswith("/d/0/s/7")
    assert client.get("/d/0/key/nothing", headers=HTML).status_code == 404


def test_stored_bytes_and_ranges_of_them(client: Any) -> None:
    url, raw = "/d/0/bytes?i=4&f=raw", sample(4)["raw"]
    whole = client.get(url)
    assert whole.content == raw
    assert whole.headers["accept-ranges"] == "bytes"
    part = client.get(url, headers={"range": "bytes=100-299"})
    assert part.status_code == 206
    assert part.content == raw[100:300]
    assert part.headers["content-range"] == f"bytes 100-299/{len(raw)}"
    assert client.get(url, headers={"range": f"bytes={len(raw)}-"}).status_code == 416
    assert client.get("/d/0/bytes?i=3&f=words&e=1").content == b"3"
    assert client.get("/d/0/bytes?i=3&f=words&e=2").status_code == 404


def test_what_can_run_in_a_browser_is_only_downloaded(client: Any) -> None:
    answer = client.get("/d/0/bytes?i=5&f=raw")
    assert answer.content == SVG
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in answer.headers["content-security-policy"]
    shown = client.get("/d/0/bytes?i=5&f=image")
    assert shown.headers["content-type"] == "image/png"
    assert "content-disposition" not in shown.headers
    assert "attachment" in client.get("/d/0/bytes?i=5&f=image&download=1").headers["content-disposition"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/app.py",
        "/d/0/../../etc/passwd",
        "/etc/passwd",
        "/static/",
    ],
)
def test_no_other_file_is_served(client: Any, path: str) -> None:
    assert client.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/d/7", "/d/0/s/12", "/d/0/s/99999999999999999999", "/api/3/rows"])
def test_what_is_not_there_is_a_page_that_says_so(client: Any, path: str) -> None:
    answer = client.get(path, headers=HTML)
    assert answer.status_code == 404
    assert "cannot be shown" in answer.text


def test_damaged_bytes_are_named_and_nothing_else_suffers(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (8, 128, 128, 3), np.uint8)
    with bushel.Writer(tmp_path / "data", {"image": "png"}, container="tar") as writer:
        for number, image in enumerate(noise):
            writer.append({"image": image}, key=f"k{number}")
    damage(tmp_path / "data", 25_000, bytes(30))
    with client_of(tmp_path / "data") as client:
        assert "checksum differs: the bytes are damaged" in client.get("/d/0/s/3").text
        answer = client.get("/d/0/thumb?i=3&f=image")
        assert answer.status_code == 422
        assert "expected a complete image" in answer.json()["error"]
        assert client.get("/d/0/thumb?i=4&f=image").status_code == 200
        assert len(client.get("/api/0/rows").json()["rows"]) == 8


def test_a_value_that_does_not_decode_is_reported_in_its_row(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with bushel.Writer(folder, {"meta": "json"}, container="tar") as writer:
        for number, text in enumerate((b"{}", b"{broken", b"[1]")):
            writer.append({"meta": text}, key=f"k{number}")
    with client_of(folder) as client:
        rows = client.get("/api/0/rows").json()["rows"]
        assert [bool(row["error"]) for row in rows] == [False, True, False]
        assert "'k1'" in rows[1]["error"]
        assert "This field cannot be shown" in client.get("/d/0/s/1").text


def test_a_file_that_is_gone_is_an_answer_not_a_crash(tmp_path: Path) -> None:
    folder = write(tmp_path / "data")
    with client_of(folder) as client:
        for path in folder.glob("*.bag"):
            path.unlink()
        assert client.get("/d/0/thumb?i=0&f=image").status_code == 422
        assert client.get("/d/0/s/0").status_code in (200, 422)
        assert client.get("/d/0").status_code == 200


@pytest.mark.parametrize("container", ["tar", "ffrecord", "recordio"])
def test_every_container_is_shown(tmp_path: Path, container: str) -> None:
    spec = {"image": "png", "label": "int"}
    with bushel.Writer(tmp_path / "data", spec, container=container) as writer:
        for number in range(3):
            writer.append({"image": sample(number)["image"], "label": number}, key=f"k{number}")
    with client_of(tmp_path / "data") as client:
        assert len(client.get("/api/0/rows").json()["rows"]) == 3
        text = client.get("/d/0/s/2").text
        assert "cannot be shown" not in text
        assert "checksum matches" in text
        shown = client.get("/d/0/bytes?i=2&f=image")
        assert np.array_equal(np.array(Image.open(io.BytesIO(shown.content))), sample(2)["image"])


def test_a_view_of_a_dataset(folder: Path) -> None:
    with client_of(bushel.open(folder)[[7, 3, 3]]) as client:
        rows = client.get("/api/0/rows").json()["rows"]
        assert [row["key"] for row in rows] == ["set/007", "set/003", "set/003"]
        assert "<h1>set/003</h1>" in client.get("/d/0/s/1").text
        found = client.get("/api/0/rows?q=007").json()
        assert [row["position"] for row in found["rows"]] == [0]


def test_several_datasets(folder: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other", 2, "tar")
    with client_of(folder, other) as client:
        assert client.get("/api/1/rows").json()["total"] == 2
        assert 'href="/d/1"' in client.get("/d/0").text


def test_an_empty_dataset(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"label": "int"}, container="bag"):
        pass
    with client_of(tmp_path / "data") as client:
        assert client.get("/d/0").status_code == 200
        assert client.get("/api/0/rows").json() == {"total": 0, "first": 0, "rows": []}


def test_records_that_hold_the_magic_word_are_read_whole(tmp_path: Path) -> None:
    data = b"\x0a\x23\xd7\xce" * 50 + b"end"
    with bushel.Writer(tmp_path / "data", {"raw": "bytes"}, container="recordio") as writer:
        writer.append({"raw": data}, key="a")
    with client_of(tmp_path / "data") as client:
        assert client.get("/d/0/bytes?i=0&f=raw").content == data
        assert client.get("/d/0/bytes?i=0&f=raw", headers={"range": "bytes=-3"}).content == b"end"
        assert "stored in pieces" in client.get("/d/0/s/0").text


def test_sounds_are_played_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("av")
    with bushel.Writer(tmp_path / "data", {"audio": "flac(8000)"}, container="tar") as writer:
        writer.append({"audio": np.sin(np.arange(4000) / 20).astype(np.float32)}, key="a")
    with client_of(tmp_path / "data") as client:
        assert "<audio controls" in client.get("/d/0/s/0").text
        assert client.get("/d/0/bytes?i=0&f=audio").headers["content-type"] == "audio/flac"
        part = client.get("/d/0/bytes?i=0&f=audio", headers={"range": "bytes=0-3"})
        assert (part.status_code, part.content) == (206, b"fLaC")
        shown = client.get("/d/0/thumb?i=0&f=audio")
        assert Image.open(io.BytesIO(shown.content)).size == (192, 96)


def test_a_mask_of_class_numbers_has_colours_and_a_legend(tmp_path: Path) -> None:
    mask = np.repeat(np.arange(6, dtype=np.uint8), 20).reshape(6, 20)
    with bushel.Writer(tmp_path / "data", {"mask": "png"}, container="tar") as writer:
        writer.append({"mask": mask}, key="a")
        writer.append({"mask": mask * 40}, key="b")
    with client_of(tmp_path / "data") as client:
        text = client.get("/d/0/s/0").text
        assert text.count("<rect") == 6
        assert text.count("16.7 %") == 6
        shown = np.array(Image.open(io.BytesIO(client.get("/d/0/thumb?i=0&f=mask").content)))
        assert len(np.unique(shown.reshape(-1, 3), axis=0)) == 6
        assert "<rect" not in client.get("/d/0/s/1").text


@pytest.mark.filterwarnings("ignore:.*is (damaged|incomplete)")
def test_every_page_says_that_a_dataset_is_incomplete_or_damaged(tmp_path: Path) -> None:
    write(tmp_path / "cut", 12, "tar")
    for path in (tmp_path / "cut").glob("*.tar"):
        os.truncate(path, path.stat().st_size // 2)
    with (
        contextlib.suppress(KeyboardInterrupt),
        bushel.Writer(tmp_path / "partial", {"label": "int"}, container="tar", shard_bytes=2048) as writer,
    ):
        for number in range(30):
            writer.append({"label": number}, key=f"k{number}")
        raise KeyboardInterrupt
    with client_of(tmp_path / "cut", tmp_path / "partial") as client:
        for page in ("", "/s/0", "/shards", "/duplicates"):
            assert "This dataset is damaged" in client.get(f"/d/0{page}").text
            assert "This dataset is incomplete" in client.get(f"/d/1{page}").text
        assert "bushel repair" in client.get("/d/0").text


def test_rows_with_the_values_of_columns(folder: Path) -> None:
    bushel.index(folder, columns="auto").close()
    with client_of(folder) as client:
        [row] = client.get("/api/0/rows?first=5&count=1&columns=1").json()["rows"]
        assert row["columns"]["image.width"] == "36"
        assert row["columns"]["label"] == "2"
        assert row["columns"]["frames.length"] == "1"
        assert client.get("/api/0/rows?first=99&columns=1").json()["rows"] == []


def test_frames_of_cameras_are_pictures(tmp_path: Path) -> None:
    pytest.importorskip("av")
    pytest.importorskip("pyarrow")
    from tests.containers.lerobot.robots import write_robot

    with client_of(write_robot(tmp_path / "robot")) as client:
        [cell] = client.get("/api/0/rows?count=1").json()["rows"][0]["cells"]
        assert cell["kind"] == "picture"
        assert cell["field"] == "cam.left"
        answer = client.get(f"/d/0/thumb?i=1&f={cell['field']}")
        assert Image.open(io.BytesIO(answer.content)).size[0] > 1
        assert f"thumb?i=1&f={cell['field']}" in client.get("/d/0/s/1").text
