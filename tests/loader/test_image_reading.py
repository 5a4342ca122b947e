"""Images that are turned as Exif says, and damaged ones that pass: by the loader's options, and by their codecs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image, ImageOps
from tests.kernels.jpegs import picture

import bushel
from bushel.codecs import get_codec
from bushel.codecs.image import ImageReading, image_reading
from bushel.errors import CodecError, SpecError
from bushel.loader import Loader, MapView, StreamLoader
from bushel.transforms import CenterCrop, EachFrame, Lambda, RandomResizedCrop, Resize

FORMATS = ["JPEG", "PNG", "WEBP", "TIFF"]
ORIENTATIONS = range(1, 9)


def turned(orientation: int, kind: str = "JPEG", seed: int = 0) -> bytes:
    """An image of 64x48 pixels that says how it is to be turned."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    stream = io.BytesIO()
    options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {"quality": 92} if kind == "JPEG" else {}
    Image.fromarray(picture(64, 48, seed)).save(stream, kind, exif=exif, **options)
    return stream.getvalue()


def upright(data: bytes) -> npt.NDArray[np.uint8]:
    with Image.open(io.BytesIO(data)) as image:
        return np.array(ImageOps.exif_transpose(image).convert("RGB"))


def stored(folder: Path, datas: list[bytes], codec: str = "image") -> bushel.Dataset:
    spec = {"image": codec, "frames": f"{codec}[]", "label": "int"}
    with bushel.Writer(folder, spec, container="bag") as writer:
        for number, data in enumerate(datas):
            writer.append({"image": data, "frames": [data, data], "label": number}, key=f"k{number}")
    return bushel.open(folder)


def samples(loader: Any) -> list[dict[str, Any]]:
    return list(loader)


class TestOrientation:
    @pytest.mark.parametrize("kind", FORMATS)
    @pytest.mark.parametrize("orientation", ORIENTATIONS)
    def test_the_codec(self, kind: str, orientation: int) -> None:
        data = turned(orientation, kind)
        for name in (
            "image(exif_rotate)",
            "jpg(exif_rotate)",
            "jpg(90,444,exif_rotate)",
            "png(exif_rotate,allow_truncated)",
            "webp(80,exif_rotate)",
        ):
            np.testing.assert_array_equal(get_codec(name).decode(data), upright(data))

    def test_without_it_pixels_are_as_stored(self) -> None:
        assert get_codec("jpg").decode(turned(6)).shape == (48, 64, 3)
        assert get_codec("jpg(exif_rotate)").decode(turned(6)).shape == (64, 48, 3)

    def test_writing_is_the_same(self) -> None:
        image = picture(20, 30)
        assert get_codec("jpg(80,exif_rotate)").encode(image) == get_codec("jpg(80)").encode(image)
        assert get_codec("png(exif_rotate)").encode(image) == get_codec("png").encode(image)

    @pytest.mark.parametrize(
        "name", ["jpg(exif_rotate,90)", "png(90)", "jpg(turn)", "webp(exif_rotate,80)", "png(exif_rotate,x)"]
    )
    def test_words_come_last(self, name: str) -> None:
        with pytest.raises(SpecError):
            get_codec(name)

    def test_what_a_codec_says_of_reading(self) -> None:
        assert image_reading("jpg") == image_reading("jpg(90,444)") == ImageReading()
        assert image_reading("jpg(90,allow_truncated,exif_rotate)") == ImageReading(
            exif_rotate=True, allow_truncated=True
        )

    @pytest.mark.parametrize("kind", FORMATS)
    def test_the_loader_turns_what_it_decodes_whole(self, tmp_path: Path, kind: str) -> None:
        datas = [turned(orientation, kind) for orientation in ORIENTATIONS]
        dataset = stored(tmp_path / "x", datas)
        functions = [Lambda(np.transpose)]
        for transforms in ({}, {"image": functions}):
            loader = Loader(dataset, None, exif_rotate=True, transforms=transforms)
            for sample, data in zip(samples(loader), datas, strict=True):
                expected = upright(data)
                np.testing.assert_array_equal(sample["image"], np.transpose(expected) if transforms else expected)
                np.testing.assert_array_equal(sample["frames"], [expected, expected])
        [plain] = samples(Loader(dataset[5:6], None))
        assert plain["image"].shape == ((64, 48, 3) if kind == "TIFF" else (48, 64, 3))

    @pytest.mark.parametrize("kind", FORMATS)
    @pytest.mark.parametrize("by", ["loader", "codec"])
    def test_the_loader_crops_what_is_upright(self, tmp_path: Path, kind: str, by: str) -> None:
        datas = [turned(orientation, kind) for orientation in ORIENTATIONS]
        dataset = stored(tmp_path / "x", datas, "image(exif_rotate)" if by == "codec" else "image")
        crop: list[Any] = [CenterCrop((40, 30))]
        loader = Loader(
            dataset, 8, exif_rotate=by == "loader", transforms={"image": crop, "frames": [EachFrame(crop)]}, threads=1
        )
        [batch] = loader
        for found, data in zip(batch["image"], datas, strict=True):
            np.testing.assert_array_equal(found, CenterCrop((40, 30))(upright(data)))
        for frames, data in zip(batch["frames"], datas, strict=True):
            np.testing.assert_array_equal(frames[1], CenterCrop((40, 30))(upright(data)))

    def test_fused_and_unfused_draw_the_same_crop(self, tmp_path: Path) -> None:
        dataset = stored(tmp_path / "x", [turned(orientation) for orientation in ORIENTATIONS])
        steps: list[Any] = [RandomResizedCrop(24)]
        options: dict[str, Any] = {"exif_rotate": True, "seed": 3, "fields": ["image"], "reducing_gap": None}
        [fused] = Loader(dataset, 8, transforms={"image": steps}, **options)
        [unfused] = Loader(dataset, 8, transforms={"image": [Lambda(np.array), *steps]}, **options)
        assert np.abs(fused["image"].astype(int) - unfused["image"]).max() <= 1

    def test_samples_codecs_and_views(self, tmp_path: Path) -> None:
        data = turned(8)
        dataset = stored(tmp_path / "x", [data], "jpg(exif_rotate)")
        np.testing.assert_array_equal(dataset[0]["image"], upright(data))
        assert bytes(dataset.read([0], decode=False)[0]["image"]) == data
        plain = stored(tmp_path / "y", [data])
        np.testing.assert_array_equal(MapView(plain, exif_rotate=True)[0]["image"], upright(data))

    def test_worker_processes(self, tmp_path: Path) -> None:
        datas = [turned(orientation) for orientation in ORIENTATIONS]
        dataset = stored(tmp_path / "x", datas)
        loader = Loader(
            dataset, 8, exif_rotate=True, processes=1, fields=["image"], transforms={"image": [Resize((20, 20))]}
        )
        [batch] = loader
        [expected] = Loader(dataset, 8, exif_rotate=True, fields=["image"], transforms={"image": [Resize((20, 20))]})
        np.testing.assert_array_equal(batch["image"], expected["image"])

    def test_streams_by_their_codecs(self, tmp_path: Path) -> None:
        datas = [turned(6), turned(3, seed=1)]
        with bushel.Writer(tmp_path / "x.tar", {"jpg": "jpg"}) as writer:
            for data in datas:
                writer.append({"jpg": data})
        for transforms in ({}, {"jpg": [CenterCrop(20)]}):
            stream = bushel.open_stream(str(tmp_path / "x.tar"), spec={"jpg": "jpg(exif_rotate)"})
            for batch, data in zip(StreamLoader(stream, 1, buffer=0, transforms=transforms), datas, strict=True):
                expected = CenterCrop(20)(upright(data)) if transforms else upright(data)
                np.testing.assert_array_equal(batch["jpg"][0], expected)


