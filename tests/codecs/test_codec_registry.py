from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bushel._runtime import public
from bushel.codecs import Codec, codec_names, codec_of_extension, get_codec, register_codec, registry, tar_storage
from bushel.codecs.base import Buffer
from bushel.errors import CodecError, SpecError

DOCS = Path(__file__).parents[2] / "docs" / "codecs.md"


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "registered", {})
    for cached in registry._CACHED:
        cached.cache_clear()
    yield
    for cached in registry._CACHED:
        cached.cache_clear()


def reverse(value: bytes) -> bytes:
    return value[::-1]


def reverse_back(data: Buffer) -> bytes:
    return bytes(data)[::-1]


def test_names_are_sorted_and_complete() -> None:
    expected = (
        "array audio avif bmp bool bytes clip cls csv-text datetime64 f32 flac float float-text frame frames gif gzip "
        "heic i64 image int jpeg jpg json json-array jxl litdata-array litdata-json litdata-tensor mds-array "
        "mp3 mp4 msgpack npy npz ogg pbm pgm pickle pil png ppm recordio-label recordio-label-int stored "
        "tenbin tif tiff timedelta64 tree u64 uint utf8 varint varints wav webm webp"
    )
    assert codec_names() == tuple(expected.split())


def test_same_codec_each_time() -> None:
    assert get_codec("array(float32,2)") is get_codec("array(float32,2)")
    assert get_codec("jpg(90)").name == "jpg(90)"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("jpgg", "did you mean 'jpg'"),
        ("str", "did you mean 'utf8'"),
        ("text", "did you mean 'utf8'"),
        ("video", "did you mean 'clip' or 'mp4'"),
        ("ndarray", "did you mean 'array'"),
        ("zzzzzzzzz", "known codecs: array, audio, avif"),
        ("", "unknown codec ''"),
        ("utf8(3)", "takes no parameters: write 'utf8'"),
        ("png(3)", "takes no parameters but 'exif_rotate' and 'allow_truncated': write 'png'"),
        ("int(0)", "number of bytes"),
        ("int(x)", "number of bytes"),
        ("array(object)", "is not a dtype"),
        ("array(str)", "is not a dtype"),
        ("array(f4,f4)", "sizes must be numbers"),
        ("array(float32,2,-1)", "sizes must be numbers"),
        ("array(float31,1)", "is not a dtype"),
        ("jpg(0)", "quality must be a number from 1 to 100"),
        ("jpg(101)", "quality must be a number from 1 to 100"),
        ("jpg(90,411)", "444, 422 or 420"),
        ("webp(x)", "quality must be a number"),
        ("mp4(0)", "frames per second"),
        ("gzip", "wraps another one"),
        ("gzip(gzip)", "wraps another one"),
        ("gzip(nope)", "unknown codec 'nope'"),
        ("int64", "unknown codec 'int64': did you mean 'i64', or 'array' for arrays of int64?"),
        ("float32", "did you mean 'f32'"),
        ("float64", "did you mean 'float'"),
        ("int32", "did you mean 'int'"),
        ("uint8", "did you mean 'uint', or 'array' for arrays of uint8?"),
    ],
)
def test_bad_names(name: str, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        get_codec(name)


@pytest.mark.parametrize(
    "name", ["int", "int(8)", "i64", "array", "array(uint8,2)", "jpg(90)", "mp4", "gzip(gzip(json))"]
)
def test_codecs_pickle(name: str) -> None:
    codec = pickle.loads(pickle.dumps(get_codec(name)))
    assert isinstance(codec, Codec)
    assert codec.name == name


def test_register() -> None:
    codec = register_codec("reversed", reverse, reverse_back)
    assert get_codec("reversed") is codec
    assert "reversed" in codec_names()
    assert codec.encode(b"abc") == b"cba"
    assert codec.decode(memoryview(b"cba")) == b"abc"
    assert get_codec("gzip(reversed)").decode(get_codec("gzip(reversed)").encode(b"abc")) == b"abc"
    assert tar_storage("reversed") == ("reversed", "reversed")
    assert tar_storage("gzip(reversed)") == ("reversed.gz", "gzip(reversed)")
    assert codec_of_extension("left.Reversed") == "reversed"
    assert codec_of_extension("reversed.gz") == "gzip(reversed)"
    with pytest.raises(SpecError, match="takes no parameters"):
        get_codec("reversed(1)")


def test_a_registered_codec_travels_to_a_process_that_lacks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = pickle.dumps(register_codec("reversed", reverse, reverse_back))
    monkeypatch.setattr(registry, "registered", {})
    assert pickle.loads(stored).decode(b"cba") == b"abc"


@pytest.mark.parametrize("name", ["jpg", "gzip", "mine"])
def test_taken_names_need_replace(name: str) -> None:
    register_codec("mine", reverse, reverse_back)
    with pytest.raises(SpecError, match="replace=True"):
        register_codec(name, reverse, reverse_back)
    get_codec("utf8")
    register_codec(name, reverse, reverse_back, replace=True)
    assert get_codec(name).encode(b"ab") == b"ba"


@pytest.mark.parametrize("name", ["", "JPG", "a.b", "a(b)", "a[]", "é"])
def test_malformed_names(name: str) -> None:
    with pytest.raises(SpecError, match="invalid codec name"):
        register_codec(name, reverse, reverse_back)


def test_what_a_users_function_raises_is_a_codec_error() -> None:
    def fail(value: Any) -> Any:
        raise ZeroDivisionError("oops")

    codec = register_codec("broken", fail, fail)
    with pytest.raises(
        CodecError, match="codec 'broken' expected a value that it can encode, found int 3 .*oops"
    ) as info:
        codec.encode(3)
    assert isinstance(info.value.__cause__, ZeroDivisionError)
    with pytest.raises(CodecError, match=r"codec 'broken' .* found 2 bytes starting with 61 62 .*oops"):
        codec.decode(b"ab")
    with pytest.raises(CodecError, match="encode function to return bytes, found int 3"):
        register_codec("wrong", lambda value: value, reverse_back).encode(3)


@pytest.mark.parametrize(
    ("extension", "codec"),
    [
        ("txt", "utf8"),
        ("HTM", "utf8"),
        ("cls2", "cls"),
        ("id", "cls"),
        ("jsn", "json"),
        ("msg", "msgpack"),
        ("tb", "tenbin"),
        ("left.jpg", "jpg"),
        ("jpeg", "jpg"),
        ("img", "image"),
        ("tiff", "tif"),
        ("seg.txt.gz", "gzip(utf8)"),
        ("gz", "gzip(bytes)"),
        ("tar.gz", "gzip(bytes)"),
        ("txt.gz.gz", "gzip(bytes)"),
        ("", "bytes"),
        ("bin", "bytes"),
        ("cbor", "bytes"),
        ("int", "bytes"),
        ("pyd", "bytes"),
        ("pickle", "bytes"),
        ("pkl", "bytes"),
        ("pth", "bytes"),
        ("pkl.gz", "gzip(bytes)"),
    ],
)
def test_codec_of_extension(extension: str, codec: str) -> None:
    assert codec_of_extension(extension) == codec
    get_codec(codec)


@pytest.mark.parametrize(
    ("codec", "extension", "stored"),
    [
        ("bytes", "bin", "bytes"),
        ("utf8", "txt", "utf8"),
        ("int", "cls", "cls"),
        ("int(8)", "cls", "cls"),
        ("u64", "cls", "cls"),
        ("cls", "cls", "cls"),
        ("float", "json", "float-text"),
        ("f32", "json", "float-text"),
        ("json", "json", "json"),
        ("array", "npy", "npy"),
        ("array(float32,2)", "npy", "npy"),
        ("npz", "npz", "npz"),
        ("msgpack", "mp", "msgpack"),
        ("tree", "tree", "tree"),
        ("jpg(90)", "jpg", "jpg(90)"),
        ("jpeg", "jpg", "jpeg"),
        ("webp(80)", "webp", "webp(80)"),
        ("tenbin", "ten", "tenbin"),
        ("pickle", "pickle", "pickle"),
        ("gzip(int)", "cls.gz", "gzip(cls)"),
    ],
)
def test_tar_storage(codec: str, extension: str, stored: str) -> None:
    assert tar_storage(codec) == (extension, stored)


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        ("int", -300),
        ("u64", 2**64 - 1),
        ("float", 3),
        ("f32", 0.5),
        ("utf8", "é"),
        ("json", {"a": [1, None]}),
        ("tree", {"a": 1}),
        ("bytes", b"\0"),
    ],
)
def test_a_tar_read_by_its_extensions_gives_the_value_and_its_type(codec: str, value: Any) -> None:
    extension, stored = tar_storage(codec)
    data = get_codec(stored).encode(value)
    plain = get_codec(codec).decode(get_codec(codec).encode(value))
    for name in (stored, codec_of_extension(extension)):
        found = get_codec(name).decode(data)
        assert found == plain == value
        assert type(found) is type(plain)


