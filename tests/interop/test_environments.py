"""The scripts of ``interop/`` give the results of the original packages, with and without a sidecar folder."""

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.interop

Lines = list[dict[str, Any]]
Original = Callable[..., Lines]
Samples = list[tuple[str, dict[str, Any]]]
MAGIC = bytes.fromhex("0a23d7ce")

GULP = ["videos", "many-chunks", "appended", "odd-names", "image-folder"]
TAR = ["shards", "float-mtime", "pax-long", "empty", "member-gz", "encoders", "compressed"]
GNU_TAR = ["sort-name", "ustar", "v7", "posix", "gnu-longname", "posix-longname", "ustar-prefix", "gz"]
RECORDS = ["magic", "no-index", "sparse-keys", "empty"]
IMAGES = ["images", "images-no-index", "im2rec", "im2rec-options", "im2rec-png-gray"]
CASES = [
    *[(f"gulpio2-0.0.4/{name}", "gulpio2", ("read_gulpio2.py", "--decode")) for name in GULP],
    *[(f"granular-B-0.20.3/{name}", "granular-b", ("read_granular_b.py", "--decode")) for name in ("plain", "sharded")],
    *[
        (f"granular-C-0.24.2/{name}", "granular-c", ("read_granular_c.py", "--decode"))
        for name in ("plain", "sharded", "uncommitted-tail")
    ],
    *[(f"webdataset-1.0.2/{name}", "webdataset", ("read_webdataset.py", "--decode")) for name in TAR],
    ("webdataset-0.2.111-wids/index", "webdataset", ("read_webdataset.py", "--decode")),
    *[(f"gnu-tar-1.34/{name}", "webdataset", ("read_webdataset.py",)) for name in GNU_TAR],
    *[(f"recordio-mxnet-1.9.1/{name}", "mxnet", ("read_mxnet.py",)) for name in RECORDS],
    ("recordio-mxnet-1.9.1/string-keys", "mxnet", ("read_mxnet.py", "--key-type", "str")),
    *[(f"recordio-mxnet-1.9.1/{name}", "mxnet", ("read_mxnet.py", "--unpack")) for name in IMAGES],
]


def digest(content: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "length": len(content)}


def stored(field: dict[str, Any]) -> dict[str, Any]:
    """Of a field in a line, what is known about its stored bytes."""
    return {name: field[name] for name in ("sha256", "length")}


def check_field(found: Any, expected: Any, decoded: bool) -> None:
    """Compare a field of a line with the manifest; values of stored bytes only when the script decoded them."""
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for part, wanted in zip(found, expected, strict=True):
            check_field(part, wanted, decoded)
        return
    if "sha256" in expected:
        assert stored(found) == stored(expected)
    if "value" in expected and (decoded or "sha256" not in expected):
        assert found["value"] == expected["value"]


def check(found: Lines, manifest: dict[str, Any], decoded: bool) -> None:
    samples = manifest["samples"]
    assert [line["key"] for line in found] == [sample["key"] for sample in samples]
    for line, sample in zip(found, samples, strict=True):
        assert line["fields"].keys() == sample["fields"].keys()
        for name, expected in sample["fields"].items():
            check_field(line["fields"][name], expected, decoded)


@pytest.mark.parametrize(("dataset", "name", "script"), CASES, ids=[dataset for dataset, _, _ in CASES])
@pytest.mark.parametrize("sidecar", [False, True], ids=["bare", "with-sidecar"])
def test_script_agrees_with_manifest(
    original: Callable[[str], Original],
    golden: Path,
    tmp_path: Path,
    dataset: str,
    name: str,
    script: tuple[str, ...],
    sidecar: bool,
) -> None:
    run = original(name)
    manifest = json.loads((golden / dataset / "manifest.json").read_text(encoding="utf-8"))
    root = golden / dataset
    if sidecar:
        root = tmp_path / "copy"
        shutil.copytree(golden / dataset, root, copy_function=shutil.copyfile)
        add_sidecars(root / "data")
    target = root / manifest["open"]
    found = run(script[0], target, *script[1:])
    check(found, manifest, decoded="--decode" in script)
    if sidecar and script[0] in ("read_webdataset.py", "read_mxnet.py") and not manifest.get("stream"):
        assert run(script[0], root / "data", *script[1:]) == found


def add_sidecars(data: Path) -> None:
    """The folder that Bushel leaves beside the files of a dataset, in each numbered folder of a sharded bag."""
    data.chmod(0o755)
    folders = sorted(folder for folder in data.iterdir() if folder.name.isdecimal()) or [data]
    for folder in folders:
        folder.chmod(0o755)
        (folder / ".bushel").mkdir()
        (folder / ".bushel" / "manifest.json").write_text("{}")
        (folder / ".bushel" / "000000.safetensors").write_bytes(b"\x02\x00\x00\x00\x00\x00\x00\x00{}")


@pytest.mark.parametrize(("generation", "package"), [("b", "granular-B-0.20.3"), ("c", "granular-C-0.24.2")])
def test_granular_refuses_anything_beside_numbered_folders(
    original: Callable[[str], Original], golden: Path, tmp_path: Path, generation: str, package: str
) -> None:
    """Why the sidecars of a sharded bag are inside its shards."""
    run = original(f"granular-{generation}")
    root = tmp_path / "data"
    shutil.copytree(golden / package / "sharded" / "data", root, copy_function=shutil.copyfile)
    root.chmod(0o755)
    (root / ".bushel").mkdir()
    with pytest.raises(AssertionError, match="invalid literal for int"):
        run(f"read_granular_{generation}.py", root)


