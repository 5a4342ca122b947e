"""Writing: bytes of the format, serializers, appending, and files after an exception."""

import io
import json
import pickle
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image
from tests.compat.gulpio2.frames import frame, videos, write

import bushel
from bushel.compat.gulpio2 import GulpChunk, GulpDirectory
from bushel.compat.gulpio2.fileio import (
    AbstractSerializer,
    ImgInfo,
    extract_input_for_getitem,
    json_serializer,
    pickle_serializer,
)
from bushel.compat.gulpio2.utils import img_to_jpeg_bytes, jpeg_bytes_to_img


def chunk_at(folder: Path, **options: Any) -> GulpChunk:
    return GulpChunk(str(folder / "data_0.gulp"), str(folder / "meta_0.gmeta"), **options)


def test_layout(tmp_path: Path) -> None:
    chunk = chunk_at(tmp_path, jpeg_decoder=bytes)
    with chunk.open("wb") as nothing:
        assert nothing is None
        chunk.append("v1", {"label": "x"}, [b"abc", b"defgh"])
        chunk.append("v2", {}, [b"ijkl"])
    assert (tmp_path / "data_0.gulp").read_bytes() == b"abc\0defgh\0\0\0ijkl"
    assert (tmp_path / "meta_0.gmeta").read_text() == (
        '{"v1": {"frame_info": [[0, 1, 4], [4, 3, 8]], "meta_data": [{"label": "x"}]}, '
        '"v2": {"frame_info": [[12, 0, 4]], "meta_data": [{}]}}'
    )
    assert chunk["v1"] == ([b"abc", b"defgh"], {"label": "x"})
    assert chunk["v2"] == ([b"ijkl"], {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data_0.gulp", "meta_0.gmeta"]


def test_padding(tmp_path: Path) -> None:
    """The lengths and paddings of the document's table."""
    chunk = chunk_at(tmp_path, jpeg_decoder=bytes)
    with chunk.open("wb"):
        chunk.append(0, {}, [b"x" * length for length in (3, 2, 4, 3, 1, 7)])
    infos = [ImgInfo(*info) for info in json.loads((tmp_path / "meta_0.gmeta").read_text())["0"]["frame_info"]]
    assert [(info.length, info.pad) for info in infos] == [(4, 1), (4, 2), (4, 0), (4, 1), (4, 3), (8, 1)]
    assert [info.loc for info in infos] == [0, 4, 8, 12, 16, 20]


def test_frames_are_jpegs_of_quality_90(tmp_path: Path) -> None:
    chunk = chunk_at(tmp_path, jpeg_decoder=bytes)
    with chunk.open("wb"):
        chunk.append("vid1", {"label": "a", "n": 1}, [np.zeros((2, 2, 3), np.uint8)] * 3)
        chunk.append(7, {"label": "é"}, [np.zeros((2, 2), np.uint8)])
    assert (tmp_path / "data_0.gulp").stat().st_size == 2232
    assert (tmp_path / "meta_0.gmeta").read_text() == (
        '{"vid1": {"frame_info": [[0, 3, 632], [632, 3, 632], [1264, 3, 632]], "meta_data": [{"label": "a", "n": 1}]}, '
        '"7": {"frame_info": [[1896, 3, 336]], "meta_data": [{"label": "\\u00e9"}]}}'
    )
    stored = chunk["vid1"][0][0]
    assert stored[:13] == bytes.fromhex("ffd8ffe000104a464946000101")
    image = Image.open(io.BytesIO(stored))
    assert image.layer == [(1, 1, 1, 0), (2, 1, 1, 1), (3, 1, 1, 1)]  # type: ignore[attr-defined] # 4:4:4


def test_bushel_reads_it(tmp_path: Path) -> None:
    items = videos(3)
    dataset = bushel.open(write(tmp_path / "d", items), index="memory")
    assert list(dataset.keys) == ["v0", "v1", "v2"]
    assert dataset["v2"]["meta"] == {"label": 2, "n": 2}
    assert bushel.verify(tmp_path / "d").ok
    assert dataset.read([1], decode=False)[0]["frames"] == [img_to_jpeg_bytes(image) for image in items[1][2]]


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4), np.float32),
        np.zeros((4, 4, 1), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros(4, np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        "x",
    ],
)
def test_not_a_frame(tmp_path: Path, image: Any) -> None:
    with pytest.raises(ValueError, match="Unsupported img shape"):
        img_to_jpeg_bytes(image)
    chunk = chunk_at(tmp_path)
    with chunk.open("wb"), pytest.raises(ValueError, match="Unsupported img shape"):
        chunk.append("a", {}, [frame(1), image])
    assert (tmp_path / "data_0.gulp").read_bytes() == b""
    assert (tmp_path / "meta_0.gmeta").read_text() == "{}"


