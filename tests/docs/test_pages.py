"""The blocks of the pages in docs/ are run on such data, and their results are compared with the pages."""

from __future__ import annotations

import ast
import gzip
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from tests._dataset.views.robot_streams import write_robot
from tests.containers import zip_archives as archives
from tests.containers.read_in_place import FOREIGN
from tests.docs.pages import blocks, commands_of, run
from tests.loader.device.cpu_decoder import CpuDeviceDecoder
from tests.paths import ROOT
from tests.sources.folders import image_folder, jpeg
from tests.testing.shelves import PACKAGE, write_shelf

import bushel
from bushel.cli.app import app
from bushel.containers import registry


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


ON_A_DEVICE = 'decode="device"'
"""What blocks have that need torch."""


def run_page(page: str, names: dict[str, Any]) -> int:
    """Run all blocks of Python but those for a device; returns how many results were compared."""
    return sum(run(page, block, names) for block in blocks(page, "python") if not on_a_device(block))


def on_a_device(block: str) -> bool:
    """Return whether a block needs torch."""
    return ON_A_DEVICE in block


def run_commands(lines: Sequence[str]) -> None:
    for line in lines:
        done = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
        assert done.exit_code == 0, (line, done.output)


def clips(folder: Path, *, frames: int = 250) -> None:
    """Four clips in folders of two classes."""
    pytest.importorskip("av")
    pictures = np.random.default_rng(0).integers(0, 256, (frames, 1, 1, 3), np.uint8)
    stored = bushel.codecs.get_codec("mp4").encode(np.broadcast_to(pictures, (frames, 144, 176, 3)))
    for name in ("blue/1", "blue/2", "red/7", "red/9"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.mp4").write_bytes(stored)


def test_packing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "docs/packing.md"
    image_folder(tmp_path / "photos", 6)
    clips(tmp_path / "clips", frames=24)
    (tmp_path / "docs/empty").mkdir(parents=True)
    (tmp_path / "docs/a.txt").write_text("text")
    [commands] = blocks(page, "sh")
    run_commands(commands_of(commands))
    assert [len(bushel.open(name)) for name in ("train/", "train.rec", "gulped/", "docs.ffr")] == [6, 6, 4, 1]
    script = ModuleType("page")  # a source is pickled, and so is to be found in a module
    monkeypatch.setitem(sys.modules, script.__name__, script)
    names = script.__dict__
    assert run_page(page, names) == 2
    packed = bushel.open("captions.tar")
    assert packed[5]["caption"] == Path(names["rows"][5][0]).stem


def test_video(tmp_path: Path) -> None:
    page = "docs/video.md"
    clips(tmp_path / "clips")
    text = (ROOT / page).read_text("utf-8")
    [row] = [line for line in text.splitlines() if line.startswith("| pack |")]
    run_commands([cell.strip(" `") for cell in row.split("|")[2:4]])
    names: dict[str, Any] = {"bushel": bushel}
    assert run_page(page, names) == 3
    assert bushel.open("frames/").spec == {"frames": "jpg[]", "label": "int"}
    whole = names["ds"]
    few = whole["red/7", {"clip": [0, -1, 17]}]["clip"]
    assert np.array_equal(few, whole["red/7"]["clip"][[0, -1, 17]])
    [batch] = bushel.Loader(whole, 8, fields={"clip": slice(0, 16), "label": True})
    assert batch["clip"].shape == (4, 16, 144, 176, 3)


def written(path: str, samples: int = 9) -> None:
    with bushel.Writer(path, {"image": "jpg", "label": "int"}, container="tar", shard_samples=4) as writer:
        for number in range(samples):
            writer.append({"image": jpeg(number), "label": number}, key=f"class/{number}")


def test_loading(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    page = "docs/loading.md"
    written("train", 4)
    image_folder(tmp_path / "drawings", 3)
    clips(tmp_path / "clips", frames=24)
    with bushel.Writer("texts", {"tokens": "npy"}, container="tar") as writer:
        for number in range(6):
            writer.append({"tokens": np.arange(number * 9 + 1, dtype=np.int32)})
    bushel.index("texts", columns="tokens.length")
    bushel.pack("drawings", "drawn.tar", container="tar")
    with bushel.Writer("clips.tar", {"clip": "mp4"}, container="tar") as writer:
        for path in sorted(Path("clips").rglob("*.mp4")):
            writer.append({"clip": path.read_bytes()}, key=path.stem)
    bushel.index("clips.tar", columns="clip.duration")
    for number in range(147):
        shutil.copy("drawn.tar", f"train-{number:03d}.tar")
        run_gzip(Path(f"train-{number:03d}.tar"))

    first, collate, nested, together, text, transform, errors, torch_view, stream = blocks(page, "python")
    buckets, windows, in_time, mixture, scheduled = blocks("docs/loading-orders.md", "python")
    packs, chunks = blocks("docs/loading-packs.md", "python")
    [asked] = blocks("docs/loading-machines.md", "python")
    [state] = blocks("docs/loading-inside.md", "python")
    names: dict[str, Any] = {}
    run(page, first, names)
    assert names["batch"]["image"].shape == (4, 224, 224, 3)
    assert names["loader"].epoch == 90
    assert set(names["checkpoint"]["loader"]) == set(ast.literal_eval(state))

    photos, names["ds"] = names["ds"], bushel.open("texts")
    *of_tokens, of_clips = buckets.rstrip().rpartition("\nloader")
    run(page, of_tokens[0], names)
    assert sum(len(batch["tokens"]) for batch in names["loader"]) == 6
    names["ds"] = bushel.open("clips.tar")
    run(page, f"loader{of_clips}", names)
    assert sum(len(batch["__key__"]) for batch in names["loader"]) == 4

    names |= {"ds": bushel.open("texts"), "texts": bushel.open("texts"), "torch": torch}
    run(page, packs, names)
    [packed] = names["loader"]
    assert packed["tokens"].shape == (1, 8192)
    run(page, chunks, names)
    with pytest.warns(UserWarning, match="all documents together have fewer than the chunk_tokens=4097 tokens"):
        assert list(names["loader"]) == []
    with bushel.Writer("episodes", {"frames": "jpg[]", "actions": "array(float32,-1,2)"}, container="bag") as writer:
        for number, length in enumerate((6, 5, 4)):
            frames = [np.zeros((8, 8, 3), np.uint8)] * length
            writer.append({"frames": frames, "actions": np.zeros((length, 2), np.float32)}, key=f"ep/{number}")
    assert run(page, windows, names) == 4
    run(page, in_time, names)
    robots = write_robot(Path("robots"))
    [batch] = bushel.Loader(robots, 2, fields=names["fields"])
    assert batch["joints"].shape == (2, 50, 2)
    run(page, collate, names)
    run(page, nested, names)
    assert sum(len(each) for each in names["nested"].unbind()) == sum(number * 9 + 1 for number in range(6))

    with bushel.Writer(
        "masks.tar",
        {"image": "jpg", "mask": "png", "boxes": "json", "classes": "json", "keypoints": "json", "text": "utf8"},
    ) as writer:
        mask = np.zeros((48, 64), np.uint8)
        more = {"boxes": [[0, 0, 64, 48]], "classes": [3], "keypoints": [[1, 2]], "text": "a"}
        writer.append({"image": np.stack([mask] * 3, 2), "mask": mask, **more})
    names["ds"] = bushel.open("masks.tar")
    run(page, together, names)
    [batch] = names["loader"]
    assert (batch["mask"].shape, batch["classes"]) == ((1, 512, 512), [[3]])
    run(page, text, names)
    [batch] = bushel.Loader(names["ds"], 1, sample_transform=names["measure_text"])
    assert batch["length"].tolist() == [1]

    names["ds"] = photos
    run(page, transform, names)
    run(page, errors, names)
    assert sum(len(batch["label"]) for batch in names["loader"]) == 4
    run(page, mixture, names)
    assert 0 < len(next(iter(names["loader"]))["label"]) <= 7
    texts = bushel.open("masks.tar").select_fields(["text"])
    names |= {"web": texts, "code": texts, "strip_comments": str.strip}
    run(page, scheduled, names)
    assert bushel.Loader(names["mixture"], 4).peek()["__source__"] == ["web"] * 4
    run(page, asked, names)
    run(page, torch_view, names)
    run(page, stream, names)
    assert sum(len(batch["__key__"]) for batch in names["loader"]) == 147 * 3


def run_gzip(path: Path) -> None:
    """Replace a file with its compressed form."""
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    path.unlink()


def test_extending(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "docs/extending.md"
    module, project = PACKAGE / "bushel_shelf" / "__init__.py", PACKAGE / "pyproject.toml"
    assert module.read_text("utf-8") in blocks(page, "python")
    assert project.read_text("utf-8") in blocks(page, "text")
    write_shelf(Path("words.shelf"), {"a": "one", "b": "two"})
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    package = ModuleType("bushel_shelf")  # datasets carry the container, by its importable class
    monkeypatch.setitem(sys.modules, package.__name__, package)
    names = vars(package)
    names.update(bushel=bushel, np=np)
    assert run_page(page, names) == 4
    found = names["layout"](b"vec1" + bytes(12))
    assert (found.header, found.dtype, found.shape) == (b"vec1", np.dtype("<f4"), (3,))


def test_formats() -> None:
    shutil.copy(FOREIGN / "npy" / "embed.npy", "embeddings.npy")
    for name in ("corpus.bin", "corpus.idx"):
        shutil.copy(FOREIGN / "megatron-uint16" / name, name)
    for page in ("docs/format-megatron.md", "docs/format-npy.md"):
        assert run_page(page, {}) == 3
    shutil.copy(FOREIGN / "tfrecord-plain" / "train.tfrecord-00000-of-00003", "train.tfrecord")
    assert run_page("docs/format-tfrecord.md", {}) == 4
    shutil.copytree(FOREIGN / "hf-parquet" / "data", "data")
    assert run("docs/format-parquet.md", blocks("docs/format-parquet.md", "python")[0], {}) == 3
    shutil.copy(FOREIGN / "zip-stored" / "set.zip", "set.zip")
    members = {f"{name}/{number}.jpg": jpeg(number) for name in ("cat", "dog") for number in range(6)}
    captions = "".join(f"{member},a {member[:3]}\n" for member in members)
    archives.written(Path("photos.zip"), {**members, "metadata.csv": f"file_name,caption\n{captions}".encode()})
    archives.written(Path("classes.zip"), members)
    assert run_page("docs/format-zip.md", {}) == 4
    shutil.copytree(FOREIGN / "hf-arrow", "saved")
    assert run_page("docs/format-arrow.md", {}) == 3
    shutil.copy(FOREIGN / "jsonl" / "rows.jsonl", "rows.jsonl")
    Path("rows.csv").write_text('id,text,score\n7,one,0.25\n8,"two\nlines",0.5\n', "utf-8")
    assert run_page("docs/format-jsonl.md", {}) == 3
    assert run_page("docs/format-csv.md", {}) == 2
    shutil.copytree(FOREIGN / "mds-plain", "mds")
    assert run_page("docs/format-mds.md", {}) == 4
    shutil.copytree(FOREIGN / "litdata-plain", "litdata")
    assert run_page("docs/format-litdata.md", {}) == 3
    shutil.copy(FOREIGN / "arrayrecord-default" / "train.array_record-00000-of-00002", "train.array_record")
    assert run_page("docs/format-arrayrecord.md", {}) == 2
    shutil.copytree(FOREIGN / "folder" / "photos", "photos")
    assert run_page("docs/format-folder.md", {}) == 4
    shutil.copytree(FOREIGN.parent / "webdataset-0.2.111-wids" / "index" / "data", "wids")
    assert run_page("docs/format-tar.md", {}) == 1


def test_robots() -> None:
    pytest.importorskip("av")
    shutil.copytree(FOREIGN / "lerobot", "robot")
    assert run_page("docs/format-lerobot.md", {}) == 12


def test_joins() -> None:
    names = {"cat/0.jpg": "a cat", "cat/1": "two cats", "cat/1.jpg": "cats again"}
    Path("captions.jsonl").write_text(
        "\n".join(json.dumps({"image": image, "caption": caption}) for image, caption in names.items())
    )
    Path("labels.csv").write_text("id,cls\ncat/0,tabby\ncat/1,kitten\n")
    with bushel.Writer("photos.tar", {"jpg": "jpg", "cls": "int"}, container="tar") as writer:
        for number in range(2):
            writer.append({"jpg": np.zeros((48, 64, 3), np.uint8), "cls": 1 - number}, key=f"cat/{number}")
    np.save("embeddings.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    assert run_page("docs/joins.md", {}) == 15


def write_coco(folder: Path) -> None:
    """Two photos, and the boxes of the second one as COCO has them."""
    (folder / "images").mkdir(parents=True)
    for number in range(2):
        shutil.copy(FOREIGN / "folder" / "photos" / "class0" / "img 000.jpg", folder / "images" / f"{number}.jpg")
    images = [{"id": 7 + number, "file_name": f"{number}.jpg"} for number in range(2)]
    boxes = [{"image_id": 8, "category_id": of, "bbox": [1, 2, 3, 4]} for of in (18, 1)]
    (folder / "instances.json").write_text(json.dumps({"images": images, "annotations": boxes}))


def test_references() -> None:
    page = "docs/references.md"
    [lines] = blocks(page, "text")
    Path("captions.jsonl").write_text(lines, "utf-8")
    Path("img").mkdir()
    for number, name in ((1, "img 000.jpg"), (2, "img 006.jpg")):
        shutil.copy(FOREIGN / "folder" / "photos" / "class0" / name, f"img/{number}.jpg")
    write_coco(Path("coco"))
    [to_lines] = blocks(page, "sh")
    expected = [
        {"image": "images/0.jpg", "boxes": [], "classes": []},
        {"image": "images/1.jpg", "boxes": [[1, 2, 3, 4], [1, 2, 3, 4]], "classes": [18, 1]},
    ]
    if shutil.which("jq") is None:
        Path("coco/rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in expected))
    else:
        subprocess.run(to_lines, shell=True, cwd="coco", check=True)
    assert [json.loads(line) for line in Path("coco/rows.jsonl").read_text().splitlines()] == expected
    assert run_page(page, {"bushel": bushel}) == 3
    assert bushel.index("captions.jsonl", spec={"image": "jpg(path)"})[0]["caption"] == "a cat"
    assert bushel.verify("captions.jsonl").ok


def test_integrity() -> None:
    page = "docs/integrity.md"
    written("train")
    written("broken")
    names: dict[str, Any] = {"bushel": bushel}
    run_page(page, names)
    assert (names["result"].ok, names["result"].samples, names["done"].samples) == (True, 9, 9)


def test_index() -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    page = "docs/index.md"
    written("train")
    names: dict[str, Any] = {"bushel": bushel}
    run_page(page, names)
    lengths = [len(jpeg(number)) for number in range(4)]
    assert names["arrays"]["image.length"].tolist() == lengths
    listed = {path.name for path in Path("train/.bushel").iterdir()}
    assert listed == {*(f"shard-00000{number}.tar.safetensors" for number in range(3)), "manifest.json"}


def test_columns() -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    written("train")
    names: dict[str, Any] = {}
    assert run_page("docs/columns.md", names) == 2
    assert len(names["labels"]) == 9
    for commands in blocks("docs/columns.md", "sh"):
        run_commands(commands_of(commands))
    assert "image.format" in bushel.open("train").columns


def test_tiled_jpeg(tmp_path: Path) -> None:
    page = "docs/tiled-jpeg.md"
    Path("photo.jpg").write_bytes(jpeg(1, 400, 500))
    image_folder(tmp_path / "photos", 1)
    for number in range(5):
        Path(f"photos/class0/big{number}.jpg").write_bytes(jpeg(number, 400, 500))
    bushel.pack("photos", "tiled", container="bag", images="tile")
    names: dict[str, Any] = {}
    run_page(page, names)
    assert np.array_equal(names["pixels"], names["dataset"][3]["image"][100:324, 200:424])


def test_images() -> None:
    page = "docs/images.md"
    names: dict[str, Any] = {"datas": [jpeg(number, 300, 260) for number in range(3)]}
    run_page(page, names)
    assert names["out"].shape == (3, 224, 224, 3)
    assert names["errors"] == {}


def test_decoding_on_a_device() -> None:
    pytest.importorskip("torch")
    written("train", 4)
    [of_loader] = [block for block in blocks("docs/images.md", "python") if on_a_device(block)]
    names: dict[str, Any] = {}
    names["CpuDeviceDecoder"] = CpuDeviceDecoder
    on_cpu = 'device="cpu",\n    decoder=CpuDeviceDecoder(),'
    run("docs/images.md", of_loader.replace('device="cuda",', on_cpu), names)
    [batch] = names["loader"]
    assert tuple(batch["image"].shape) == (4, 3, 224, 224)


def test_scale_out(tmp_path: Path) -> None:
    page = "docs/scale-out.md"
    image_folder(tmp_path / "photos", 6)
    for commands in blocks(page, "sh"):
        run_commands(commands_of(commands))
    assert [len(bushel.open(name)) for name in ("train/", "gulped/", "out1/")] == [6, 6, 6]
    assert run_page(page, {}) == 1
    assert len(bushel.open("out2/")) == 6


def test_integrations() -> None:
    for package in ("datasets", "torch", "torchdata.nodes", "pyarrow", "duckdb"):
        pytest.importorskip(package)
    from tests.integrations.samples import write

    write(Path("train"))
    page = "docs/integrations.md"
    *shown, last = blocks(page, "python")
    assert "ray.data" in last  # which needs a cluster
    names: dict[str, Any] = {}
    assert sum(run(page, block, names) for block in shown) == 12


def test_view(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("starlette")
    page = "docs/view.md"
    with bushel.Writer("train", {"image": "jpg", "label": "int"}, container="tar") as writer:
        for number in range(6):
            writer.append({"image": jpeg(number, 40, 30), "label": number}, key=f"k{number}")
    assert run_page(page, {}) == 2
