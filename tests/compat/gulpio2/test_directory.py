"""Reading: directories and chunks, by id, in parts, in colour spaces, by threads, and errors."""

import hashlib
import json
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.compat.gulpio2.frames import frame, videos, write

from bushel.compat.gulpio2 import GulpChunk, GulpDirectory
from bushel.compat.gulpio2.errors import GulpWarning, MetaFileError, UnpairedChunkError, UnreadableFrameError
from bushel.compat.gulpio2.utils import img_to_jpeg_bytes, jpeg_bytes_to_img

SETS = ["videos", "many-chunks", "appended", "odd-names", "image-folder"]


@pytest.mark.parametrize("name", SETS)
def test_directories_of_the_original(golden: Path, name: str) -> None:
    samples = json.loads((golden / "gulpio2-0.0.4" / name / "manifest.json").read_text("utf-8"))["samples"]
    directory = GulpDirectory(str(golden / "gulpio2-0.0.4" / name / "data"), jpeg_decoder=bytes)
    assert list(directory.merged_meta_dict) == [sample["key"] for sample in samples]
    for sample in samples:
        frames, meta = directory[sample["key"]]
        wanted = [(stored["sha256"], stored["length"]) for stored in sample["fields"]["frames"]]
        assert [(hashlib.sha256(stored).hexdigest(), len(stored)) for stored in frames] == wanted
        assert meta == sample["fields"]["meta"]["value"]


def test_attributes(tmp_path: Path) -> None:
    directory = GulpDirectory(str(write(tmp_path / "d", videos(5), per_chunk=2)))
    assert directory.output_dir == str(tmp_path / "d")
    assert directory.num_chunks == 3
    assert list(directory.chunk_objs_lookup) == [0, 1, 2]
    assert directory.chunk_lookup == {"v0": 0, "v1": 0, "v2": 1, "v3": 1, "v4": 2}
    assert list(directory.merged_meta_dict) == ["v0", "v1", "v2", "v3", "v4"]
    assert directory.merged_meta_dict["v3"]["meta_data"] == [{"label": 0, "n": 3}]
    assert directory.all_meta_dicts == [chunk.meta_dict for chunk in directory.chunks()]
    assert directory.jpeg_decoder is jpeg_bytes_to_img


