"""Every command of docs/coming-from.md is run, in the order of the page, and has the results that the page shows."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests.containers.read_in_place import FOREIGN
from tests.paths import ROOT
from tests.sources.clips import clip
from tests.sources.folders import image_folder, jpeg

import bushel
from bushel.cli.app import app
from bushel.sources import Files

PAGE = ROOT / "docs" / "coming-from.md"
SECTION = re.compile(r"^## (\w+)[^\n]*\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| .+ \| `([^`]+)` \|$", re.MULTILINE)


def lines() -> dict[str, list[str]]:
    """The right-hand columns, by the first words of the sections."""
    return {name: ROW.findall(text) for name, text in SECTION.findall(PAGE.read_text("utf-8"))}


def mxnet(root: Path) -> dict[str, Any]:
    image_folder(root / "photos", 20)
    return {}


def gulpio(root: Path) -> dict[str, Any]:
    pytest.importorskip("av")
    image_folder(root / "photos", 6)
    (root / "images.csv").write_text("class0/0000.jpg,a\nclass1/0001.jpg,b\n")
    for name in ("clips/red/7.mp4", "videos/7/a.mp4", "webm/7.webm", "activitynet/x1.mp4"):
        clip(root / name, rate=24, levels=[10 * level for level in range(24)])
    clip(root / "kinetics/juggling/ab_000003_000013.mp4")
    (root / "list.json").write_text(json.dumps([{"id": "7", "template": "Pushing"}]))
    (root / "list.csv").write_text("7;Pushing\n")
    (root / "jpegs/7").mkdir(parents=True)
    (root / "jpegs/7/00001.jpg").write_bytes(jpeg(1))
    one = {"annotations": {"label": "juggling", "segment": [3, 13]}, "subset": "train"}
    (root / "kinetics.json").write_text(json.dumps({"ab": one}))
    annotated = {"subset": "training", "annotations": [{"label": "Bowling", "segment": [0.5, 9.0]}]}
    (root / "activitynet.json").write_text(json.dumps({"database": {"x1": annotated}}))
    (root / "my_adapters.py").write_text(
        "class MyVideos:\n    def __init__(self, path, rate: int = 8): ...\n"
        "    def __len__(self): return 0\n    def iter_data(self, part): return iter(())\n"
    )

    class Adapter:
        def __len__(self) -> int:
            return 3

        def iter_data(self, part: slice) -> Any:
            for number in range(*part.indices(3)):
                yield {"id": number, "frames": [np.zeros((8, 8, 3), np.uint8)], "meta": {"label": number}}

    return {"adapter": Adapter()}


def ffrecord(root: Path) -> dict[str, Any]:
    (root / "docs/a").mkdir(parents=True)
    (root / "docs/empty").mkdir()
    (root / "docs/a/b.txt").write_text("text")
    (root / "docs/c.bin").write_bytes(b"\0\1")
    return {"records": [bytes(number) for number in range(100)]}


def webdataset(root: Path) -> dict[str, Any]:
    (root / "folder").mkdir()
    for number in range(9):
        (root / f"folder/{number}.jpg").write_bytes(jpeg(number))
        (root / f"folder/{number}.cls").write_text(str(number))
    bushel.pack([{"__key__": "x", "jpg": jpeg(1), "cls": 3}], root / "more.tar")
    samples = [{"__key__": f"s{number}", "jpg": jpeg(number), "cls": number} for number in range(9)]
    return {"samples": samples, "change": lambda image: image[::-1]}


def granular(root: Path) -> dict[str, Any]:
    return {"datapoints": [{"image": jpeg(number), "label": number, "words": ["a", "b", "c"]} for number in range(9)]}


def torch(root: Path) -> dict[str, Any]:
    image_folder(root / "photos", 9)

    class Squares:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, position: int) -> Any:
            return np.full((8, 8, 3), position, np.uint8), position

    return {"dataset": Squares()}


def pandas(root: Path) -> dict[str, Any]:
    pytest.importorskip("pyarrow")
    frame = pytest.importorskip("pandas").DataFrame({"text": ["a", None, "c"], "label": [1, 2, 3]})
    return {"frame": frame, "table": __import__("pyarrow").Table.from_pandas(frame)}


def tfrecord(root: Path) -> dict[str, Any]:
    shutil.copy(FOREIGN / "tfrecord-plain" / "train.tfrecord-00000-of-00003", root / "train.tfrecord")
    shutil.copy(FOREIGN / "tfrecord-records" / "raw.tfrecord", root / "raw.tfrecord")
    return {}


def tensorflow(root: Path) -> dict[str, Any]:
    folder = root / "data" / "shapes" / "1.0.0"
    folder.mkdir(parents=True)
    for split, number in (("train", 0), ("test", 1)):
        source = FOREIGN / "tfrecord-plain" / f"train.tfrecord-0000{number}-of-00003"
        shutil.copy(source, folder / f"shapes-{split}.tfrecord-00000-of-00001")
    for name in ("dataset_info.json", "features.json", "label.labels.txt"):
        (folder / name).write_text("{}")
    # the types that the data sources of TensorFlow Datasets 4.9.10 give
    sample = {"caption": b"photo", "image": np.zeros((8, 8, 3), np.uint8), "label": 1, "score": np.float32(0.5)}
    return {"source": [sample] * 5}


def lance(root: Path) -> dict[str, Any]:
    """The dataset of Lance is one of PyArrow's, and has its methods."""
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"image": [jpeg(number) for number in range(6)], "label": [0, 1] * 3})
    return {"table": table, "dataset": __import__("pyarrow.dataset").dataset.dataset(table)}


