"""Fields of numbers that are gathered: batches and errors equal the ordinary ones, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loader.two_ways import compare, ordinary, same

import bushel
from bushel.codecs import ArrayLayout
from bushel.loader.values.collate import Padded, Ragged

SAMPLES = 53
CONTAINERS = ("bag", "tar", "ffrecord", "recordio")
SPEC = {
    "tokens": "array",
    "vector": "npy",
    "raw": "array(float32,2,3)",
    "label": "int",
    "count": "uint",
    "wide": "i64",
    "unsigned": "u64",
    "real": "float",
    "narrow": "f32",
    "data": "bytes",
    "text": "utf8",
}


def sample(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    return {
        "tokens": rng.integers(0, 1 << 16, 2100, np.uint16),
        "vector": rng.standard_normal((2, 3)),
        "raw": rng.standard_normal((2, 3)).astype(np.float32),
        "label": int(rng.integers(-(10**6), 10**6)),
        "count": number**5,
        "wide": int(rng.integers(-(2**62), 2**62)),
        "unsigned": number,
        "real": float(rng.standard_normal()),
        "narrow": float(np.float32(rng.standard_normal())),
        "data": rng.bytes(40),
        "text": f"text {number}",
    }


def write(
    path: Path, container: str, spec: dict[str, str], samples: Callable[[int], dict[str, Any]] = sample, **options: Any
) -> bushel.Dataset:
    options = {"columns": (), **options}  # values that the index has are not gathered from files
    with bushel.Writer(path, spec, container=container, **options) as writer:
        for number in range(SAMPLES):
            value = samples(number)
            writer.append({name: value[name] for name in spec if name in value}, key=f"key/{number}")
    return bushel.open(path)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("codec", SPEC)
def test_each_codec_alone(tmp_path: Path, container: str, codec: str) -> None:
    if container == "tar" and codec == "raw":
        pytest.skip("tar has no such codec")
    ds = write(tmp_path / "data", container, {codec: SPEC[codec]})
    gathered = compare(lambda: bushel.Loader(ds, 7, shuffle=True, threads=0))
    text = container == "tar" and codec in ("real", "narrow")  # stored as JSON
    assert gathered == (0 if text or codec in ("data", "text") else SAMPLES)
    stacked = [codec] if codec != "text" else []
    gathered = compare(lambda: bushel.Loader(ds, 7, shuffle=True, threads=1, collate=dict.fromkeys(stacked, "stack")))
    assert gathered == (0 if text or codec == "text" else SAMPLES)


@pytest.mark.parametrize("container", CONTAINERS)
def test_all_codecs_with_images_labels_and_shards(tmp_path: Path, container: str) -> None:
    spec = {"image": "png", **SPEC}
    if container == "tar":
        del spec["raw"]
    image = np.random.default_rng(0).integers(0, 255, (9, 9, 3), np.uint8)
    ds = write(
        tmp_path / "data", container, spec, lambda n: sample(n) | {"image": image + np.uint8(n)}, shard_bytes=60_000
    )
    assert len(ds.shards) > 1
    for options in (
        {},
        {"shuffle": True},
        {"shuffle": "blocks", "drop_last": True},
        {"pad": "wrap", "shuffle": True, "rank": 1, "world_size": 3},
        {"fields": ["label", "image", "tokens"]},
        {"fields": {"tokens": True, "text": True, "label": False}},
        {"collate": {"data": "stack", "tokens": "list", "label": np.array}},
        {"transforms": {"tokens": lambda tokens: tokens[:5], "image": lambda image: image[:4]}},
        {"exclude": ["key/3", "key/9"], "on_error": "replace", "shuffle": True},
        {"exclude": ["key/3", "key/9"], "on_error": "skip"},
        {"keys": False, "shuffle": True},
        {"keys": False, "fields": ["label", "wide"], "prefetch": 3},
        {"fields": ["tokens", "label"], "batch_transform": lambda batch: batch | {"more": batch["label"] + 1}},
        {"fields": ["tokens", "label"], "exclude": ["key/3"], "on_error": "replace"},
        {"decode": False, "collate": {"vector": "stack", "data": "stack"}},
        {"collate": {"tokens": Ragged(), "data": Ragged()}},
    ):
        assert compare(lambda: bushel.Loader(ds, 8, threads=2, seed=3, **options)) > 0, options  # noqa: B023
    compare(lambda: bushel.Loader(ds, 8, threads=1, keys=False, collate=lambda samples: [list(one) for one in samples]))
    compare(lambda: bushel.Loader(ds, None, threads=1, keys=False))
    view = ds[::-3]
    assert compare(lambda: bushel.Loader(view, 8, threads=1, shuffle=True)) > 0
    mixture = bushel.mix({"a": ds, "b": ds[:9]}, weights={"a": 1, "b": 2}, until=90)
    assert compare(lambda: bushel.Loader(mixture, 8, threads=1)) > 0


def test_values_that_numpy_stacks_in_another_way(tmp_path: Path) -> None:
    """Numbers beyond int64, arrays of other shapes, types and byte orders, in some batches only."""
    odd: dict[str, tuple[Any, Any]] = {
        "label": (5, 2**63),
        "count": (5, 2**63),
        "tokens": (np.arange(4), np.arange(5)),
        "vector": (np.arange(4), np.arange(4.0)),
        "raw": (np.arange(4, dtype=">i2"), np.arange(4, dtype="<i2")),
        "empty": (np.zeros(0), np.zeros(0)),
        "fortran": (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
        "zero": (np.array(5), np.array(6)),
        "name": (np.array("abc"), np.array("ab")),
    }
    spec = {name: "npy" for name in odd} | {"label": "int", "count": "uint", "tokens": "array"}
    ds = write(tmp_path / "data", "bag", spec, lambda n: {name: both[n == 30] for name, both in odd.items()})
    for name in odd:
        gathered = compare(lambda: bushel.Loader(ds, 6, fields=[name], threads=0))  # noqa: B023
        assert (gathered > 0) == (name not in ("raw", "empty", "name"))
    assert compare(lambda: bushel.Loader(ds, 1, threads=0)) > 0


def test_a_field_that_hardly_ever_stacks_is_given_up(tmp_path: Path) -> None:
    spec = {"tokens": "array", "label": "int"}
    ds = write(tmp_path / "data", "bag", spec, lambda n: {"tokens": np.arange(n), "label": n})
    assert compare(lambda: bushel.Loader(ds, 2, threads=1)) < 2 * SAMPLES
    assert compare(lambda: bushel.Loader(ds, 2, threads=1, fields=["label"])) == SAMPLES


def damaged(ds: bushel.Dataset, field: str, numbers: list[int], at: int = 0) -> bushel.Dataset:
    """Return the dataset with a wrong byte in the values of a field of some samples."""
    for number in numbers:
        path, offset = ds.location(number, field)
        with Path(path).open("r+b") as file:
            file.seek(offset + at)
            byte = file.read(1)[0]
            file.seek(offset + at)
            file.write(bytes([byte ^ 0x55]))
    return ds


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
@pytest.mark.parametrize(("container", "verify"), [("bag", True), ("tar", False), ("ffrecord", None)])
def test_damaged_samples(tmp_path: Path, container: str, verify: bool | None, on_error: Any) -> None:
    write(tmp_path / "data", container, {"tokens": "array", "text": "utf8", "label": "int"})
    for field, at in (("tokens", 0), ("tokens", 300), ("text", 0)):
        ds = bushel.open(tmp_path / "data", verify=verify)
        ds[0]  # its files are open before they are damaged
        damaged(ds, field, [4, 17, 18], at)
        compare(lambda: bushel.Loader(ds, 6, shuffle=True, threads=1, on_error=on_error))  # noqa: B023
        options: dict[str, Any] = {"on_error": on_error, "threads": 0}
        if on_error != "skip":
            options |= {"rank": 1, "world_size": 2}
        assert compare(lambda: bushel.Loader(ds, 6, **options)) > 0  # noqa: B023
        damaged(ds, field, [4, 17, 18], at)


def test_missing_values(tmp_path: Path) -> None:
    def some(number: int) -> dict[str, Any]:
        return {"label": number, "text": "a"} if number % 7 else {"text": "b"}

    ds = write(tmp_path / "data", "tar", {"label": "int", "text": "utf8"}, some)
    compare(lambda: bushel.Loader(ds, 5, threads=0))
    compare(lambda: bushel.Loader(ds, 5, threads=0, on_error="skip"))
    compare(lambda: bushel.Loader(ds, 5, threads=0, collate={"label": "list"}))


def test_datasets_of_several_containers(tmp_path: Path) -> None:
    spec = {"tokens": "npy", "label": "int"}
    parts = [write(tmp_path / container, container, spec) for container in ("bag", "tar", "recordio")]
    ds = bushel.concat(parts)
    assert compare(lambda: bushel.Loader(ds, 8, shuffle=True, threads=2)) == 2 * len(ds)
    other = bushel.concat([parts[0], write(tmp_path / "other", "bag", {"label": "float", "tokens": "array"})])
    compare(lambda: bushel.Loader(other, 8, shuffle=True, threads=2))
    compare(lambda: bushel.Loader(other, 8, threads=0))
    lacks = bushel.concat([parts[0], write(tmp_path / "lacks", "bag", {"label": "int"})])
    compare(lambda: bushel.Loader(lacks, SAMPLES, threads=0))


def test_resume_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    ds = write(tmp_path / "data", "recordio", {"tokens": "array", "label": "int"})
    whole = bushel.Loader(ds, 4, shuffle=True, threads=1)
    first = iter(whole)
    for _ in range(5):
        next(first)
    state = whole.state_dict()
    rest = list(first)
    assert state["samples"] == 20

    def resumed() -> bushel.Loader:
        loader = bushel.Loader(ds, 4, shuffle=True, threads=1)
        loader.load_state_dict(state)
        return loader

    compare(resumed)
    same(list(resumed()), rest)


def test_worker_processes(tmp_path: Path) -> None:
    ds = write(tmp_path / "data", "bag", {"tokens": "array", "label": "int", "text": "utf8"})
    with ordinary():
        expected = list(bushel.Loader(ds, 6, shuffle=True, threads=1))
    same(list(bushel.Loader(ds, 6, shuffle=True, threads=1, processes=2)), expected)


def test_image_records_of_mxnet(tmp_path: Path) -> None:
    image = np.zeros((8, 8, 3), np.uint8)
    for name, spec in (("whole", "int"), ("real", "float")):
        ds = write(
            tmp_path / f"{name}.rec",
            "recordio",
            {"image": "png", "label": spec},
            lambda n: {"image": image, "label": n if name == "whole" else n / 4},  # noqa: B023
        )
        assert compare(lambda: bushel.Loader(ds, 8, threads=0)) == SAMPLES  # noqa: B023


def test_records_in_pieces(tmp_path: Path) -> None:
    """RecordIO cuts a record where it contains the format's magic word."""
    magic = b"\x0a\x23\xd7\xce" * 4
    ds = write(tmp_path / "data", "recordio", {"data": "bytes"}, lambda n: {"data": magic if n == 20 else bytes(16)})
    assert compare(lambda: bushel.Loader(ds, 8, threads=0, collate={"data": "stack"})) == SAMPLES - 8


