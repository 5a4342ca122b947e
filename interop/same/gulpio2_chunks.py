"""Writing and reading chunks: run with GulpIO2 and with its drop-in, it prints the same and leaves the same files.

python gulpio2_chunks.py PACKAGE FOLDER
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

package, folder = sys.argv[1], Path(sys.argv[2])
gulp = importlib.import_module(package)
fileio = importlib.import_module(f"{package}.fileio")
utils = importlib.import_module(f"{package}.utils")
sanity = importlib.import_module(f"{package}.sanity_utils")
adapters = importlib.import_module(f"{package}.adapters")


def digest(value: Any) -> Any:
    """Return an array or bytes as text with a digest."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    return hashlib.sha256(value).hexdigest()


def show(title: str, value: Any) -> None:
    """Print a result."""
    print(title, json.dumps(value), flush=True)


def item(read: tuple[list[Any], dict[str, Any]]) -> Any:
    """Return frames and metadata of an item as text."""
    return [[digest(image) for image in read[0]], read[1]]


def error_of(work: Any) -> Any:
    """Return the name of the Python exception that a call raises."""
    try:
        work()
    except (IndexError, KeyError, TypeError, NotImplementedError, ValueError, AssertionError) as error:
        kinds = (IndexError, KeyError, TypeError, NotImplementedError, AssertionError, ValueError)
        return next(kind.__name__ for kind in kinds if isinstance(error, kind))
    return None


rng = np.random.default_rng(7)


def image(height: int, width: int, grey: bool = False) -> Any:
    """Return a frame of shapes and grain."""
    rows, columns = np.mgrid[:height, :width]
    planes = [(rows * rng.integers(1, 5) + columns * rng.integers(1, 5)) % 256 for _ in range(1 if grey else 3)]
    pixels = (np.stack(planes, 2) + rng.integers(0, 20, (height, width, len(planes)))).clip(0, 255).astype(np.uint8)
    return pixels[:, :, 0] if grey else pixels


class Items(adapters.AbstractDatasetAdapter):  # type: ignore[name-defined,misc]
    """An adapter of seven items. Two may have no frames, about which workers print in any order."""

    def __init__(self, least: int) -> None:
        self.least = least

    def __len__(self) -> int:
        return 7

    def iter_data(self, slice_element: Any = None) -> Any:
        """Yield the items of a slice."""
        for number in range(7)[slice_element or slice(None)]:
            pixels = np.full((9, 13, 3), 30 * number, np.uint8)
            yield {"id": number, "meta": {"n": number}, "frames": [pixels] * max(number % 4, self.least)}


for pixels in (image(37, 53), image(16, 16), image(9, 31, True), image(256, 340)):
    stored = utils.img_to_jpeg_bytes(pixels)
    show("jpeg", [digest(stored), digest(utils.jpeg_bytes_to_img(stored))])
    for size in (-1, 0, 7, 16, 300):
        resized = utils.resize_by_short_edge(pixels, size)  # GulpIO2 brings Pillow-SIMD, which rounds differently
        show("resized", [list(resized.shape), round(float(resized.mean()), 1)])
for wrong in (np.zeros((4, 4), np.float32), np.zeros((4, 4, 4), np.uint8), np.zeros(4, np.uint8)):
    show("no image", error_of(lambda wrong=wrong: utils.img_to_jpeg_bytes(wrong)))

chunks = folder / "chunks"
chunks.mkdir(parents=True)
videos: list[Any] = [
    (f"video {n}", {"label": "é" * n, "n": [n, {"x": None}]}, [image(24 + n, 36) for _ in range(n)]) for n in range(6)
]
videos.append((77, {}, [image(8, 8, True), image(8, 8)]))
for number, chunk in enumerate(gulp.GulpDirectory(str(chunks)).new_chunks(3)):
    with chunk.open("wb"):
        for id_, meta, frames in videos[3 * number : 3 * number + 3]:
            chunk.append(id_, meta, frames)