def mosaicml(root: Path) -> dict[str, Any]:
    for name, own in (("mds", "mds-plain"), ("more", "mds-zstd")):
        shutil.copytree(FOREIGN / own, root / name, ignore=shutil.ignore_patterns("EXPECTED.json"))
    return {}


def litdata(root: Path) -> dict[str, Any]:
    shutil.copytree(FOREIGN / "litdata-plain", root / "litdata", ignore=shutil.ignore_patterns("EXPECTED.json"))
    return {}


def lerobot(root: Path) -> dict[str, Any]:
    pytest.importorskip("av")
    shutil.copytree(FOREIGN / "lerobot", root / "robot", ignore=shutil.ignore_patterns("EXPECTED.json"))
    return {}


def megatron(root: Path) -> dict[str, Any]:
    for suffix in ("bin", "idx"):
        shutil.copy(FOREIGN / "megatron-uint16" / f"corpus.{suffix}", root / f"corpus.{suffix}")
        shutil.copy(FOREIGN / "megatron-int32" / f"corpus.{suffix}", root / f"more.{suffix}")
    return {}


def energon(root: Path) -> dict[str, Any]:
    shutil.copytree(FOREIGN.parent / "energon-7.4.1" / "prepared" / "data", root / "shards")
    with bushel.Writer(root / "more.tar", {"txt": "utf8", "cls": "int"}, container="tar") as writer:
        for key in bushel.open(root / "shards").keys[:5]:
            writer.append({"txt": f"more of {key}", "cls": 1}, key=key)
    return {}


def arrayrecord(root: Path) -> dict[str, Any]:
    shutil.copy(FOREIGN / "arrayrecord-plain" / "train.array_record-00000-of-00002", root / "train.array_record")
    return {}


def hugging(root: Path) -> dict[str, Any]:
    for split in ("train", "test"):
        source = FOREIGN / "hf-parquet/data/train-00000-of-00001.parquet"
        (root / "set/data").mkdir(parents=True, exist_ok=True)
        shutil.copy(source, root / f"set/data/{split}-00000-of-00001.parquet")
    image_folder(root / "photos", 4)
    return {}


