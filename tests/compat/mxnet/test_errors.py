"""Errors have the classes of MXNet, and indexes and flags mean what they mean there."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bushel.compat.mxnet as mx
from bushel.compat.mxnet import image, recordio
from bushel.compat.mxnet.gluon import data as gdata

PIXELS = np.random.RandomState(1).randint(0, 256, (12, 16, 3)).astype(np.uint8)


def encoded(kind: str, pixels: Any = PIXELS, **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded("JPEG", exif=exif)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "x.rec"
    for call in (
        lambda: image.imread(str(tmp_path / "no.jpg")),
        lambda: recordio.MXRecordIO(str(missing), "r"),
        lambda: recordio.MXRecordIO(str(missing), "w"),
        lambda: recordio.MXIndexedRecordIO(str(tmp_path / "x.idx"), str(missing), "r"),
        lambda: gdata.RecordFileDataset(str(missing)),
        lambda: mx.io.ImageRecordIter(str(missing), (3, 4, 4), 1),
    ):
        with pytest.raises(mx.MXNetError) as error:
            call()
        assert isinstance(error.value, FileNotFoundError)


@pytest.mark.parametrize("arguments", [(0, 3), (3, -1), (None, 3), (1.5, 3), (3, 3, 11), (3, 3, -1)])
def test_sizes_that_are_none(arguments: Any) -> None:
    with pytest.raises(mx.MXNetError):
        image.imresize(PIXELS, *arguments)


def test_boxes_outside() -> None:
    with pytest.raises(mx.MXNetError, match="is not inside"):
        image.fixed_crop(PIXELS, 20, 0, 4, 4)
    with pytest.raises(mx.MXNetError, match="is not inside"):
        gdata.vision.transforms.CropResize(10, 2, 9, 3)(PIXELS.view(mx.NDArray))


def test_what_the_original_asserts() -> None:
    calls: list[Any] = [
        lambda: image.CreateAugmenter((3, 4, 4), rand_resize=True),
        lambda: image.CreateAugmenter((3, 4, 4), mean=[1, 2]),
        lambda: image.ImageIter(1, (3, 4, 4)),
        lambda: image.ImageIter(1, (3, 4, 4), imglist=[], dtype="int8"),
        lambda: gdata.ArrayDataset([1], [1, 2]),
    ]
    for call in calls:
        with pytest.raises(AssertionError) as error:
            call()
        assert isinstance(error.value, ValueError)
    with pytest.raises(TypeError):
        recordio.pack((1, 2), b"abc")


@pytest.mark.parametrize("flag", [0, 1, 2, 3, 4, 5, 6, 7, 128, 129, 130, 132])
@pytest.mark.parametrize("kind", ["photo", "grey", "deep", "alpha", "turned"])
def test_flags_of_images(kind: str, flag: int) -> None:
    """The bits of OpenCV: 1 colour, 2 any depth, 4 any colour, 128 as stored."""
    data = {
        "photo": encoded("JPEG"),
        "grey": encoded("JPEG", PIXELS[:, :, 0]),
        "deep": encoded("PNG", PIXELS[:, :, 0].astype(np.uint16) * 255),
        "alpha": encoded("PNG", np.dstack([PIXELS, PIXELS[:, :, :1]])),
        "turned": turned(),
    }[kind]
    _, found = recordio.unpack_img(recordio.pack((0, 1, 2, 3), data), flag)
    assert found is not None
    colours = kind not in ("grey", "deep")
    upright = kind == "turned" and not flag & 128
    size = (16, 12) if upright else (12, 16)
    assert found.shape == ((*size, 3) if flag & 1 or (flag & 4 and colours) else size)
    assert found.dtype == (np.uint16 if kind == "deep" and flag & 2 else np.uint8)


def test_more_columns_of_an_index(tmp_path: Path) -> None:
    writer = recordio.MXIndexedRecordIO(str(tmp_path / "x.idx"), str(tmp_path / "x.rec"), "w")
    for number in range(3):
        writer.write_idx(number, b"abc" * number)
    writer.close()
    lines = (tmp_path / "x.idx").read_text().splitlines()
    (tmp_path / "x.idx").write_text("".join(f"{line}\tmore\tcolumns\n" for line in lines))
    reader = recordio.MXIndexedRecordIO(str(tmp_path / "x.idx"), str(tmp_path / "x.rec"), "r")
    assert [reader.read_idx(number) for number in range(3)] == [b"", b"abc", b"abcabc"]
    (tmp_path / "x.idx").write_text("0\n")
    with pytest.raises(IndexError):
        recordio.MXIndexedRecordIO(str(tmp_path / "x.idx"), str(tmp_path / "x.rec"), "r")