[chunk] = [chunk for chunk in gulp.GulpDirectory(str(chunks)) if "video 1" in chunk]
with chunk.open("ab"):
    chunk.append("later", {"n": -1}, [image(10, 10)])
    chunk.append("video 1", {"n": -2}, [image(11, 10)])
    chunk.flush()

directory = gulp.GulpDirectory(str(chunks))
show("chunks", [list(directory.chunk_objs_lookup), directory.num_chunks, directory.chunk_lookup])
show("meta", [directory.merged_meta_dict, directory.all_meta_dicts])
for id_ in directory.merged_meta_dict:
    show(id_, item(directory[id_]))
for part in (slice(1, 10, 2), slice(None, None, -1), [0, -1, 0], np.array([2, 1]), [], slice(50, 60), None):
    show("part", item(directory["video 5", part]))
for wrong in (1.5, np.int64(3), None, "nobody", ("video 5", [9]), ("video 5", range(2)), ("video 5", (0, 1))):
    show("wrong", error_of(lambda wrong=wrong: directory[wrong]))
for chunk in directory.chunks():
    show("chunk", [item(read) for read in chunk])
    np.random.seed(1)
    show("shuffled", [read[1] for read in chunk.iter_all(shuffle=True)])
    show("accepted", [read[1] for read in chunk.iter_all(accepted_ids=["video 4", "77", "video 1"])])
    show("flags", [error_of(chunk.open(flag).__enter__) for flag in ("r", "w+")])
    with chunk.open():
        show("read", [77 in chunk, "77" in chunk, "x" in chunk, item(chunk.read_frames(next(iter(chunk.meta_dict))))])
show("no ids", sanity.extract_all_ids(gulp.GulpDirectory(str(folder / "none"))))
show("element", fileio.extract_input_for_getitem((1, 2)))
raw = gulp.GulpDirectory(str(chunks), jpeg_decoder=lambda stored: stored)
show("raw", [digest(stored) for stored in raw["video 3"][0]])
show("slices", [[part.start, part.stop] for part in fileio.calculate_chunk_slices(3, 10)])
show("no items per chunk", error_of(lambda: fileio.calculate_chunk_slices(0, 1)))
show("no items", error_of(lambda: fileio.calculate_chunk_slices(1, 0)))

for workers in (1, 2):
    gulp.GulpIngestor(Items(workers - 1), str(folder / f"ingested{workers}"), 3, workers)()
    ingested = gulp.GulpDirectory(str(folder / f"ingested{workers}"))
    show("ingested", {id_: item(ingested[id_]) for id_ in ingested.merged_meta_dict})
gulp.GulpIngestor(Items(1), str(folder / "extended"), 10, 1)()
show("next", [Path(chunk.data_file_path).name for chunk in gulp.GulpDirectory(str(folder / "extended")).new_chunks(2)])

sound = gulp.GulpDirectory(str(folder / "ingested1"))
for check in (
    "check_meta_file_size_larger_zero",
    "check_data_file_size_larger_zero",
    "check_data_file_size",
    "check_for_duplicate_ids",
):
    sanity.check_for_failures({"message": check, "failures": getattr(sanity, check)(sound)})
show("duplicates", sanity.get_duplicate_entries(["a", "b", "a"]))

paths = str(folder / "data_0.gulp"), str(folder / "meta_0.pickle")
pickled = fileio.GulpChunk(*paths, serializer=fileio.pickle_serializer)
with pickled.open("wb"):
    pickled.append("a", {"n": 1}, [image(5, 5)])
again = fileio.GulpChunk(*paths, serializer=fileio.pickle_serializer)
with again.open():
    show("pickled", [item(again["a"]), list(again.meta_dict)])
entries = [{"id": 5}, {"id": 100}, {"id": 100}, {"id": "7"}]
show("new entries", utils.remove_entries_with_duplicate_ids(str(folder / "ingested1"), entries))