MADE: dict[str, tuple[Callable[[Path], dict[str, Any]], dict[str, int]]] = {
    "MXNet": (mxnet, {"set.rec": 20, "small.rec": 20, "grey.rec": 20, "cut-part-00002.rec": 5}),
    "GulpIO": (
        gulpio,
        {"gulped": 6, "listed": 2, "frames": 1, "json": 1, "csv": 1, "jpg": 1, "juggling": 1, "bowling": 1}
        | {"adapted": 3},
    ),
    "FFRecord": (ffrecord, {"docs.ffr": 2, "again.ffr": 2, "x.ffr": 100, "dumped": 100}),
    "WebDataset": (
        webdataset,
        {"all.tar": 9, "both.tar": 10, "labels.tar": 9, "parts": 9, "counted": 9, "shuffled.tar": 9}
        | {"sorted.tar": 9, "changed.tar": 9, "shards": 9, "one.tar": 9},
    ),
    "Granular": (granular, {"bag": 9, "sharded": 9}),
    "Torch": (torch, {"photos": 9, "packed": 6}),
    "pandas": (pandas, {"rows.tar": 3, "table.tar": 3}),
    "TensorFlow": (tensorflow, {"shapes.tar": 5}),
    "Lance": (lance, {"photos": 6, "photos.tar": 6, "images.tar": 6}),
    "MosaicML": (mosaicml, {"mds": 24, "expanded.tar": 24}),
    "LitData": (litdata, {"litdata": 24, "out": 24}),
    "LeRobot": (lerobot, {"robot": 80}),
    "Megatron": (megatron, {"corpus.bin": 24, "more.bin": 24}),
    "Energon": (energon, {"shards": 22, "more.tar": 5}),
    "ArrayRecord": (arrayrecord, {"train.array_record": 12}),
    "TFRecord": (tfrecord, {"train.tfrecord": 8, "raw.tfrecord": 24}),
    "Hugging": (hugging, {"photos": 4}),
}
"""What each section finds, and the datasets that it leaves, with their samples."""


def run(line: str, names: dict[str, Any]) -> Any:
    """Run a command, or give the value of an expression."""
    if not line.startswith("bushel "):
        return eval(line, names)
    done = CliRunner().invoke(app, shlex.split(line)[1:])
    assert done.exit_code == 0, (line, done.output)
    return done.output


def opened(path: str) -> bushel.Dataset:
    return bushel.open(path)


def test_all_sections_are_run() -> None:
    assert lines().keys() == MADE.keys()
    text = PAGE.read_text("utf-8")
    assert sum(map(len, lines().values())) == len(re.findall(r"^\| (?!before)[^-]", text, re.MULTILINE))