class TestDamage:
    @pytest.fixture
    def cut(self) -> bytes:
        data = turned(1)
        return data[: len(data) * 2 // 3]

    def test_the_codec(self, cut: bytes) -> None:
        with pytest.raises(CodecError):
            get_codec("jpg").decode(cut)
        found = get_codec("jpg(allow_truncated)").decode(cut)
        np.testing.assert_array_equal(found[:8], upright(turned(1))[:8])
        assert (found[-8:] != upright(turned(1))[-8:]).any()

    @pytest.mark.parametrize("transforms", [{}, {"image": [CenterCrop(40)]}, {"image": [Lambda(np.array)]}])
    def test_the_loader(self, tmp_path: Path, cut: bytes, transforms: dict[str, list[Any]]) -> None:
        dataset = stored(tmp_path / "x", [turned(1), cut])
        options: dict[str, Any] = {"fields": ["image"], "transforms": transforms}
        with pytest.raises(CodecError, match="k1"):
            list(Loader(dataset, 2, **options))
        loader = Loader(dataset, 2, allow_truncated=True, **options)
        [batch] = loader
        assert not loader.errors
        np.testing.assert_array_equal(batch["image"][0][:8], batch["image"][1][:8])
        assert (batch["image"][0][-8:] != batch["image"][1][-8:]).any()

    def test_other_bytes_than_an_image_are_an_error_even_so(self, tmp_path: Path) -> None:
        dataset = stored(tmp_path / "x", [turned(1), b"\xff\xd8 no image"])
        loader = Loader(dataset, 2, allow_truncated=True, exif_rotate=True, on_error="skip")
        [batch] = loader
        assert batch["label"].tolist() == [0]
        [bad] = loader.errors
        assert (bad.key, bad.field) == ("k1", "image")

    def test_stored_bytes_stay_as_they_are(self, tmp_path: Path, cut: bytes) -> None:
        dataset = stored(tmp_path / "x", [cut])
        [sample] = Loader(dataset, None, decode=False, exif_rotate=True, allow_truncated=True)
        assert bytes(sample["image"]) == cut
