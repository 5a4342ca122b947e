"""The pages on the command line, damage, codecs and drop-ins: their commands and code run, and print what is shown."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.docs.damage import flip_a_bit
from tests.docs.example_data import make
from tests.docs.pages import blocks, run, run_commands, run_session, run_whole
from tests.sources.clips import clip

import bushel
from bushel.codecs import registry


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("pages") / "data"
    make(root)
    return root


@pytest.fixture(autouse=True)
def _here(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    shutil.copytree(data, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", list(sys.path))
    _forget_adapters()
    yield
    _forget_adapters()


def _forget_adapters() -> None:
    """Let the modules that pages call `my_adapter.py` be imported again: other tests have others of that name."""
    for name in ("my_adapter", "my_adapters"):
        sys.modules.pop(name, None)


def test_cli() -> None:
    assert [run_session(block) for block in blocks("docs/cli.md", "console")] == [5, 2, 1]
    assert Path("cat.jpg").read_bytes() == Path("photos/cat/0.jpg").read_bytes()
    assert [len(bushel.open(f"parts/{name}")) for name in ("train", "val")] == [10, 2]


def test_integrity() -> None:
    bushel.convert("train", "bags", container="bag", shard_samples=4)
    bushel.convert("train", "broken", container="tar", shard_samples=4)
    flip_a_bit(Path("bags/000001/image.bag"), 700)
    flip_a_bit(Path("broken/shard-000001.tar"), 1724)
    assert [run_session(block, codes=[1]) for block in blocks("docs/integrity.md", "console")] == [1, 1]


def test_removal() -> None:
    Path("opt-out.txt").write_text("cat/0\ndog/5\n")
    sessions = list(blocks("docs/removal.md", "console"))
    assert run_session(sessions[0]) == 3
    for done in bushel.removals("train"):
        bushel.restore("train", done.call)
    assert run_whole("docs/removal.md") == 5
    assert len(bushel.open("clean")) == 11
    assert run_session(sessions[1]) == 2


def test_growth() -> None:
    assert run_whole("docs/growth.md") == 0
    assert len(bushel.open("compact")) == 1199


def test_audit() -> None:
    assert run_whole("docs/audit.md") == 1


def test_chats() -> None:
    assert run_whole("docs/chats.md") == 4


def test_cards() -> None:
    assert run_whole("docs/cards.md") == 1


def test_views() -> None:
    assert run_whole("docs/views.md") == 2
    assert bushel.list_views("train") == []


def test_codecs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "registered", {})
    names: dict[str, Any] = {}
    run_whole("docs/codecs.md", names)
    registry.get_codec.cache_clear()
    assert names["stored"] == np.array([0, 0, 1], "<f4").tobytes()


def test_the_key_file() -> None:
    [commands] = blocks("docs/index.md", "sh")
    run_commands(commands)
    assert Path("train/.bushel/keys.safetensors").exists()


def test_seek_tables() -> None:
    [commands] = blocks("docs/seek-tables.md", "sh")
    run_commands(commands)


def test_tiled_jpeg() -> None:
    photo = Path("photos/cat/0.jpg").read_bytes()
    for number in range(147):
        with bushel.Writer(f"train-{number:03d}.tar", {"image": "jpg"}, sync=False) as writer:
            writer.append({"image": photo}, key=str(number))
    shutil.rmtree("train")
    [commands] = blocks("docs/tiled-jpeg.md", "sh")
    run_commands(commands)
    assert len(bushel.open("tiled/")) == 147


def _videos() -> None:
    pytest.importorskip("av")
    clip(Path("input_dir/7/a.mp4"), rate=24, levels=[10 * level for level in range(24)])
    Path("videos.json").write_text(json.dumps([{"id": "7", "template": "Pushing"}]))
    for name in ("my_adapter", "my_adapters"):
        Path(f"{name}.py").write_text(
            "class MyAdapter:\n    def __init__(self, path, rate: int = 8): ...\n"
            "    def __len__(self): return 0\n    def iter_data(self, part): return iter(())\n"
        )


def test_drop_ins() -> None:
    _videos()
    Path("recipe.txt").write_text("".join(f"{number:04d}.cls text:{number}\n" for number in range(1001)))
    shutil.rmtree("train")
    [commands] = blocks("docs/compat.md", "sh")[:1]
    run_commands(commands)
    assert len(bushel.open("train.rec")) == 12
    assert len(json.loads(Path("train.json").read_text())["shardlist"]) == 2


def test_gulpio2() -> None:
    _videos()
    page = "docs/compat-gulpio2.md"
    names: dict[str, Any] = {}
    [imports] = blocks(page, "python")
    run(page, imports, names)
    [commands] = blocks(page, "sh")
    assert "--rate" in run_commands(commands)
    frames, _ = names["GulpDirectory"]("output_dir")["7"]
    assert len(frames) > 1


def test_ffrecord() -> None:
    pytest.importorskip("torch")
    page = "docs/compat-ffrecord.md"
    names: dict[str, Any] = {}
    run_whole(page, names)
    writer = names["FileWriter"]("a.ffr", 2)
    writer.write_one(b"straw")
    writer.write_one(b"")
    writer.close()
    assert [bytes(each) for each in names["FileReader"]("a.ffr", True).read([1, 0])] == [b"", b"straw"]


def test_mxnet() -> None:
    page = "docs/compat-mxnet.md"
    run_commands("bushel im2rec-list train photos/ --recursive")
    shutil.copytree("photos", ".", dirs_exist_ok=True)
    names: dict[str, Any] = {}
    run_whole(page, names)
    assert names["path"] == "out/train.rec"
    assert len(bushel.open("out/train.rec")) == 12


def test_webdataset() -> None:
    page = "docs/compat-webdataset.md"
    for number in range(147):
        shutil.copy("train/shard-000000.tar", f"train-{number:03d}.tar")
    Path("recipe").write_text("a.cls text:1\na.jpg photos/dog/1.jpg\n")
    names: dict[str, Any] = {}
    run_whole(page, names)
    assert [sample["__key__"] for sample in names["wds"].WebDataset("out.tar", shardshuffle=False)] == ["a"]


def test_the_log_of_bad_items() -> None:
    [block] = blocks("docs/packing.md", "json")
    rows = [{"path": "photos/cat/1.jpg", "label": "cat"}, {"path": "photos/cat/17.jpg", "label": "cat"}]
    Path("table.json").write_text(json.dumps(rows))
    done = bushel.pack("table.json", "some.tar", max_errors=1)
    assert (done.samples, done.errors) == (1, 1)
    expected, found = json.loads(block), json.loads(Path("some.tar.errors.jsonl").read_text())
    assert list(found) == list(expected)
    error = expected["error"].removesuffix("(…)")  # the page shortens it
    assert found["error"].startswith(error)
    same = {"position": 0, "key": None, "error": error, "path": str(Path("photos/cat/17.jpg").absolute())}
    assert found | same == expected | same