@pytest.mark.parametrize("section", MADE)
def test_a_section(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepare, made = MADE[section]
    names = prepare(tmp_path) | {"bushel": bushel, "Files": Files}
    results = {line: run(line, names) for line in lines()[section]}
    assert {name: len(opened(name)) for name in made} == made
    if section == "MXNet":
        assert sorted(path.name for path in tmp_path.glob("*.lst")) == ["cut_train.lst", "cut_val.lst", "set.lst"]
        assert opened("set.rec").info.keyed
        assert results['bushel.open("set.rec")["3"]']["__key__"] == "3"
        [loader] = [value for value in results.values() if isinstance(value, bushel.Loader)]
        assert len(loader) == 3
    elif section == "GulpIO":
        assert len(results['bushel.open("frames/")["red/7", {"frames": slice(0, 16, 2)}]']["frames"]) == 8
        assert os.access("my_videos", os.X_OK)
    elif section == "FFRecord":
        assert Path("b.txt").read_text() == "text"
        assert results['bushel.open("docs.ffr")["a/b.txt"]["data"]'] == b"text"
        assert results["bushel ls docs.ffr"].split() == ["a/b.txt", "c.bin"]
        assert Path("again.ffr").read_bytes() == Path("docs.ffr").read_bytes()
        read = results['bushel.open("x.ffr").read([3, 0, 10])']
        assert [len(sample["data"]) for sample in read] == [3, 0, 10]
        assert len(list(Path("dumped").glob("*.ffr"))) == 4
    elif section == "WebDataset":
        assert list(opened("sorted.tar").keys) == [str(number) for number in range(9)]
        assert list(opened("labels.tar")) == [{"__key__": str(number), "cls": number} for number in range(9)]
        assert np.abs(opened("changed.tar")["0"]["jpg"] - np.float32(opened("all.tar")["0"]["jpg"][::-1])).max() < 16
    elif section == "MosaicML":
        assert results['bushel.open("mds")[3]']["label"] == results['bushel.open("mds", pickle=True)'][3]["label"]
    elif section == "LitData":
        assert results['bushel.open("litdata")[3]']["__key__"] == "3"
    elif section == "LeRobot":
        near = results['bushel.open("robot", delta_timestamps={"action": [0, 0.1]})[3]']
        assert (near["__key__"], near["action"].shape, near["task"]) == ("0@3", (2, 6), "task 0")
        assert results['bushel.open("robot", episodes=True)[1, ["action", "task"]]']["action"].shape == (30, 6)
    elif section == "Megatron":
        [loader] = [value for value in results.values() if isinstance(value, bushel.Loader)]
        assert next(iter(loader))["tokens"].shape == (4, 65)
        whole = results['bushel.open("corpus.bin")[3]["tokens"]']
        assert 2 * len(whole) == results['bushel.open("corpus.bin").lengths(range(24), "tokens")'][3]
    elif section == "Energon":
        [loader] = [value for value in results.values() if isinstance(value, bushel.Loader)]
        assert sum(len(batch["cls"]) for batch in loader) == 22
        [joined] = [value for line, value in results.items() if "bushel.join" in line]
        assert joined[0]["txt"] == f"more of {joined.keys[0]}"
    elif section == "ArrayRecord":
        stored = results['bushel.open("train.array_record").read([3, 1], decode=False)']
        assert [sample["__key__"] for sample in stored] == ["3", "1"]
    elif section == "Hugging":
        assert len(results['bushel.open("set", split="train").where("label == 1")']) == 5
        assert results['bushel.open("set", config="default", split="test")[3]']["__key__"] == "3"
        for one in (value for value in results.values() if isinstance(value, bushel.Loader)):
            assert [len(batch["label"]) for batch in one] == [8, 8, 8]
    elif section == "TFRecord":
        assert results['bushel.open("train.tfrecord")[3]']["label"] == opened("train.tfrecord").column("label")[3]
        [loader] = [value for value in results.values() if isinstance(value, bushel.Loader)]
        assert [len(batch["image"]) for batch in loader] == [8]
    elif section == "TensorFlow":
        assert len(results['bushel.open("data/shapes/1.0.0", split="all")']) == 16
        assert opened("shapes.tar").labels == {"label": ("cat", "dog")}
        with pytest.raises(bushel.SpecError, match="several splits: train, test"):
            opened("data/shapes/1.0.0")
    elif section == "Lance":
        assert [sample["label"] for sample in results['bushel.open("photos.tar").read([3, 0], ["label"])']] == [1, 0]
        [loader] = [value for value in results.values() if isinstance(value, bushel.Loader)]
        assert [len(batch["image"]) for batch in loader] == [4, 2]
    elif section == "Torch":
        assert set(results['bushel.open("photos/")[3, ["image", "label"]]']) == {"__key__", "image", "label"}
        assert results['bushel.open("photos/").labels["label"]'] == tuple(sorted(os.listdir("photos")))
        loaders = [value for value in results.values() if isinstance(value, bushel.Loader)]
        assert [batch["label"].tolist() for batch in loaders[1]] == [[0, 1, 2, 3], [4, 5]]
    elif section == "pandas":
        frame = results['bushel.open("rows.tar").to_arrow().to_pandas()']
        assert frame["label"].tolist() == [1, 2, 3]
    else:
        assert results['bushel.open("bag/")[3, ["label"]]'] == {"__key__": "3", "label": 3}
        assert results['bushel.open("bag/")[3, {"words": slice(0, 2)}]']["words"] == ["a", "b"]
        [loader] = [value for value in results.values() if isinstance(value, bushel.Loader)]
        assert [batch["label"].shape for batch in loader] == [(4,), (4,), (1,)]
