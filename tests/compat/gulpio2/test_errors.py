"""Errors have the classes that GulpIO2 raises in the same place, and name the fault and the file."""

from __future__ import annotations

import io
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bushel.compat.gulpio2 import GulpChunk, GulpDirectory, utils
from bushel.compat.gulpio2.fileio import JSONSerializer
from bushel.errors import FormatError

IMAGE = np.random.RandomState(1).randint(0, 256, (8, 12, 3)).astype(np.uint8)


def chunk(folder: Path) -> GulpChunk:
    return GulpChunk(str(folder / "data_0.gulp"), str(folder / "meta_0.gmeta"))


def test_exceptions_take_any_arguments() -> None:
    for kind in (utils.DuplicateIdException, utils.ImageNotFound, utils.FFMPEGNotFound):
        with pytest.raises(kind):
            raise kind
        assert kind("a", 1).args == ("a", 1)
    copy = pickle.loads(pickle.dumps(utils.DuplicateIdException("a", 1)))
    assert (type(copy), copy.args) == (utils.DuplicateIdException, ("a", 1))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"{", json.JSONDecodeError),
        (b"\x80", UnicodeDecodeError),
        (b"[]", AttributeError),
        (b"null", TypeError),
        (b'{"a": {}}', KeyError),
        (b'{"a": null}', TypeError),
        (b'{"a": {"frame_info": [[0, 1]], "meta_data": [{}]}}', TypeError),
    ],
)
def test_malformed_tables(tmp_path: Path, text: bytes, kind: type[Exception]) -> None:
    (tmp_path / "data_0.gulp").write_bytes(b"")
    (tmp_path / "meta_0.gmeta").write_bytes(text)
    with pytest.raises(kind, match="meta_0.gmeta") as error:
        GulpDirectory(str(tmp_path))["a"]
    assert isinstance(error.value, FormatError)
    copy = pickle.loads(pickle.dumps(error.value))
    assert (type(copy), str(copy)) == (type(error.value), str(error.value))


def test_a_serializer_raises_what_json_raises(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(json.JSONDecodeError):
        JSONSerializer().load(str(tmp_path / "x"))


def test_the_file_object_of_a_chunk(tmp_path: Path) -> None:
    one = chunk(tmp_path)
    with pytest.raises(AttributeError, match="is not open for writing"):
        one.append("a", {}, [IMAGE])
    with one.open("wb"):
        assert one.fp is not None
        assert one.fp.tell() == 0
        one.append("a", {}, [IMAGE])
        assert one.fp.tell() == one.meta_dict["a"]["frame_info"][0].length
    assert one.fp.closed
    with one.open("rb"):
        file: Any = one.fp
        assert file.read(2) == b"\xff\xd8"
        with pytest.raises(io.UnsupportedOperation):
            one.append("b", {}, [IMAGE])
    assert one.fp.closed


@pytest.mark.parametrize(
    ("quality", "checksum"),
    [
        (1, 2223347218),
        (90, 332286282),
        (95, 2882140811),
        (96, 871508439),
        (97, 3800688955),
        (98, 1342134387),
        (99, 3715995530),
        (100, 988062632),
    ],
)
def test_bytes_of_every_quality(monkeypatch: pytest.MonkeyPatch, quality: int, checksum: int) -> None:
    """Checksums of simplejpeg's bytes, which uses the accurate DCT from 96 on."""
    monkeypatch.setattr(utils, "_JPEG_WRITE_QUALITY", quality)
    assert zlib.crc32(utils.img_to_jpeg_bytes(IMAGE)) == checksum


def test_a_mask_is_a_frame_of_zeros_and_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert utils.img_to_jpeg_bytes(IMAGE > 99) == utils.img_to_jpeg_bytes((IMAGE > 99).view(np.uint8))
    monkeypatch.setattr(utils, "_JPEG_WRITE_QUALITY", 0)
    assert utils.img_to_jpeg_bytes(IMAGE)