def test_numbers_of_gulp_are_read_in_the_ordinary_way(tmp_path: Path) -> None:
    frames = [np.zeros((8, 8, 3), np.uint8)]
    ds = write(tmp_path / "data", "gulp", {"frames": "jpg[]", "label": "int"}, lambda n: {"frames": frames, "label": n})
    assert compare(lambda: bushel.Loader(ds, 8, threads=0)) == 0


def _encode(value: Any) -> bytes:
    return b"mine" + np.asarray(value, "<u4").tobytes()


def _decode(data: Any) -> Any:
    return np.frombuffer(data, "<u4", offset=4).copy()


def _layout(data: Any) -> ArrayLayout | None:
    return ArrayLayout(b"mine", np.dtype("<u4"), ((len(data) - 4) // 4,))


def test_a_codec_of_an_extension(tmp_path: Path) -> None:
    bushel.register_codec("mine-numbers", _encode, _decode, layout=_layout, replace=True)
    spec = {"tokens": "mine-numbers"}
    ds = write(tmp_path / "data", "bag", spec, lambda n: {"tokens": [n, n + 1]})
    assert compare(lambda: bushel.Loader(ds, 8, threads=0)) == SAMPLES


def test_more_shards_than_files_may_be_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = write(tmp_path / "data", "tar", {"tokens": "npy"}, shard_bytes=10_000)
    assert len(ds.shards) > 20
    monkeypatch.setattr(ds.reader.pool, "limit", 4)
    assert compare(lambda: bushel.Loader(ds, 2, threads=1)) == SAMPLES
    compare(lambda: bushel.Loader(ds, 9, threads=1, shuffle=True))


def test_a_file_that_changes_or_vanishes(tmp_path: Path) -> None:
    ds = write(tmp_path / "data", "tar", {"tokens": "npy"}, shard_bytes=60_000)
    Path(ds.location(SAMPLES - 1, "tokens")[0]).unlink()
    for on_error in ("raise", "skip", "replace"):
        compare(lambda: bushel.Loader(ds, 4, threads=0, on_error=on_error, shuffle=True))  # noqa: B023


def test_stacked_bytes_of_no_or_different_lengths(tmp_path: Path) -> None:
    ds = write(tmp_path / "data", "bag", {"data": "bytes"}, lambda n: {"data": b"" if n < 40 else b"x" * n})
    compare(lambda: bushel.Loader(ds, 8, threads=0, collate={"data": "stack"}))
    batch = next(iter(bushel.Loader(ds, 8, threads=0, collate={"data": "stack"})))
    assert (batch["data"].shape, batch["data"].dtype) == ((8, 0), np.uint8)
    with pytest.raises(bushel.errors.SpecError, match=r"bytes\[47\], bytes\[48\]"):
        list(bushel.Loader(ds[47:], 8, threads=0, collate={"data": "stack"}))


RAGGED: list[Any] = [
    Padded(),
    Padded(7, multiple_of=8),
    Padded(1.5, (None,)),
    Padded(shape=(60,)),
    Padded(shape=(30,)),  # too short for some
    Padded(-1),  # not a number of uint16, which NumPy says in its own way
]


@pytest.mark.parametrize(
    ("container", "rule"), [*((one, Ragged()) for one in CONTAINERS), *(("recordio", rule) for rule in RAGGED)], ids=str
)
def test_values_of_different_lengths(tmp_path: Path, container: str, rule: Any) -> None:
    def ragged(number: int) -> dict[str, Any]:
        rng = np.random.default_rng(number)
        return {"tokens": rng.integers(0, 1 << 16, (number * 7) % 53, np.uint16), "label": number, "text": f"{number}"}

    spec = {"tokens": "array", "label": "int", "text": "utf8"}
    ds = write(tmp_path / "data", container, spec, ragged, shard_bytes=3000)
    makes: list[Callable[[], bushel.Loader]] = [
        lambda: bushel.Loader(ds, 8, shuffle=True, threads=0, collate={"tokens": rule}),
        lambda: bushel.Loader(ds, 8, threads=2, keys=False, collate={"tokens": rule}, fields=["tokens", "label"]),
    ]
    for make in makes:
        assert compare(make) > 0


def test_ragged_rows_bytes_and_what_is_not_ragged(tmp_path: Path) -> None:
    def ragged(number: int) -> dict[str, Any]:
        rng = np.random.default_rng(number)
        odd = np.zeros((2, 2) if number == 30 else 2)
        return {"boxes": rng.standard_normal((number % 5, 4)), "data": rng.bytes(number), "odd": odd, "label": number}

    spec = {"boxes": "npy", "data": "bytes", "odd": "array", "label": "int"}
    ds = write(tmp_path / "data", "bag", spec, ragged)
    rule: Any
    for field, rule in (("boxes", Ragged()), ("boxes", Padded()), ("data", Ragged()), ("odd", Ragged())):
        compare(lambda: bushel.Loader(ds, 8, threads=1, fields=[field], collate={field: rule}))  # noqa: B023
    compare(lambda: bushel.Loader(ds, 8, threads=1, fields=["label"], collate={"label": Ragged()}))
    gathered = compare(
        lambda: bushel.Loader(ds, 8, threads=1, decode=False, fields=["boxes"], collate={"boxes": Ragged()})
    )
    assert gathered == SAMPLES
    [batch] = bushel.Loader(ds, SAMPLES, threads=0, fields=["data"], collate={"data": Ragged()}, keys=False)
    assert list(batch) == ["data"]
    assert batch["data"]["offsets"].tolist() == np.cumsum([0, *range(SAMPLES)]).tolist()


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_damaged_ragged_values(tmp_path: Path, on_error: Any) -> None:
    spec = {"tokens": "array", "text": "utf8"}
    ds = write(tmp_path / "data", "tar", spec, lambda n: {"tokens": np.arange(n + 5), "text": "abc"})
    ds[0]
    damaged(ds, "tokens", [17], 3)
    damaged(ds, "text", [33])
    for rule in (Ragged(), Padded(3)):
        compare(lambda: bushel.Loader(ds, 4, threads=1, on_error=on_error, collate={"tokens": rule}))  # noqa: B023


def test_tensors_and_the_end_of_a_group(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    ds = write(tmp_path / "data", "bag", {"tokens": "array", "label": "int"})
    loader = bushel.Loader(ds, 8, shuffle=True, to="torch", collate={"tokens": Ragged()})
    for batch, expected in zip(loader, bushel.Loader(ds, 8, shuffle=True, collate={"tokens": Ragged()}), strict=True):
        assert torch.equal(batch["tokens"]["offsets"], torch.from_numpy(expected["tokens"]["offsets"]))
        assert batch["tokens"]["values"].numpy().tobytes() == expected["tokens"]["values"].tobytes()
        assert torch.equal(batch["label"], torch.from_numpy(expected["label"]))
    for left in (1, 2, 3):  # left in the middle of a group, and continued there
        first = bushel.Loader(ds, 8, shuffle=True, threads=1)
        for _ in zip(range(left), first, strict=False):
            pass
        assert first.state_dict()["samples"] == 8 * left
