"""Damaged bytes give a value or a `CodecError`, and nothing else."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.codecs import sounds
from tests.containers.read_in_place import FOREIGN

import bushel
from bushel.codecs import codec_names, get_codec, registry
from bushel.errors import CodecError, MissingPackageError

PICTURE = (np.arange(12 * 16 * 3).reshape(12, 16, 3) % 251).astype(np.uint8)
GREY = PICTURE[:, :, 0]
NESTED = {"a": [1, 2.5, None, "text"], "b": {"c": True}}
CLIP = np.repeat(np.repeat(PICTURE[None], 3, axis=0), 2, axis=1)

SAMPLES: dict[str, Any] = {
    "array": np.ones((3, 4)),
    "array(float32,2,3)": np.ones((2, 3), "f4"),
    "bmp": PICTURE,
    "bool": True,
    "bytes": b"bytes",
    "cls": 7,
    "csv-text": 'a "quoted" text',
    "datetime64(us)": np.datetime64("2024-06-01T12:30", "us"),
    "f32": 1.5,
    "float": 1.5,
    "flac": b"",
    "float-text": 1.5,
    "frame": b"",
    "frames": b"",
    "gif": PICTURE,
    "gzip(utf8)": "text" * 20,
    "i64": -1,
    "recordio-label": [0.5, 2.0],
    "recordio-label-int": 7,
    "image": GREY,
    "audio": b"",
    "avif": PICTURE,
    "heic": PICTURE,
    "int": 500,
    "jxl": PICTURE,
    "int(8)": 500,
    "jpeg": GREY,
    "jpg": PICTURE,
    "json": NESTED,
    "json-array": np.ones((3, 4)),
    "mp3": b"",
    "mp4": CLIP,
    "msgpack": NESTED,
    "npy": np.ones((3, 4)),
    "npz": {"a": np.ones(3), "b": PICTURE},
    "ogg": b"",
    "pbm": (GREY > 9).astype(np.uint8) * 255,
    "pgm": GREY,
    "png": PICTURE,
    "ppm": PICTURE,
    "tenbin": [np.ones(3), PICTURE],
    "tif": PICTURE,
    "tiff": GREY.astype(np.uint16),
    "tree": {"a": [np.ones(2), NESTED]},
    "timedelta64(ns)": np.timedelta64(5, "ns"),
    "u64": 1,
    "uint": 500,
    "litdata-array": np.ones((3, 4)),
    "litdata-json": {"a": [0], "b": [{"x": "t"}]},
    "litdata-tensor": np.ones((3, 4)),
    "mds-array": np.ones((3, 4)),
    "pil": PICTURE,
    "utf8": "héllo",
    "varint": 300,
    "varints": np.array([1, -2, 300]),
    "stored(jpg)": b"\x80",
    "wav": b"",
    "webm": CLIP,
    "clip": CLIP,
    "webp": PICTURE,
}

SOUNDS = ("audio", "flac", "mp3", "ogg", "wav")  # these codecs store files
FRAMES = ("frame", "frames")  # these are only read, from videos
LITDATA = b"\x05\2\0\0\0\1\0\0\0a\2\1\0\0\0" + bytes(8) + b"\1\0\0\0b\6\1\0\0\0\1\0\0\0\1\0\0\0x\x11\1\0\0\0t"
"""The sample of `litdata-json` in the binary form, which is only read."""

EDITS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True), st.binary(max_size=4) | st.sampled_from([b"\xff" * 4, b"\x7f" + b"\xff" * 7])
    ),
    max_size=4,
)


@cache
def encoded(name: str) -> bytes:
    """Encoded once for all examples: encoders of clips take their time."""
    if name in SOUNDS:
        return sounds.encoded("m4a" if name == "audio" else name)
    if name in FRAMES:
        with bushel.open(FOREIGN / "lerobot", index="memory", episodes=name == "frames") as ds:
            return bytes(ds.read([3], ["observation.images.top"], decode=False)[0]["observation.images.top"])
    return LITDATA if name == "litdata-json" else bytes(get_codec(name).encode(SAMPLES[name]))


def need_packages(name: str) -> None:
    """Skip the test of a codec whose package is not installed."""
    packages = {
        "avif": "PIL._avif",
        "heic": "pillow_heif",
        "jxl": "pillow_jxl",
        **dict.fromkeys(("mp4", "webm", "clip", *SOUNDS, *FRAMES), "av"),
    }
    if name in packages:
        pytest.importorskip(packages[name])


def test_the_sample_of_litdata_is_one() -> None:
    assert get_codec("litdata-json").decode(LITDATA) == SAMPLES["litdata-json"]


def test_every_codec_is_fuzzed() -> None:
    unpickling = {"pickle"}  # runs what the bytes say: not for damaged bytes
    of_other_tests = registry.registered.keys()
    assert {name.partition("(")[0] for name in SAMPLES} == set(codec_names()) - unpickling - of_other_tests


@settings(max_examples=40, deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_bytes(name: str, data: st.DataObject) -> None:
    need_packages(name)
    codec = get_codec(name)
    stored = bytearray(encoded(name))
    for place, patch in data.draw(EDITS):
        start = int(place * len(stored))
        stored[start : start + len(patch)] = patch
    end = data.draw(st.none() | st.integers(0, len(stored)))
    with contextlib.suppress(CodecError):
        codec.decode(memoryview(bytes(stored[:end])))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=200))
@pytest.mark.parametrize("name", SAMPLES)
def test_any_bytes(name: str, data: bytes) -> None:
    need_packages(name)
    with contextlib.suppress(CodecError, MissingPackageError):  # the first bytes may be of JPEG XL, for one
        get_codec(name).decode(data)