def test_frames_of_several_kinds(tmp_path: Path) -> None:
    chunk, pixels = chunk_at(tmp_path), frame(3)
    with chunk.open("wb"):
        chunk.append("a", {}, [pixels, Image.fromarray(pixels), img_to_jpeg_bytes(pixels), pixels[::-1][::-1]])
    frames, _ = chunk["a"]
    assert [image.tobytes() for image in frames] == [jpeg_bytes_to_img(img_to_jpeg_bytes(pixels)).tobytes()] * 4


def test_append_to_a_chunk_and_to_an_item(tmp_path: Path) -> None:
    chunk = chunk_at(tmp_path, jpeg_decoder=bytes)
    with chunk.open("wb"):
        chunk.append("a", {"n": 1}, [b"abc"])
    again = chunk_at(tmp_path, jpeg_decoder=bytes)
    with again.open("ab"):
        again.append("b", {"n": 2}, [b"defgh"])
        again.append("a", {"n": 3}, [b"ij"])
        again.flush()
        assert (tmp_path / "data_0.gulp").read_bytes() == b"abc\0defgh\0\0\0ij\0\0"
        assert json.loads((tmp_path / "meta_0.gmeta").read_text())["a"]["frame_info"] == [[0, 1, 4], [12, 2, 4]]
        assert again["b"] == ([b"defgh"], {"n": 2})
    assert again["a"] == ([b"abc", b"ij"], {"n": 1})
    assert chunk_at(tmp_path).meta_dict["a"]["meta_data"] == [{"n": 1}, {"n": 3}]


def test_write_in_place_of_a_chunk(tmp_path: Path) -> None:
    chunk = chunk_at(tmp_path, jpeg_decoder=bytes)
    with chunk.open("wb"):
        chunk.append("old", {}, [b"abcdefgh"])
    with chunk.open("wb"):
        chunk.append("new", {}, [b"xy"])
    assert list(chunk.meta_dict) == ["new"]
    assert chunk_at(tmp_path, jpeg_decoder=bytes)["new"] == ([b"xy"], {})


def test_an_exception_leaves_what_was_appended(tmp_path: Path) -> None:
    chunk = chunk_at(tmp_path)

    def write_half() -> None:
        with chunk.open("wb"):
            chunk.append("a", {"n": 1}, [frame(1)])
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_half()
    directory = GulpDirectory(tmp_path)
    assert list(directory.merged_meta_dict) == ["a"]
    assert directory["a"][1] == {"n": 1}
    assert chunk.fp is not None
    assert chunk.fp.closed


def test_flags(tmp_path: Path) -> None:
    chunk = chunk_at(tmp_path)
    with pytest.raises(NotImplementedError, match="mode: 'r'"), chunk.open("r"):
        pass
    with pytest.raises(FileNotFoundError), chunk.open("rb"):
        pass
    for use in (chunk.flush, lambda: chunk.append("a", {}, [])):
        with pytest.raises(ValueError, match="not open for writing"):
            use()
    with chunk.open("ab"):
        chunk.append("a", {}, [frame(1)])
    with chunk.open():
        assert len(chunk["a"][0]) == 1