def test_iteration(tmp_path: Path) -> None:
    items = videos(5)
    found = [pair for chunk in GulpDirectory(write(tmp_path / "d", items, per_chunk=2)) for pair in chunk]
    assert [meta for _, meta in found] == [meta for _, meta, _ in items]
    for (frames, _), (_, _, written) in zip(found, items, strict=True):
        expected = [jpeg_bytes_to_img(img_to_jpeg_bytes(pixels)) for pixels in written]
        assert len(frames) == 6
        for one, other in zip(frames, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_parts_of_an_item(tmp_path: Path) -> None:
    directory = GulpDirectory(write(tmp_path / "d", videos(2)))
    whole = [image.tobytes() for image in directory["v1"][0]]
    assert len(set(whole)) == 6

    def part(chosen: Any) -> list[int]:
        return [whole.index(image.tobytes()) for image in directory["v1", chosen][0]]

    assert part(slice(1, 10, 2)) == [1, 3, 5]
    assert part([1, 5, 5, -1]) == [1, 5, 5, 5]
    assert part(np.array([4, 0])) == [4, 0]
    assert part(slice(None, None, -2)) == [5, 3, 1]
    assert part(slice(10, 20)) == []
    assert part([]) == []
    assert part(None) == [0, 1, 2, 3, 4, 5]
    assert [image.tobytes() for image in directory["v1", 1:10:2][0]] == [whole[1], whole[3], whole[5]]
    with pytest.raises(IndexError):
        part([6])
    for wrong in (range(2), (1, 2), 1, [1.5]):
        with pytest.raises(TypeError):
            part(wrong)


def test_ids(tmp_path: Path) -> None:
    directory = GulpDirectory(write(tmp_path / "d", [(7, {"a": 1}, [frame(1)]), ("é x", {}, [frame(2)])]))
    assert directory[7][1] == directory["7"][1] == {"a": 1}
    assert directory["é x", [0]][1] == {}
    [chunk] = directory
    assert 7 in chunk
    assert "7" in chunk
    assert "8" not in chunk
    for place in (directory, chunk):
        with pytest.raises(KeyError, match="unknown item 'no'"):
            place["no"]
    for wrong in (1.5, np.int64(7), None, ("a", 1, 2)):
        with pytest.raises(TypeError):
            directory[wrong]  # type: ignore[index]


def test_metadata_is_a_copy(tmp_path: Path) -> None:
    directory = GulpDirectory(write(tmp_path / "d", videos(1)))
    directory["v0"][1]["label"] = "changed"
    assert directory["v0"][1] == {"label": 0, "n": 0}


def test_accepted_ids_and_shuffle(tmp_path: Path) -> None:
    [chunk] = GulpDirectory(write(tmp_path / "d", videos(6)))
    assert [meta["n"] for _, meta in chunk.iter_all(accepted_ids=["v4", "v1", "x"])] == [1, 4]
    np.random.seed(3)
    found = [meta["n"] for _, meta in chunk.iter_all(shuffle=True)]
    np.random.seed(3)
    ids = [f"v{n}" for n in range(6)]
    np.random.shuffle(ids)
    assert [f"v{n}" for n in found] == ids != sorted(ids)


def test_colour_spaces(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", [("colour", {}, [frame(1)]), ("grey", {}, [frame(2, grey=True)])])
    stored = GulpDirectory(folder)
    assert [stored[id_][0][0].shape for id_ in ("colour", "grey")] == [(24, 36, 3), (24, 36)]
    rgb, gray = GulpDirectory(folder, colorspace="RGB"), GulpDirectory(folder, colorspace="GRAY")
    np.testing.assert_array_equal(rgb["colour"][0][0], stored["colour"][0][0])
    np.testing.assert_array_equal(rgb["grey"][0][0], np.stack([stored["grey"][0][0]] * 3, axis=2))
    np.testing.assert_array_equal(gray["grey"][0][0], stored["grey"][0][0])
    luma = np.asarray(Image.fromarray(stored["colour"][0][0]).convert("L")).astype(int)
    assert gray["colour"][0][0].shape == (24, 36)
    assert np.abs(gray["colour"][0][0] - luma).max() <= 12
    with pytest.raises(ValueError, match="'RGB' or 'GRAY'"):
        GulpDirectory(folder, colorspace="BGR")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not both"):
        GulpDirectory(folder, bytes, colorspace="RGB")


def test_a_decoder_of_the_user(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def decode(jpeg: bytes) -> int:
        seen.append(jpeg)
        return len(seen)

    directory = GulpDirectory(write(tmp_path / "d", videos(1)), jpeg_decoder=decode)
    assert directory["v0"][0] == [1, 2, 3, 4, 5, 6]
    assert all(type(jpeg) is bytes and jpeg[:2] == b"\xff\xd8" and jpeg[-2:] == b"\xff\xd9" for jpeg in seen)


def test_threads_get_their_own_frames(tmp_path: Path) -> None:
    directory = GulpDirectory(write(tmp_path / "d", videos(6), per_chunk=3))
    wanted = {f"v{n}": [image.tobytes() for image in directory[f"v{n}"][0]] for n in range(6)}

    def read(number: int) -> bool:
        id_, first = f"v{number % 6}", number % 5
        frames, meta = directory[id_, first : first + 2]
        chunk = directory.chunk_objs_lookup[directory.chunk_lookup[id_]]
        with chunk.open():
            again, _ = chunk[id_, [first]]
        same = [image.tobytes() for image in frames] == wanted[id_][first : first + 2]
        return same and again[0].tobytes() == wanted[id_][first] and meta["n"] == number % 6

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(600)))


def _shapes(directory: GulpDirectory) -> list[tuple[int, ...]]:
    return [image.shape for image in directory["v1"][0]]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(tmp_path: Path, method: str) -> None:
    directory = GulpDirectory(write(tmp_path / "d", videos(2)))
    directory["v0"]
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(_shapes, (directory,)) == [(24, 36, 3)] * 6
    copy = pickle.loads(pickle.dumps(directory))
    assert copy["v1"][1] == directory["v1"][1]


def test_order_of_chunks_is_that_of_names(tmp_path: Path) -> None:
    write(tmp_path / "d", videos(12), per_chunk=1)
    assert list(GulpDirectory(tmp_path / "d").chunk_objs_lookup) == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_folder_without_chunks(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "not there"):
        directory = GulpDirectory(folder)
        assert (directory.num_chunks, list(directory), directory.merged_meta_dict) == (0, [], {})


def test_files_without_partner(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", videos(4), per_chunk=2)
    (folder / "meta_1.gmeta").unlink()
    with pytest.raises(UnpairedChunkError, match=r"data_1\.gulp") as caught:
        GulpDirectory(folder)
    assert isinstance(caught.value, AssertionError)


def test_two_chunks_with_one_number(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", videos(2), per_chunk=1)
    (folder / "data_1.gulp").rename(folder / "data_00.gulp")
    (folder / "meta_1.gmeta").rename(folder / "meta_00.gmeta")
    with pytest.raises(UnpairedChunkError, match="number 0 too"):
        GulpDirectory(folder)


def test_an_id_in_two_chunks(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", [("a", {"n": 1}, [frame(1)]), ("b", {}, []), ("a", {"n": 2}, [frame(2)])], 2)
    with pytest.warns(GulpWarning, match="1 ids are in several chunks and read from the first: 'a'"):
        directory = GulpDirectory(folder)
    assert directory["a"][1] == {"n": 1}
    assert directory.chunk_lookup["a"] == 0
    assert [meta["n"] for chunk in directory for _, meta in chunk if meta] == [1, 2]


def test_an_empty_meta_file(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", videos(2), per_chunk=1)
    (folder / "meta_0.gmeta").write_bytes(b"")
    with pytest.warns(GulpWarning, match=r"meta_0\.gmeta is empty"):
        directory = GulpDirectory(folder)
    assert list(directory.merged_meta_dict) == ["v1"]


@pytest.mark.parametrize("text", [b"{", b"[1]", b"\xff", b'"x"'])
def test_a_meta_file_that_is_none(tmp_path: Path, text: bytes) -> None:
    folder = write(tmp_path / "d", videos(1))
    (folder / "meta_0.gmeta").write_bytes(text)
    with pytest.raises(MetaFileError, match=r"meta_0\.gmeta") as caught:
        GulpDirectory(folder)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "entry",
    [
        1,
        {},
        {"frame_info": [[0, 1]], "meta_data": [{}]},
        {"frame_info": [[0, 0, -4]], "meta_data": [{}]},
        {"frame_info": [[0, 8, 4]], "meta_data": [{}]},
        {"frame_info": [[0, 0, 2**70]], "meta_data": [{}]},
        {"frame_info": [["x", 0, 4]], "meta_data": [{}]},
        {"frame_info": [], "meta_data": [3]},
    ],
)
def test_an_entry_that_is_none(tmp_path: Path, entry: Any) -> None:
    (tmp_path / "data_0.gulp").write_bytes(bytes(8))
    (tmp_path / "meta_0.gmeta").write_text(json.dumps({"a": entry}))
    directory = GulpDirectory(tmp_path)
    with pytest.raises(MetaFileError, match="item 'a'"):
        directory["a"]


@pytest.mark.parametrize("slice_", [[True], [7], np.array([7])])
def test_a_malformed_entry_is_reported_before_a_wrong_number(tmp_path: Path, slice_: Any) -> None:
    (tmp_path / "data_0.gulp").write_bytes(bytes(8))
    (tmp_path / "meta_0.gmeta").write_text(json.dumps({"a": {"frame_info": [[0, 1]], "meta_data": [{}]}}))
    with pytest.raises(TypeError, match="item 'a'"):  # as the original's ImgInfo(*[0, 1])
        GulpDirectory(tmp_path)["a", slice_]


def test_frames_that_cannot_be_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", videos(1))
    directory = GulpDirectory(folder)
    whole = (folder / "data_0.gulp").read_bytes()
    (folder / "data_0.gulp").write_bytes(whole[:-100])
    with pytest.raises(UnreadableFrameError, match="item 'v0'") as caught:
        directory["v0"]
    assert isinstance(caught.value, ValueError)
    assert caught.value.offset == directory.merged_meta_dict["v0"]["frame_info"][5][0]
    assert directory["v0", :5][1] == {"label": 0, "n": 0}
    (folder / "data_0.gulp").write_bytes(b"x" * len(whole))
    with pytest.raises(UnreadableFrameError, match="not a complete JPEG") as caught:
        directory["v0"]
    assert (caught.value.key, caught.value.offset) == ("v0", 0)
    (folder / "data_0.gulp").write_bytes(whole)
    assert len(directory["v0"][0]) == 6


def test_a_length_that_is_huge_allocates_nothing(tmp_path: Path) -> None:
    (tmp_path / "data_0.gulp").write_bytes(bytes(8))
    info = [[0, 0, 2**62]]
    (tmp_path / "meta_0.gmeta").write_text(json.dumps({"a": {"frame_info": info, "meta_data": [{}]}}))
    with pytest.raises(UnreadableFrameError):
        GulpDirectory(tmp_path)["a"]


def test_an_item_without_metadata(tmp_path: Path) -> None:
    (tmp_path / "data_0.gulp").write_bytes(b"")
    (tmp_path / "meta_0.gmeta").write_text('{"a": {"frame_info": [], "meta_data": []}}')
    assert GulpDirectory(tmp_path)["a"] == ([], {})


def test_names_with_wildcards(tmp_path: Path) -> None:
    folder = write(tmp_path / "a[b]*", videos(1))
    assert list(GulpDirectory(folder).merged_meta_dict) == ["v0"]
    chunk = GulpChunk(folder / "data_0.gulp", folder / "meta_0.gmeta")
    assert len(chunk["v0"][0]) == 6
