"""What Bushel writes, the original packages read: byte for byte, key for key, in the same order."""

import hashlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bushel

pytestmark = pytest.mark.interop

Lines = list[dict[str, Any]]
Original = Callable[..., Lines]
Samples = list[tuple[str | None, dict[str, Any]]]
MAGIC = bytes.fromhex("0a23d7ce")


def digest(content: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "length": len(content)}


def stored(field: dict[str, Any]) -> dict[str, Any]:
    return {name: field[name] for name in ("sha256", "length")}


def jpeg(seed: int, grey: bool = False) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (9, 14) if grey else (9, 14, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG")
    return out.getvalue()


def write(path: Path, spec: Mapping[str, str], samples: Samples, **options: Any) -> None:
    with bushel.Writer(path, spec, **options) as writer:
        for key, fields in samples:
            writer.append(fields, key=key)


def sidecars(path: Path) -> list[Path]:
    return sorted(path.rglob(".bushel/*"))


# gulp


@pytest.mark.parametrize("shard_samples", [None, 2])
def test_gulpio2_reads_gulp(original: Callable[[str], Original], tmp_path: Path, shard_samples: int | None) -> None:
    run = original("gulpio2")
    out = tmp_path / "out"
    samples: Samples = [
        (f"vidéo {i}", {"frames": [jpeg(10 * i + j, grey=i == 2) for j in range(i)], "label": i, "name": f"é{i}"})
        for i in range(5)
    ]
    spec = {"frames": "jpg[]", "label": "int", "name": "utf8"}
    write(out, spec, samples, container="gulp", shard_samples=shard_samples)
    assert sidecars(out)
    lines = run("read_gulpio2.py", out, "--decode")
    assert [line["key"] for line in lines] == [key for key, _ in samples]
    assert [[stored(frame) for frame in line["fields"]["frames"]] for line in lines] == [
        [digest(frame) for frame in fields["frames"]] for _, fields in samples
    ]
    assert [line["fields"]["meta"]["value"] for line in lines] == [{"label": i, "name": f"é{i}"} for i in range(5)]
    assert [frame["array"]["shape"] for frame in lines[2]["fields"]["frames"]] == [[9, 14]] * 2
    assert len(list(out.glob("data_*.gulp"))) == (1 if shard_samples is None else 3)


def test_gulpio2_reads_more_than_ten_chunks_in_the_same_order(
    original: Callable[[str], Original], tmp_path: Path
) -> None:
    run = original("gulpio2")
    samples: Samples = [(f"item {i}", {"frames": [jpeg(i)]}) for i in range(12)]
    write(tmp_path / "out", {"frames": "jpg[]"}, samples, container="gulp", shard_samples=1)
    keys = [line["key"] for line in run("read_gulpio2.py", tmp_path / "out")]
    assert sorted(keys) == sorted(f"item {i}" for i in range(12))
    dataset = bushel.open(tmp_path / "out")
    assert list(dataset.keys) == keys == [f"item {i}" for i in range(12)]


def test_bushel_appends_to_a_gulp_directory_of_gulpio2(
    original: Callable[[str], Original], plan: Callable[..., Path], tmp_path: Path
) -> None:
    run = original("gulpio2")
    out = tmp_path / "out"
    first = plan([("a", {"frames": [jpeg(0)], "meta": {"n": 0}}), ("b", {"frames": [], "meta": {"n": 1}})])
    run("write_gulpio2.py", first, out)
    before = run("read_gulpio2.py", out)
    write(
        out,
        {"frames": "jpg[]", "meta": "json"},
        [("c", {"frames": [jpeg(2)], "meta": {"n": 2}})],
        container="gulp",
        mode="append",
    )
    lines = run("read_gulpio2.py", out)
    assert lines[:2] == before
    assert lines[2:] == [{"key": "c", "fields": {"frames": [digest(jpeg(2))], "meta": {"value": {"n": 2}}}}]


# bag

PLAIN = {"image": "jpg", "label": "int", "text": "utf8", "blob": "bytes", "grid": "array", "tree": "msgpack"}
SEQUENCES = {"frames": "jpg[]", "words": "utf8[]", "times": "int[]"}


def bag_samples() -> Samples:
    return [
        (
            None,
            {
                "image": jpeg(i),
                "label": 50 * i - 100,
                "text": "" if i == 1 else f"naïve {i}",
                "blob": b"" if i in (0, 3) else bytes(range(i)),
                "grid": np.full((i, 2), i, np.float32),
                "tree": {"i": i, "list": [1, None, "é"]},
                "frames": [jpeg(100 + j) for j in range(i % 3)],
                "words": [""] * i,
                "times": list(range(-i, i)),
            },
        )
        for i in range(6)
    ]


@pytest.mark.parametrize("shard_samples", [None, 4])
@pytest.mark.parametrize("generation", ["B", "C"])
def test_granular_reads_bags(
    original: Callable[[str], Original], tmp_path: Path, generation: str, shard_samples: int | None
) -> None:
    run = original(f"granular-{generation.lower()}")
    spec = {**PLAIN, **SEQUENCES} if generation == "B" else PLAIN
    samples: Samples = [(None, {name: fields[name] for name in spec}) for _, fields in bag_samples()]
    out = tmp_path / "out"
    write(out, spec, samples, container="bag", generation=generation, shard_samples=shard_samples)
    assert sidecars(out)
    lines = run(f"read_granular_{generation.lower()}.py", out, "--decode")
    assert (out / "000001").is_dir() == (shard_samples is not None)
    assert [line["key"] for line in lines] == [str(i) for i in range(6)]
    for line, (_, fields) in zip(lines, samples, strict=True):
        found = line["fields"]
        assert found.keys() == spec.keys()
        assert stored(found["image"]) == digest(fields["image"])
        assert stored(found["blob"]) == digest(fields["blob"])
        assert found["label"]["value"] == fields["label"]
        assert found["text"] == {**digest(fields["text"].encode()), "value": fields["text"]}
        assert found["tree"]["value"] == fields["tree"]
        assert found["grid"]["array"] == {
            "dtype": "float32",
            "shape": list(fields["grid"].shape),
            "sha256": hashlib.sha256(fields["grid"].tobytes()).hexdigest(),
        }
        if generation == "B":
            assert [stored(frame) for frame in found["frames"]] == [digest(frame) for frame in fields["frames"]]
            assert [word["value"] for word in found["words"]] == fields["words"]
            assert [time["value"] for time in found["times"]] == fields["times"]


@pytest.mark.parametrize("generation", ["B", "C"])
def test_granular_decodes_every_integer(original: Callable[[str], Original], tmp_path: Path, generation: str) -> None:
    """Granular's own writer fails for negative numbers and for those whose top bit is set: 128, 32768…"""
    run = original(f"granular-{generation.lower()}")
    numbers = [*range(301), *(-n for n in range(301)), 2**15, -(2**15), 2**31, 2**63 - 1, -(2**63)]
    samples: Samples = [(None, {"number": number}) for number in numbers]
    write(tmp_path / "out", {"number": "int"}, samples, container="bag", generation=generation)
    lines = run(f"read_granular_{generation.lower()}.py", tmp_path / "out", "--decode")
    assert [line["fields"]["number"]["value"] for line in lines] == numbers


@pytest.mark.parametrize("generation", ["B", "C"])
@pytest.mark.parametrize("contents", [[b"", b"a"], [b"a", b"", b"b"], [b"a", b""], [b"", b""], [b"a"], []])
def test_granular_reads_records_without_bytes(
    original: Callable[[str], Original], tmp_path: Path, generation: str, contents: list[bytes]
) -> None:
    run = original(f"granular-{generation.lower()}")
    samples: Samples = [(None, {"blob": content}) for content in contents]
    write(tmp_path / "out", {"blob": "bytes"}, samples, container="bag", generation=generation)
    lines = run(f"read_granular_{generation.lower()}.py", tmp_path / "out")
    assert [line["fields"]["blob"] for line in lines] == [digest(content) for content in contents]


@pytest.mark.parametrize("generation", ["B", "C"])
def test_granular_reads_keys_as_a_field(original: Callable[[str], Original], tmp_path: Path, generation: str) -> None:
    run = original(f"granular-{generation.lower()}")
    samples: Samples = [(f"clé/{i}", {"blob": bytes([i])}) for i in range(3)]
    write(tmp_path / "out", {"blob": "bytes"}, samples, container="bag", generation=generation)
    lines = run(f"read_granular_{generation.lower()}.py", tmp_path / "out", "--decode")
    assert [line["fields"]["__key__"]["value"] for line in lines] == ["clé/0", "clé/1", "clé/2"]


@pytest.mark.parametrize("shard", [None, 2])
@pytest.mark.parametrize("generation", ["B", "C"])
def test_bushel_appends_to_a_bag_of_granular(
    original: Callable[[str], Original],
    plan: Callable[..., Path],
    tmp_path: Path,
    generation: str,
    shard: int | None,
) -> None:
    letter = generation.lower()
    run = original(f"granular-{letter}")
    spec = {"n": "int", "text": "utf8"}
    sharding = () if shard is None else ("--shard-samples", str(shard))
    rows = [(str(i), {"n": i, "text": f"text {i}"}) for i in range(5)]
    run(f"write_granular_{letter}.py", plan(rows[:3], spec), tmp_path / "out", *sharding)
    added: Samples = [(None, fields) for _, fields in rows[3:]]
    write(tmp_path / "out", spec, added, container="bag", generation=generation, mode="append")
    lines = run(f"read_granular_{letter}.py", tmp_path / "out", "--decode")
    assert [line["fields"]["n"]["value"] for line in lines] == [0, 1, 2, 3, 4]
    assert [line["fields"]["text"]["value"] for line in lines] == [f"text {i}" for i in range(5)]


# tar


@pytest.mark.parametrize("shard_samples", [None, 2])
def test_webdataset_reads_tar(original: Callable[[str], Original], tmp_path: Path, shard_samples: int | None) -> None:
    run = original("webdataset")
    spec = {
        "jpg": "jpg",
        "left.jpg": "jpg",
        "cls": "int",
        "txt": "utf8",
        "json": "json",
        "npy": "array",
        "bin": "bytes",
    }
    keys = ["000000", "dir.with.dots/é", "日本語/名前", "long/" * 30 + "name", "n" * 300]
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    samples: Samples = [
        (
            key,
            {
                "jpg": jpeg(i),
                "left.jpg": jpeg(50 + i),
                "cls": i - 2,
                "txt": "" if i == 1 else f"naïve {i}",
                "json": {"n": [i, None, "é"]},
                "npy": grid + i,
                "bin": MAGIC * i,
            },
        )
        for i, key in enumerate(keys)
    ]
    out = tmp_path / "out"
    write(out, spec, samples, container="tar", shard_samples=shard_samples)
    assert sidecars(out)
    lines = run("read_webdataset.py", out, "--decode")
    assert len(list(out.glob("*.tar"))) == (1 if shard_samples is None else 3)
    assert [line["key"] for line in lines] == keys
    for line, (_, fields) in zip(lines, samples, strict=True):
        found = line["fields"]
        assert found.keys() == spec.keys()
        for name in ("jpg", "left.jpg", "bin"):
            assert stored(found[name]) == digest(fields[name])
        assert found["npy"]["array"]["sha256"] == hashlib.sha256(fields["npy"].tobytes()).hexdigest()
        assert {name: found[name]["value"] for name in ("cls", "txt", "json")} == {
            name: fields[name] for name in ("cls", "txt", "json")
        }


def test_webdataset_decodes_fields_that_are_not_extensions(original: Callable[[str], Original], tmp_path: Path) -> None:
    run = original("webdataset")
    samples: Samples = [(f"k{i}", {"image": jpeg(i), "label": i, "caption": f"no. {i}"}) for i in range(3)]
    spec = {"image": "jpg", "label": "int", "caption": "utf8"}
    write(tmp_path / "out", spec, samples, container="tar")
    for i, line in enumerate(run("read_webdataset.py", tmp_path / "out", "--decode")):
        assert stored(line["fields"]["image.jpg"]) == digest(jpeg(i))
        assert line["fields"]["label.cls"]["value"] == i
        assert line["fields"]["caption.txt"]["value"] == f"no. {i}"


def test_bushel_appends_to_shards_of_webdataset(
    original: Callable[[str], Original], plan: Callable[..., Path], tmp_path: Path
) -> None:
    run = original("webdataset")
    out = tmp_path / "out"
    out.mkdir()
    rows = [(f"k{i}", {"cls": i, "txt": f"text {i}"}) for i in range(5)]
    run("write_webdataset.py", plan(rows[:3]), out / "x-%06d.tar", "--shard-samples", "2")
    write(out, {"cls": "int", "txt": "utf8"}, [*rows[3:]], container="tar", mode="append")
    lines = run("read_webdataset.py", out, "--decode")
    assert [line["key"] for line in lines] == [key for key, _ in rows]
    assert [line["fields"]["cls"]["value"] for line in lines] == [0, 1, 2, 3, 4]


# recordio


PAYLOADS = [b"", b"a", MAGIC, b"xy" + MAGIC + b"zz", b"wxyz" + MAGIC + b"q", MAGIC * 2, MAGIC * 500, bytes(100_000)]


@pytest.mark.parametrize("shard_samples", [None, 3])
def test_mxnet_reads_raw_records(
    original: Callable[[str], Original], tmp_path: Path, shard_samples: int | None
) -> None:
    run = original("mxnet")
    samples: Samples = [(None, {"data": payload}) for payload in PAYLOADS]
    out = tmp_path / "out"
    write(out, {"data": "bytes"}, samples, container="recordio", shard_samples=shard_samples)
    assert sidecars(out)
    expected = [{"key": str(i), "fields": {"data": digest(payload)}} for i, payload in enumerate(PAYLOADS)]
    assert len(list(out.glob("*.rec"))) == (1 if shard_samples is None else 3)
    assert run("read_mxnet.py", out, "--no-index") == expected
    indexed = run("read_mxnet.py", out)
    assert [line["fields"] for line in indexed] == [line["fields"] for line in expected]


def test_mxnet_reads_string_keys(original: Callable[[str], Original], tmp_path: Path) -> None:
    run = original("mxnet")
    keys = ["a", "n01440764/10026", "clé 日本"]
    samples: Samples = [(key, {"data": key.encode()}) for key in keys]
    write(tmp_path / "out", {"data": "bytes"}, samples, container="recordio")
    lines = run("read_mxnet.py", tmp_path / "out", "--key-type", "str")
    assert lines == [{"key": key, "fields": {"data": digest(key.encode())}} for key in keys]


@pytest.mark.parametrize("shard_samples", [None, 2])
def test_mxnet_reads_image_records_with_scalar_labels(
    original: Callable[[str], Original], tmp_path: Path, shard_samples: int | None
) -> None:
    run = original("mxnet")
    samples: Samples = [(str(7 * i), {"image": jpeg(i), "label": i + 0.5}) for i in range(4)]
    out = tmp_path / "out"
    write(out, {"image": "jpg", "label": "float"}, samples, container="recordio", shard_samples=shard_samples)
    lines = run("read_mxnet.py", out, "--unpack")
    assert [line["key"] for line in lines] == ["0", "7", "14", "21"]
    assert [stored(line["fields"]["image"]) for line in lines] == [digest(jpeg(i)) for i in range(4)]
    assert [line["fields"]["label"]["value"] for line in lines] == [0.5, 1.5, 2.5, 3.5]


def test_mxnet_reads_image_records_with_label_vectors_and_ids(
    original: Callable[[str], Original], tmp_path: Path
) -> None:
    run = original("mxnet")
    labels = [[1.0, 0.5], [2.0], [0.25, 4.0, 8.0]]
    samples: Samples = [
        (str(i), {"image": jpeg(i), "label": np.array(label, np.float32), "id": 2**40 + i, "id2": i})
        for i, label in enumerate(labels)
    ]
    spec = {"image": "jpg", "label": "array", "id": "u64", "id2": "u64"}
    write(tmp_path / "out", spec, samples, container="recordio")
    assert run("read_mxnet.py", tmp_path / "out", "--unpack") == [
        {
            "key": str(i),
            "fields": {
                "image": digest(jpeg(i)),
                "label": {"value": label},
                "id": {"value": 2**40 + i},
                "id2": {"value": i},
            },
        }
        for i, label in enumerate(labels)
    ]


def test_bushel_appends_to_records_of_mxnet(
    original: Callable[[str], Original], plan: Callable[..., Path], tmp_path: Path
) -> None:
    run = original("mxnet")
    out = tmp_path / "out"
    out.mkdir()
    run("write_mxnet.py", plan([(str(i), {"data": PAYLOADS[i]}) for i in range(5)]), out / "x.rec")
    added: Samples = [(str(i), {"data": PAYLOADS[i]}) for i in range(5, 8)]
    write(out, {"data": "bytes"}, added, container="recordio", mode="append")
    lines = run("read_mxnet.py", out)
    assert [line["fields"]["data"] for line in lines] == [digest(payload) for payload in PAYLOADS]
    assert [line["key"] for line in lines] == [str(i) for i in range(8)]