def test_new_chunks(tmp_path: Path) -> None:
    write(tmp_path / "d", videos(2), per_chunk=1)
    paths = [chunk.data_file_path for chunk in GulpDirectory(str(tmp_path / "d")).new_chunks(2)]
    assert paths == [str(tmp_path / "d" / f"data_{number}.gulp") for number in (2, 3)]
    (tmp_path / "d" / "data_9.gulp").touch()
    (tmp_path / "d" / "meta_9.gmeta").write_text("{}")
    [chunk] = GulpDirectory(str(tmp_path / "d")).new_chunks(1)
    assert (chunk.meta_file_path, chunk.meta_dict) == (str(tmp_path / "d" / "meta_10.gmeta"), {})


def test_elements() -> None:
    assert extract_input_for_getitem("a") == ("a", None)
    assert extract_input_for_getitem(3) == ("3", None)
    assert extract_input_for_getitem((3, slice(1))) == ("3", slice(1))
    with pytest.raises(TypeError, match=r"id or \(id, slice\) expected"):
        extract_input_for_getitem(1.5)  # type: ignore[arg-type]


class _Lines(AbstractSerializer):
    """Entries in lines."""

    def load(self, file_name: str) -> Any:
        with open(file_name, encoding="utf-8") as file:
            return {entry[0]: entry[1] for entry in map(json.loads, file)}

    def dump(self, thing: Any, file_name: str) -> None:
        with open(file_name, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in thing.items())


@pytest.mark.parametrize("serializer", [json_serializer, pickle_serializer, _Lines()])
def test_serializers(tmp_path: Path, serializer: AbstractSerializer) -> None:
    chunk = chunk_at(tmp_path, serializer=serializer, jpeg_decoder=bytes)
    with chunk.open("wb"):
        chunk.append("a", {"n": [1, float("inf")]}, [b"abc"])
        chunk.append("b", {}, [])
    again = chunk_at(tmp_path, serializer=serializer, jpeg_decoder=bytes)
    assert again["a"] == ([b"abc"], {"n": [1, float("inf")]})
    assert list(again.meta_dict) == ["a", "b"]


def test_anything_can_be_pickled(tmp_path: Path) -> None:
    pickle_serializer.dump({"a": "b", "c": [ImgInfo(1, 2, 3)]}, str(tmp_path / "x"))
    assert pickle.loads((tmp_path / "x").read_bytes()) == {"a": "b", "c": [(1, 2, 3)]}
    assert b"bushel" not in (tmp_path / "x").read_bytes()


def test_pickles_of_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickles of the original name its class. Neither package is needed to read the pickles of the other."""

    class Info(NamedTuple):
        loc: int
        pad: int
        length: int

    original = ModuleType("gulpio2.fileio")
    Info.__module__, Info.__name__, Info.__qualname__ = "gulpio2.fileio", "ImgInfo", "ImgInfo"
    original.ImgInfo = Info  # type: ignore[attr-defined]
    (tmp_path / "data_0.gulp").write_bytes(b"abc\0")
    table = OrderedDict(a=OrderedDict(frame_info=[Info(0, 1, 4)], meta_data=[{}]))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "gulpio2", ModuleType("gulpio2"))
        patch.setitem(sys.modules, "gulpio2.fileio", original)
        (tmp_path / "meta_0.gmeta").write_bytes(pickle.dumps(table))
    chunk = chunk_at(tmp_path, serializer=pickle_serializer, jpeg_decoder=bytes)
    assert chunk["a"] == ([b"abc"], {})
    pickle_serializer.dump(chunk.meta_dict, str(tmp_path / "again"))
    assert b"bushel" not in (tmp_path / "again").read_bytes()


def test_a_table_may_have_any_name(tmp_path: Path) -> None:
    paths = str(tmp_path / "data_0.gulp"), str(tmp_path / "meta_0.pickle")
    with GulpChunk(*paths, serializer=pickle_serializer).open("wb"):
        pass
    chunk = GulpChunk(*paths, serializer=pickle_serializer, jpeg_decoder=bytes)
    with chunk.open("ab"):
        chunk.append("a", {"label": 1}, [b"abc"])
    again = GulpChunk(*paths, serializer=pickle_serializer, jpeg_decoder=bytes)
    assert again["a"] == ([b"abc"], {"label": 1})
