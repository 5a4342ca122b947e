"""AVIF by Pillow; HEIC and JPEG XL by pillow-heif and pillow-jxl-plugin: without them their tests are skipped."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, features

import bushel
from bushel.codecs import codec_of_extension, get_codec
from bushel.codecs.newer_images import add_format, jxl_size, newer_format
from bushel.containers.features import codec_by_magic
from bushel.errors import CodecError, MissingPackageError
from bushel.transforms.fused import image_size
from bushel.viewer.stored import media_type

PACKAGES = {"avif": "PIL._avif", "heic": "pillow_heif", "jxl": "pillow_jxl"}


def picture(channels: int = 3) -> npt.NDArray[np.uint8]:
    rows, columns = np.mgrid[:48, :64]
    planes = [rows * 4, columns * 3, rows + columns, np.full_like(rows, 200)][:channels]
    return np.stack(planes, axis=2).astype(np.uint8)


@pytest.fixture(params=list(PACKAGES))
def kind(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(PACKAGES[request.param])
    return str(request.param)


@pytest.mark.parametrize("channels", [3, 4])
def test_pictures_come_back_under_any_name(kind: str, channels: int) -> None:
    value = picture(channels)
    stored = get_codec(kind).encode(value)
    for name in (kind, "image", "jpg"):
        found: npt.NDArray[Any] = get_codec(name).decode(stored)
        assert (found.shape, found.dtype.name, found.flags.writeable) == (value.shape, "uint8", True)
        assert np.abs(found.astype(int) - value).mean() < 4


def test_pillow_gives_the_same_pixels_of_an_avif(monkeypatch: pytest.MonkeyPatch) -> None:
    avif, settings = pytest.importorskip("PIL._avif"), pytest.importorskip("PIL.AvifImagePlugin")
    threads: list[int] = []

    def decoder(data: bytes, name: str, count: int) -> Any:
        threads.append(count)
        return made(data, name, count)

    made = avif.AvifDecoder
    shown = Image.fromarray(picture())
    for value, options in (
        (shown, {}),
        (Image.fromarray(picture(4)), {}),
        (shown.convert("L"), {}),
        (shown, {"save_all": True, "append_images": [shown.rotate(180)]}),
        (shown.crop((0, 0, 33, 27)), {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"}),
    ):
        stream = io.BytesIO()
        value.save(stream, "AVIF", **options)
        stored = stream.getvalue()
        monkeypatch.setattr(avif, "AvifDecoder", decoder)
        found: npt.NDArray[Any] = get_codec("image").decode(stored)
        assert image_size(stored) == value.size
        assert threads[0] == 1
        threads.clear()
        monkeypatch.setattr(avif, "AvifDecoder", made)
        np.testing.assert_array_equal(found, np.array(Image.open(stream)))
    monkeypatch.setattr(avif, "AvifDecoder", decoder)
    monkeypatch.setattr(settings, "DEFAULT_MAX_THREADS", 3)
    get_codec("image").decode(stored)
    assert threads == [3]


def test_jpeg_xl_loses_nothing_without_a_quality() -> None:
    pytest.importorskip("pillow_jxl")
    codec = get_codec("jxl")
    for value in (picture(), picture(4), picture()[:, :, 0]):
        np.testing.assert_array_equal(codec.decode(codec.encode(value)), value)


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (40, 24), (64, 48), (513, 512), (600, 7), (9, 9000), (320, 180)])
def test_the_header_of_jpeg_xl_has_the_size(size: tuple[int, int]) -> None:
    pytest.importorskip("pillow_jxl")
    stored = bytes(get_codec("jxl").encode(np.zeros((size[1], size[0], 3), np.uint8)))
    assert jxl_size(stored) == size
    assert image_size(stored) == size
    assert jxl_size(b"\x00\x00\x00\x0cJXL \x0d\x0a\x87\x0a" + stored) is None


def test_sizes_in_a_fresh_process(kind: str) -> None:
    """A process that has decoded no such picture yet knows the format, too."""
    stored = bytes(get_codec(kind).encode(picture()))
    code = "import sys; from bushel.transforms.fused import image_size; print(image_size(sys.stdin.buffer.read()))"
    found = subprocess.run([sys.executable, "-c", code], input=stored, stdout=subprocess.PIPE, check=True)
    assert found.stdout.decode().strip() == "(64, 48)"


def test_a_lower_quality_takes_fewer_bytes(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    low, high = (len(memoryview(get_codec(f"{kind}({quality})").encode(noise))) for quality in (20, 95))
    assert low < high


def test_first_bytes(kind: str) -> None:
    stored = bytes(get_codec(kind).encode(picture()))
    assert newer_format(stored) == {"avif": "AVIF", "heic": "HEIF", "jxl": "JXL"}[kind]
    assert codec_of_extension(f"a.{kind}") == kind
    if kind != "jxl":
        assert codec_by_magic(stored[:16]) == kind
        assert media_type(stored[:16]) == f"image/{kind}"


def test_a_clip_is_no_picture() -> None:
    clip = b"\x00\x00\x00\x1cftypisom\x00\x00\x02\x00isomiso2mp41"
    assert newer_format(clip) is None
    assert newer_format(b"\x00\x00\x00\x14ftypmif1\x00\x00\x00\x00avif") == "AVIF"
    assert newer_format(b"\x00\x00\x00\x14ftypmif1\x00\x00\x00\x00miaf") == "HEIF"
    assert newer_format(b"\xff\xff\xff\xffftypisom") is None
    assert codec_by_magic(clip[:16]) == "mp4"


def test_damaged_pictures(kind: str) -> None:
    stored = bytes(get_codec(kind).encode(picture()))
    for data in (stored[:40], stored[: len(stored) // 2], stored[:-9]):
        try:
            found = get_codec(kind).decode(data)
        except CodecError:
            continue
        assert found.shape[2] == 3  # a decoder may show what is there


def test_too_many_pixels(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = get_codec(kind).encode(picture())
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(CodecError, match="3072 pixels"):
        get_codec(kind).decode(stored)


@pytest.mark.parametrize(("kind", "extra"), [("heic", "heif"), ("jxl", "jxl")])
def test_a_missing_package_is_named(kind: str, extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, PACKAGES[kind], None)
    data = {"heic": b"\x00\x00\x00\x14ftypheic\x00\x00\x00\x00mif1", "jxl": b"\xff\x0a" + bytes(30)}[kind]
    with pytest.raises(MissingPackageError, match=rf"pip install 'bushel\[{extra}\]'"):
        get_codec("image").decode(data)
    folder = tmp_path / "photos" / "cats"
    folder.mkdir(parents=True)
    (folder / f"1.{kind}").write_bytes(data)
    with pytest.raises(MissingPackageError, match=extra):
        bushel.open(tmp_path / "photos")[0]


def test_a_pillow_that_knows_no_avif_is_named_without_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(features.modules, "avif", raising=False)  # as in Pillow 11.0
    with pytest.raises(MissingPackageError, match="pip install -U 'pillow>=11.3'"):
        add_format("AVIF")


def test_folders_are_packed_opened_and_loaded(kind: str, tmp_path: Path) -> None:
    stored = bytes(get_codec(kind).encode(picture()))
    for label in ("cats", "dogs"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for number in range(3):
            (tmp_path / "photos" / label / f"{number}.{kind}").write_bytes(stored)
    bushel.pack(tmp_path / "photos", tmp_path / "out", container="tar")
    for path in ("photos", "out"):
        ds = bushel.open(tmp_path / path)
        assert len(ds) == 6
        assert ds.read([0], ["image"], decode=False)[0]["image"] == stored
        crop = bushel.transforms.RandomResizedCrop(24)
        [batch] = bushel.Loader(ds, 6, transforms={"image": [crop]}, threads=1)
        assert batch["image"].shape == (6, 24, 24, 3)
    assert bushel.open(tmp_path / "out").column("image.width").tolist() == [64] * 6


def test_pillow_images_are_taken(kind: str) -> None:
    stream = io.BytesIO(bytes(get_codec(kind).encode(Image.fromarray(picture()))))
    assert np.abs(get_codec("image").decode(stream.getvalue()).astype(int) - picture()).mean() < 4
