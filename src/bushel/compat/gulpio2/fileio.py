"""`gulpio2.fileio`: chunks, directories of chunks, and writing them from an adapter."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Protocol

from bushel.compat.errors import WrongUseError
from bushel.containers.gulp import chunk_number
from bushel.storage import FilePool

from .chunk import Element, GulpChunk, Item, extract_input_for_getitem
from .errors import GulpWarning, UnpairedChunkError
from .images import ColorSpace, decoder_of, jpeg_bytes_to_img
from .tables import (
    AbstractSerializer,
    ImgInfo,
    JSONSerializer,
    PickleSerializer,
    chunk_files,
    file_names,
    json_serializer,
    pickle_serializer,
)
from .utils import img_to_jpeg_bytes

__all__ = [
    "AbstractSerializer",
    "ChunkWriter",
    "GulpChunk",
    "GulpDirectory",
    "GulpIngestor",
    "ImgInfo",
    "JSONSerializer",
    "PickleSerializer",
    "calculate_chunk_slices",
    "extract_input_for_getitem",
    "img_to_jpeg_bytes",
    "jpeg_bytes_to_img",
    "json_serializer",
    "pickle_serializer",
]


class GulpDirectory:
    """A directory of gulp chunks, which threads may share. A copy in another process opens its own files.

    If several chunks have the same id, the first is read, with a `GulpWarning`. `colorspace` is as
    in `GulpChunk`. An unpaired file is an `UnpairedChunkError`, and a malformed meta file a
    `MetaFileError`.
    """

    def __init__(
        self,
        output_dir: str | os.PathLike[str],
        jpeg_decoder: Callable[[bytes], Any] = jpeg_bytes_to_img,
        *,
        colorspace: ColorSpace | None = None,
    ) -> None:
        self.output_dir = output_dir
        self.jpeg_decoder = decoder_of(jpeg_decoder, colorspace)
        self._files = FilePool()
        self.chunk_objs_lookup: OrderedDict[int, GulpChunk] = OrderedDict()
        numbers: dict[int, tuple[str, str]] = {}
        for number, data, meta in chunk_files(self.output_dir):
            if number in numbers:
                raise UnpairedChunkError(f"another chunk has the number {number} too", file=data)
            numbers[number] = data, meta
        for number, files in numbers.items():
            self.chunk_objs_lookup[number] = self._chunk(*files)
        self.all_meta_dicts = [chunk.meta_dict for chunk in self.chunk_objs_lookup.values()]
        self.num_chunks = len(self.chunk_objs_lookup)
        self.chunk_lookup: dict[str, int] = {}
        self.merged_meta_dict: dict[str, Any] = {}
        twice = []
        for number, chunk in self.chunk_objs_lookup.items():
            twice += [id_ for id_ in chunk.meta_dict if id_ in self.chunk_lookup]
            for id_, entry in chunk.meta_dict.items():
                self.chunk_lookup.setdefault(id_, number)
                self.merged_meta_dict.setdefault(id_, entry)
        if twice:
            shown = ", ".join(map(repr, twice[:5])) + (", …" if len(twice) > 5 else "")
            warnings.warn(
                f"{os.fspath(output_dir)}: {len(twice)} ids are in several chunks and read "
                f"from the first: {shown}; `bushel gulp2_sanity_check` names the chunks",
                GulpWarning,
                stacklevel=2,
            )

    def __iter__(self) -> Iterator[GulpChunk]:
        return iter(self.chunk_objs_lookup.values())

    def chunks(self) -> Iterator[GulpChunk]:
        return iter(self)

    def new_chunks(self, total_new_chunks: int) -> Iterator[GulpChunk]:
        """Iterate over new chunks, whose numbers follow the highest existing one."""
        taken = [
            chunk_number(Path(self.output_dir), name)
            for names in file_names(self.output_dir)
            for name in names
        ]
        first = max(taken, default=-1) + 1
        for number in range(first, first + total_new_chunks):
            names = f"data_{number}.gulp", f"meta_{number}.gmeta"
            yield self._chunk(*(os.path.join(self.output_dir, name) for name in names))

    def __getitem__(self, element: Element) -> Item:
        id_, slice_ = extract_input_for_getitem(element)
        if id_ not in self.chunk_lookup:
            raise KeyError(f"unknown item {id_!r} in {os.fspath(self.output_dir)}")
        return self.chunk_objs_lookup[self.chunk_lookup[id_]].read_frames(id_, slice_)

    def _chunk(self, data: str, meta: str) -> GulpChunk:
        return GulpChunk(data, meta, jpeg_decoder=self.jpeg_decoder, files=self._files)

    def _load_label_dict(self) -> dict[str, int]:
        labels: dict[str, int] = json.loads(
            Path(self.output_dir, "label2idx.json").read_text("utf-8")
        )
        return labels


class _Adapter(Protocol):
    def __len__(self) -> int: ...
    def iter_data(self, slice_element: slice | None = None, /) -> Iterable[Mapping[str, Any]]: ...


class ChunkWriter:
    """Writes items of an adapter to a chunk."""

    def __init__(self, adapter: _Adapter) -> None:
        self.adapter = adapter

    def write_chunk(self, output_chunk: GulpChunk, input_slice: slice) -> int:
        """Write the items of a slice and return their number. Items without frames are printed and left out."""
        written = 0
        with output_chunk.open("wb"):
            for video in self.adapter.iter_data(input_slice):
                if len(video["frames"]) > 0:
                    output_chunk.append(video["id"], video["meta"], video["frames"])
                    written += 1
                else:
                    print(f"Failed to write video with id: {video['id']}; no frames")
        return written


def calculate_chunk_slices(items_per_chunk: int, num_items: int) -> list[slice]:
    """Return the slices of an adapter's items that make the chunks; the last may be shorter."""
    if items_per_chunk <= 0:
        raise WrongUseError(f"items_per_chunk must be at least 1, not {items_per_chunk}")
    if num_items <= 0:
        raise WrongUseError("the adapter has no items: nothing was found to gulp")
    return [
        slice(i, min(i + items_per_chunk, num_items)) for i in range(0, num_items, items_per_chunk)
    ]