def jpeg(seed: int, grey: bool = False) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 12) if grey else (8, 12, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG")
    return out.getvalue()


@pytest.mark.parametrize("shard", [None, 2])
@pytest.mark.parametrize("generation", ["b", "c"])
def test_granular_scripts_write_and_read(
    original: Callable[[str], Original],
    plan: Callable[..., Path],
    tmp_path: Path,
    generation: str,
    shard: int | None,
) -> None:
    run = original(f"granular-{generation}")
    spec = {"image": "jpg", "number": "int", "text": "utf8", "grid": "array"}
    if generation == "b":
        spec["words"] = "utf8[]"
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    samples: Samples = [
        (str(i), {"image": jpeg(i), "number": i, "text": f"text {i}", "grid": grid, "words": ["a", "b"][:i]})
        for i in range(5)
    ]
    chosen = [(key, {name: fields[name] for name in spec}) for key, fields in samples]
    sharding = () if shard is None else ("--shard-samples", str(shard))
    out = tmp_path / "out"
    assert run(f"write_granular_{generation}.py", plan(chosen, spec), out, *sharding) == []
    lines = run(f"read_granular_{generation}.py", out, "--decode")
    assert (out / "000002").is_dir() == (shard is not None)
    assert [line["key"] for line in lines] == ["0", "1", "2", "3", "4"]
    for line, (_, fields) in zip(lines, samples, strict=True):
        found = line["fields"]
        assert stored(found["image"]) == digest(fields["image"])
        assert found["number"]["value"] == fields["number"]
        assert found["text"] == {**digest(fields["text"].encode()), "value": fields["text"]}
        assert found["grid"]["array"]["sha256"] == hashlib.sha256(grid.tobytes()).hexdigest()
        if generation == "b":
            assert [word["value"] for word in found["words"]] == fields["words"]


def test_webdataset_scripts_write_and_read(
    original: Callable[[str], Original], plan: Callable[..., Path], tmp_path: Path
) -> None:
    run = original("webdataset")
    samples: Samples = [
        (f"a/é{i}", {"left.jpg": jpeg(i), "cls": i, "json": {"n": [i]}, "bin": b"\0" * i}) for i in range(5)
    ]
    run("write_webdataset.py", plan(samples), tmp_path / "x-%06d.tar", "--shard-samples", "2")
    lines = run("read_webdataset.py", tmp_path / "x-{000000..000002}.tar", "--decode")
    assert [line["key"] for line in lines] == [key for key, _ in samples]
    for line, (_, fields) in zip(lines, samples, strict=True):
        assert stored(line["fields"]["left.jpg"]) == digest(fields["left.jpg"])
        assert stored(line["fields"]["bin"]) == digest(fields["bin"])
        assert line["fields"]["cls"]["value"] == fields["cls"]
        assert line["fields"]["json"]["value"] == fields["json"]


def test_mxnet_scripts_write_and_read(
    original: Callable[[str], Original], plan: Callable[..., Path], tmp_path: Path
) -> None:
    run = original("mxnet")
    contents = [b"", b"a", MAGIC, b"wxyz" + MAGIC + b"q", MAGIC + MAGIC]
    raw = plan([(str(7 * i), {"data": content}) for i, content in enumerate(contents)])
    run("write_mxnet.py", raw, tmp_path / "raw.rec", "--shard-samples", "2")
    lines = run("read_mxnet.py", *[tmp_path / f"raw_{number}.rec" for number in range(3)])
    assert lines == [{"key": str(7 * i), "fields": {"data": digest(c)}} for i, c in enumerate(contents)]
    run("write_mxnet.py", raw, tmp_path / "plain.rec", "--no-index")
    assert [line["key"] for line in run("read_mxnet.py", tmp_path / "plain.rec")] == ["0", "1", "2", "3", "4"]

    labels = [1.5, [2.0, 3.0]]
    images = plan([(f"k{i}", {"image": jpeg(i), "label": label, "id": i}) for i, label in enumerate(labels)])
    run("write_mxnet.py", images, tmp_path / "images.rec", "--key-type", "str")
    assert run("read_mxnet.py", tmp_path / "images.rec", "--unpack", "--key-type", "str") == [
        {
            "key": f"k{i}",
            "fields": {"image": digest(jpeg(i)), "label": {"value": label}, "id": {"value": i}, "id2": {"value": 0}},
        }
        for i, label in enumerate(labels)
    ]


def test_gulpio2_scripts_write_and_read(
    original: Callable[[str], Original], plan: Callable[..., Path], tmp_path: Path
) -> None:
    run = original("gulpio2")
    samples: Samples = [
        (f"v {i}", {"frames": [jpeg(j, grey=i == 1) for j in range(i)], "meta": {"n": i}}) for i in range(4)
    ]
    run("write_gulpio2.py", plan(samples[:3]), tmp_path / "out", "--shard-samples", "2")
    run("write_gulpio2.py", plan(samples[3:]), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").glob("*.gulp")) == [
        "data_0.gulp",
        "data_1.gulp",
        "data_2.gulp",
    ]
    lines = run("read_gulpio2.py", tmp_path / "out", "--decode")
    assert [line["key"] for line in lines] == ["v 0", "v 1", "v 2", "v 3"]
    assert [line["fields"]["meta"]["value"] for line in lines] == [{"n": i} for i in range(4)]
    shapes = [[frame["array"]["shape"] for frame in line["fields"]["frames"]] for line in lines]
    assert shapes == [[], [[8, 12]], [[8, 12, 3]] * 2, [[8, 12, 3]] * 3]
