"""The original packages' own bytes. Files are parsed here by hand, so that only the codecs are under test."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bushel.codecs import codec_of_extension, get_codec
from bushel.spec import parse_spec

BAGS = {
    "bags-0.5.1": ("A", "plain"),
    "granular-A-0.16.4": ("A", "plain"),
    "granular-B-0.20.3": ("B", "plain"),
    "granular-C-0.24.2": ("C", "plain"),
}
GZ = {"a": "packed inside", "b": ""}
# The codecs of which a value has one encoding only, so that writing what was read gives the same bytes.
CANONICAL = {"bytes", "utf8", "int", "i64", "u64", "array", "tree", "msgpack"}


def records(folder: Path, field: str, generation: str) -> list[bytes]:
    data = (folder / f"{field}.bag").read_bytes()
    if generation == "C":
        table = (folder / f"{field}.idx").read_bytes()
    else:
        table = data[struct.unpack("<Q", data[-8:])[0] :] if data else b""
    ends = struct.unpack(f"<{len(table) // 8}Q", table)
    starts = ends[:-1] if generation == "A" else (0, *ends)
    ends = ends[1:] if generation == "A" else ends
    return [data[start:end] for start, end in zip(starts, ends, strict=False)]


def flat(manifest: dict[str, Any], field: str) -> list[dict[str, Any]]:
    found = []
    for sample in manifest["samples"]:
        entry = sample["fields"][field]
        found += entry if isinstance(entry, list) else [entry]
    return found


@pytest.mark.parametrize("name", BAGS)
def test_bags(golden: Path, name: str) -> None:
    generation, kind = BAGS[name]
    folder = golden / name / kind
    manifest = json.loads((folder / "manifest.json").read_text())
    seen = 0
    for field in parse_spec(manifest["spec"]).values():
        codec = get_codec("uint" if generation == "A" and field.codec == "int" else field.codec)
        stored = records(folder / manifest["open"], field.name, generation)
        entries = flat(manifest, field.name)
        assert len(stored) == len(entries)
        for data, entry in zip(stored, entries, strict=True):
            assert hashlib.sha256(data).hexdigest() == entry["sha256"]
            value = codec.decode(memoryview(data))
            if "value" in entry:
                assert value == entry["value"]
                seen += 1
            if field.codec in CANONICAL or field.codec.startswith(("int(", "array(")):
                assert codec.encode(value) == data
            if field.codec in ("jpg", "jpeg", "png"):
                assert value.dtype == np.uint8
                assert value.ndim in (2, 3)
    assert seen > 10


def members(path: Path) -> dict[tuple[str, str], bytes]:
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            assert stream is not None
            key, _, extension = member.name.partition(".")
            found[key, extension.lower()] = stream.read()
    return found


@pytest.mark.parametrize("name", ["encoders", "member-gz", "float-mtime"])
def test_webdataset(golden: Path, name: str) -> None:
    folder = golden / "webdataset-1.0.2" / name
    manifest = json.loads((folder / "manifest.json").read_text())
    stored = members(folder / manifest["open"])
    values = {}
    for sample in manifest["samples"]:
        for extension, entry in sample["fields"].items():
            data = stored[sample["key"], extension]
            assert hashlib.sha256(data).hexdigest() == entry["sha256"]
            values[sample["key"], extension] = value = get_codec(codec_of_extension(extension)).decode(data)
            if "value" in entry:
                assert value == entry["value"]
    if name == "member-gz":
        assert {key: values[key, "txt.gz"] for key in "ab"} == GZ
    if name == "encoders":
        assert values["e0", "pyd"] == stored["e0", "pyd"]  # a pickle stays bytes
        assert [array.tolist() for array in values["e0", "ten"]] == [[[0, 1, 2], [3, 4, 5]]]
        assert get_codec("tenbin").encode(values["e0", "ten"]) == stored["e0", "ten"]
        assert get_codec("npy").encode(values["e0", "npy"]) == stored["e0", "npy"]
        np.testing.assert_equal(values["e0", "npz"], dict(np.load(io.BytesIO(stored["e0", "npz"]))))
        assert values["e0", "ppm"].shape[2] == values["e0", "png"].shape[2] == values["e0", "jpg"].shape[2] == 3
        assert isinstance(values["e0", "html"], str)
        assert isinstance(values["e0", "count"], int)