class GulpIngestor:
    """Writes all items of an adapter into new chunks of a folder, in `num_workers` processes."""

    def __init__(
        self,
        adapter: _Adapter,
        output_folder: str | os.PathLike[str],
        videos_per_chunk: int | str,
        num_workers: int | str,
    ) -> None:
        if int(num_workers) <= 0:
            raise WrongUseError(f"num_workers must be at least one worker, not {num_workers}")
        self.adapter = adapter
        self.output_folder = output_folder
        self.videos_per_chunk = int(videos_per_chunk)
        self.num_workers = int(num_workers)

    def __call__(self) -> int:
        """Write the chunks and return the number of items.

        If a chunk fails, it keeps the items written before, and the other chunks are finished
        before the error is raised, with a note that names the chunk. A chunk without items is
        removed.
        """
        slices = calculate_chunk_slices(self.videos_per_chunk, len(self.adapter))
        os.makedirs(self.output_folder, exist_ok=True)
        # chunks are only counted here
        with warnings.catch_warnings(category=GulpWarning, action="ignore"):
            chunks = list(GulpDirectory(self.output_folder).new_chunks(len(slices)))
        failed: dict[int, BaseException] = {}
        written = _sum_shown(
            self._written(list(zip(chunks, slices, strict=True)), failed), len(slices)
        )
        if failed:
            number = min(failed)
            error, part = failed[number], slices[number]
            error.add_note(
                f"while items {part.start} to {part.stop - 1} were written to "
                f"{chunks[number].data_file_path}; {len(slices) - len(failed)} "
                f"of {len(slices)} chunks are complete"
            )
            raise error
        return written

    def _written(
        self, jobs: list[tuple[GulpChunk, slice]], failed: dict[int, BaseException]
    ) -> Iterator[int]:
        """Write the chunks, and yield the number of items of each one that is finished."""
        if min(self.num_workers, len(jobs)) == 1:
            for number, job in enumerate(jobs):
                try:
                    yield _write(self.adapter, *job)
                except Exception as error:  # raised after the other chunks are written
                    failed[number] = error
                    yield 0
            return
        with ProcessPoolExecutor(min(self.num_workers, len(jobs))) as pool:
            futures = {
                pool.submit(_write, self.adapter, *job): number for number, job in enumerate(jobs)
            }
            try:
                for future in as_completed(futures):
                    if (failure := future.exception()) is not None:
                        failed[futures[future]] = failure
                    yield 0 if failure is not None else future.result()
            except BaseException:  # such as Ctrl-C: do not start the chunks that wait
                pool.shutdown(cancel_futures=True)
                raise


def _write(adapter: _Adapter, chunk: GulpChunk, part: slice) -> int:
    """Write a chunk, and remove it if it has no items."""
    try:
        return ChunkWriter(adapter).write_chunk(chunk, part)
    finally:
        if not chunk.meta_dict:
            for path in (chunk.data_file_path, chunk.meta_file_path):
                Path(path).unlink(missing_ok=True)


def _sum_shown(done: Iterable[int], total: int) -> int:
    """Return the sum of the items, and show a progress bar of the chunks on a terminal."""
    if not sys.stderr.isatty():
        return sum(done)
    from rich.console import Console
    from rich.progress import Progress

    # Without a thread of its own, because worker processes are forked while this runs.
    with Progress(console=Console(stderr=True), auto_refresh=False) as progress:
        task = progress.add_task("Chunks finished", total=total)
        items = 0
        for written in done:
            items += written
            progress.update(task, advance=1, refresh=True)
    return items