def test_unknown_codec_has_no_tar_storage() -> None:
    with pytest.raises(SpecError, match="unknown codec"):
        tar_storage("nope")


def test_heavy_packages_load_only_when_used() -> None:
    heavy = "PIL", "av", "msgpack", "pyarrow"
    code = f"import sys, bushel.codecs as c; c.get_codec('jpg'); print([m for m in {heavy!r} if m in sys.modules])"
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.stdout.strip() == "[]"


def test_docs_name_every_codec_and_the_example_runs() -> None:
    page = DOCS.read_text(encoding="utf-8")
    table = page.partition("What a value may be")[0]
    named = {name.partition("(")[0] for name in re.findall(r"`([a-z0-9-]+(?:\([^`]*\))?)`", table)}
    assert set(codec_names()) <= named
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(example, str(DOCS), "exec"), {})
    assert get_codec("points").decode(np.zeros(3, "<f4").tobytes()).shape == (1, 3)


def test_the_registry_names_the_codecs_of_every_module() -> None:
    for module, names in registry._MODULES.items():
        assert set(import_module(f"bushel.codecs.{module}").FACTORIES) == set(names)


def test_a_codec_of_an_installed_package_may_run_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says is known before anything else has used the codec."""
    (tmp_path / "strange_codec.py").write_text(
        "import pickle\nfrom bushel import register_codec\n"
        "OBJECTS = register_codec('objects', pickle.dumps, pickle.loads, runs_code=True)\n"
    )
    (tmp_path / "strange_codec-1.0.dist-info").mkdir()
    (tmp_path / "strange_codec-1.0.dist-info/METADATA").write_text("Name: strange-codec\nVersion: 1.0\n")
    (tmp_path / "strange_codec-1.0.dist-info/entry_points.txt").write_text(
        "[bushel.codecs]\nobjects = strange_codec:OBJECTS\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    public._entry_points.cache_clear()
    try:
        assert registry.from_file("gzip(objects)") == "stored(gzip(objects))"
    finally:
        public._entry_points.cache_clear()
        for cached in registry._CACHED:
            cached.cache_clear()
