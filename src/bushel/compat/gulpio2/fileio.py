"""`gulpio2.fileio`: chunks, directories of chunks, and writing them from an adapter."""

from __future__ import annotations

import json
import os
import pickle
import sys
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from bushel.compat.errors import WrongUseError
from bushel.compat.gulpio2.errors import (
    FrameChoiceError,
    GulpWarning,
    MetaFileError,
    MissingItemError,
    UnpairedChunkError,
    UnreadableFrameError,
)
from bushel.compat.gulpio2.images import ColorSpace, decoder_of, is_own, map_frames
from bushel.compat.gulpio2.images import img_to_jpeg_bytes as img_to_jpeg_bytes
from bushel.compat.gulpio2.images import jpeg_bytes_to_img as jpeg_bytes_to_img
from bushel.containers.gulp import chunk_names, chunk_number, padding, pair_chunks
from bushel.errors import FormatError
from bushel.storage import ExtentError, Extents, File, FilePool, Sink, open_file, read_many

Element = int | str | tuple[Any, Any]
"""An id, or an id with a slice or a list of frame numbers."""
Item = tuple[list[Any], dict[str, Any]]
"""The frames of an item, and its metadata."""


class ImgInfo(NamedTuple):
    """Place of a frame in the data file: offset, bytes of padding, and length with the padding."""

    loc: int
    pad: int
    length: int


class AbstractSerializer(ABC):
    """Reads and writes the mapping of ids to `frame_info` and `meta_data`."""

    @abstractmethod
    def load(self, file_name: str) -> Any:
        """Return the mapping in a file."""

    @abstractmethod
    def dump(self, thing: Any, file_name: str) -> None:
        """Write the mapping to a file."""


class JSONSerializer(AbstractSerializer):
    """JSON as `json.dumps` writes it, which every gulp reader reads."""

    def load(self, file_name: str) -> Any:
        text = Path(file_name).read_bytes()
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):  # only Python's parser accepts NaN and lone surrogates
            try:
                return json.loads(text)
            except (ValueError, RecursionError) as error:
                raise MetaFileError(f"invalid JSON: {error}", file=str(file_name)) from error

    def dump(self, thing: Any, file_name: str) -> None:
        with open(file_name, "w", encoding="ascii") as file:
            json.dump(thing, file)


class PickleSerializer(AbstractSerializer):
    """Pickle, for metadata that JSON cannot hold. Loading a pickle runs its code: read only files that you trust."""

    def load(self, file_name: str) -> Any:
        with open(file_name, "rb") as file:
            return _Unpickler(file).load()

    def dump(self, thing: Any, file_name: str) -> None:  # with plain tuples, which GulpIO2 reads without Bushel
        plain = {id_: {**entry, "frame_info": [*map(tuple, entry["frame_info"])]} for id_, entry in thing.items()}
        with open(file_name, "wb") as file:
            pickle.dump(plain, file)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        if name == "ImgInfo" and module in ("gulpio2.fileio", "gulpio.fileio"):
            return ImgInfo
        return super().find_class(module, name)


json_serializer = JSONSerializer()
pickle_serializer = PickleSerializer()


def extract_input_for_getitem(element: Element) -> tuple[str, Any]:
    """Split an index of `[]` into the id as text, and the slice or list of frames or None."""
    if isinstance(element, tuple) and len(element) == 2:
        return str(element[0]), element[1]
    if isinstance(element, int | str):
        return str(element), None
    raise TypeError("Undefined input type! id or (id, slice) expected")


class GulpChunk:
    """A gulp chunk on disk. Several threads may read it at once, without opening it first.

    `colorspace` is `"RGB"` or `"GRAY"` for all frames, which otherwise stay as they are stored; `files` are open files
    to share with other chunks.
    """

    def __init__(
        self,
        data_file_path: str | os.PathLike[str],
        meta_file_path: str | os.PathLike[str],
        serializer: AbstractSerializer = json_serializer,
        jpeg_decoder: Callable[[bytes], Any] = jpeg_bytes_to_img,
        *,
        colorspace: ColorSpace | None = None,
        files: FilePool | None = None,
    ) -> None:
        self.jpeg_decoder = decoder_of(jpeg_decoder, colorspace)
        self.serializer = serializer
        self.data_file_path = os.fspath(data_file_path)
        self.meta_file_path = os.fspath(meta_file_path)
        self.fp: Sink | None = None
        self._files = FilePool(1) if files is None else files
        self.meta_dict = self._load()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "fp": None}

    def __contains__(self, id_: object) -> bool:
        return str(id_) in self.meta_dict

    def __getitem__(self, element: Element) -> Item:
        return self.read_frames(*extract_input_for_getitem(element))

    def __iter__(self) -> Iterator[Item]:
        return self.iter_all()

    # Reading

    def read_frames(self, id_: int | str, slice_: Any = None) -> Item:
        """Return the frames of an item, read at once and decoded in several threads, and a copy of its metadata.

        `slice_` is a slice, or a list or 1-D array of frame numbers. A damaged frame is an `UnreadableFrameError`.
        """
        id_ = str(id_)
        if id_ not in self.meta_dict:
            raise MissingItemError(f"there is no item {id_!r} in {self.meta_file_path}")
        infos, meta = self._entry(id_)
        chosen = _choose(infos, slice_)
        stored = self._stored(id_, chosen)
        if not is_own(self.jpeg_decoder):  # a user's decoder may not be thread-safe
            return [self.jpeg_decoder(jpeg) for jpeg in stored], meta
        return map_frames(partial(self._decode, id_), list(zip(chosen, stored, strict=True))), meta

    def iter_all(self, accepted_ids: Collection[int | str] | None = None, shuffle: bool = False) -> Iterator[Item]:
        """Iterate over the frames and metadata of all items, or of `accepted_ids`."""
        ids = list(self.meta_dict)
        if accepted_ids is not None:
            accepted = set(map(str, accepted_ids))
            ids = [id_ for id_ in ids if id_ in accepted]
        if shuffle:
            np.random.shuffle(ids)
        for id_ in ids:
            yield self.read_frames(id_)

    def check(self) -> None:
        """Check every entry of the table, and raise a `MetaFileError` for the first that is malformed."""
        for id_ in self.meta_dict:
            self._places(id_, self._entry(id_)[0])

    def _entry(self, id_: str) -> tuple[Sequence[Any], dict[str, Any]]:
        try:
            entry = self.meta_dict[id_]
            infos, metas = entry["frame_info"], entry["meta_data"]
            return infos, dict(metas[0]) if metas else {}
        except (KeyError, TypeError, ValueError) as error:
            expected = f"the entry of item {id_!r} does not have the frame_info and meta_data of a gulp item"
            raise MetaFileError(expected, file=self.meta_file_path) from error

    def _stored(self, id_: str, infos: Sequence[Any]) -> list[bytes]:
        if not infos:
            return []
        places = self._places(id_, infos)
        extents = Extents(0, np.ascontiguousarray(places[:, 0]), places[:, 2] - places[:, 1])
        try:
            return [stored for stored in read_many([self._data()], extents) if stored is not None]
        except ExtentError as error:
            self._unreadable(id_, int(places[error.row, 0]), str(error), error)

    def _places(self, id_: str, infos: Sequence[Any]) -> npt.NDArray[np.int64]:
        """Return offset, padding and length of frames: int64[frames, 3]."""
        try:
            places = np.array(infos, np.int64).reshape(-1, 3)
        except (ValueError, TypeError, OverflowError) as error:
            expected = f"frames of item {id_!r} are not [offset, padding, length]"
            raise MetaFileError(expected, file=self.meta_file_path) from error
        if (places < 0).any() or (places[:, 1] > places[:, 2]).any():
            raise MetaFileError(f"a frame of item {id_!r} has an invalid place", file=self.meta_file_path)
        return places

    def _data(self) -> File:
        """Return the open data file. A file of another size or time is opened again."""
        now = os.stat(self.data_file_path)
        name = (self.data_file_path, now.st_size, now.st_mtime_ns, now.st_ino)
        return self._files.get(name, lambda: open_file(Path(self.data_file_path)))

    def _decode(self, id_: str, frame: tuple[Any, bytes]) -> Any:
        info, stored = frame
        try:
            return self.jpeg_decoder(stored)
        except ValueError as error:
            self._unreadable(id_, int(info[0]), f"its {len(stored)} bytes are not a whole JPEG: {error}", error)

    def _unreadable(self, id_: str, offset: int, reason: str, error: Exception) -> NoReturn:
        raise UnreadableFrameError(
            f"cannot read a frame of item {id_!r}: {reason}",
            key=id_,
            field="frames",
            file=self.data_file_path,
            offset=offset,
            hint=f"run `bushel gulp2_sanity_check {os.path.dirname(self.data_file_path) or '.'}`",
        ) from error

    # Writing

    @contextmanager
    def open(self, flag: str = "rb") -> Iterator[None]:
        """Open the chunk to read (`rb`), to replace it (`wb`) or to append (`ab`).

        An exception in the block leaves a readable chunk of the items appended before.
        """
        if flag not in ("wb", "rb", "ab"):
            raise NotImplementedError(f"This file does not support the mode: '{flag}'")
        if flag == "rb":
            self._data()
            yield
            return
        path = Path(self.data_file_path)
        if flag == "wb":
            self.meta_dict.clear()
        self._save()
        if flag == "wb":
            path.unlink(missing_ok=True)  # readers of the old file can continue
        self.fp = sink = Sink(path, path.stat().st_size if path.exists() else 0)
        try:
            yield
        finally:
            sink.close()
            self.fp = None
            self._save()

    def append(self, id_: int | str, meta_data: Mapping[str, Any], frames: Sequence[Any]) -> None:
        """Append an item, or frames and metadata to an item. JPEGs as bytes are stored as they are.

        If a frame cannot be encoded, nothing is appended.
        """
        sink = self._sink()
        jpegs = map_frames(_to_jpeg, list(frames))
        start, infos, records = sink.position, [], bytearray()
        for jpeg in jpegs:
            pad = padding(len(jpeg))
            infos.append(ImgInfo(loc=start + len(records), pad=pad, length=len(jpeg) + pad))
            records += jpeg + bytes(pad)
        sink.write(records)
        entry = self.meta_dict.setdefault(str(id_), OrderedDict(frame_info=[], meta_data=[]))
        entry["frame_info"].extend(infos)
        entry["meta_data"].append(meta_data)

    def flush(self) -> None:
        """Flush all buffers and write the meta file."""
        self._sink().flush()
        self._save()

    def _sink(self) -> Sink:
        if self.fp is None:
            raise ValueError(f"{self.data_file_path} is not open for writing: use `with chunk.open('wb'):` or 'ab'")
        return self.fp

    def _load(self) -> Any:
        try:
            size = os.stat(self.meta_file_path).st_size
        except FileNotFoundError:
            return OrderedDict()
        if size == 0:
            lost = f"{self.meta_file_path} is empty: readers do not find the items of this chunk"
            warnings.warn(lost, GulpWarning, stacklevel=2)
            return OrderedDict()
        table = self.serializer.load(self.meta_file_path)
        if not isinstance(table, dict):
            raise MetaFileError(f"expected a map of ids, found a {type(table).__name__}", file=self.meta_file_path)
        return table

    def _save(self) -> None:
        part = f"{self.meta_file_path}.{os.getpid()}.part"
        self.serializer.dump(self.meta_dict, part)
        os.replace(part, self.meta_file_path)


def _choose(infos: Sequence[Any], slice_: Any) -> Sequence[Any]:
    if slice_ is None:
        return infos
    if isinstance(slice_, slice):
        return infos[slice_]
    if isinstance(slice_, list | np.ndarray):
        return [infos[number] for number in slice_]
    raise FrameChoiceError(f"choose frames by a slice or a list of numbers, not by a {type(slice_).__name__}")


def _to_jpeg(frame: Any) -> bytes:
    return bytes(frame) if isinstance(frame, bytes | bytearray | memoryview) else img_to_jpeg_bytes(frame)


class GulpDirectory:
    """A directory of gulp chunks, which threads may share. A copy in another process opens its own files.

    If several chunks have the same id, the first is read, with a `GulpWarning`. `colorspace` is that of `GulpChunk`. An
    unpaired file is an `UnpairedChunkError`, and a malformed meta file a `MetaFileError`.
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
        for number, data, meta in self._pairs():
            if number in self.chunk_objs_lookup:
                raise UnpairedChunkError(f"another chunk has the number {number} too", file=data)
            self.chunk_objs_lookup[number] = self._chunk(data, meta)
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
                f"{os.fspath(output_dir)}: {len(twice)} ids are in several chunks and read from the first: {shown}; "
                "`bushel gulp2_sanity_check` names the chunks",
                GulpWarning,
                stacklevel=2,
            )

    def __iter__(self) -> Iterator[GulpChunk]:
        return iter(self.chunk_objs_lookup.values())

    def chunks(self) -> Iterator[GulpChunk]:
        return iter(self)

    def new_chunks(self, total_new_chunks: int) -> Iterator[GulpChunk]:
        """Iterate over new chunks, whose numbers follow the highest existing one."""
        taken = [chunk_number(Path(self.output_dir), name) for names in self._names() for name in names]
        first = max(taken, default=-1) + 1
        for number in range(first, first + total_new_chunks):
            names = f"data_{number}.gulp", f"meta_{number}.gmeta"
            yield self._chunk(*(os.path.join(self.output_dir, name) for name in names))

    def __getitem__(self, element: Element) -> Item:
        id_, slice_ = extract_input_for_getitem(element)
        if id_ not in self.chunk_lookup:
            raise KeyError(f"there is no item {id_!r} in {os.fspath(self.output_dir)}")
        return self.chunk_objs_lookup[self.chunk_lookup[id_]].read_frames(id_, slice_)

    def _chunk(self, data: str, meta: str) -> GulpChunk:
        return GulpChunk(data, meta, jpeg_decoder=self.jpeg_decoder, files=self._files)

    def _names(self) -> tuple[list[str], list[str]]:
        folder = Path(self.output_dir)
        return chunk_names(folder) if folder.is_dir() else ([], [])

    def _pairs(self) -> Iterator[tuple[int, str, str]]:
        try:
            shards = pair_chunks(Path(self.output_dir), *self._names())
        except FormatError as error:
            raise UnpairedChunkError(error.message, file=error.file, hint=error.hint) from error
        return ((chunk_number(one.root, one.name), str(one.path(0)), str(one.path(1))) for one in shards)

    def _load_label_dict(self) -> dict[str, int]:
        labels: dict[str, int] = json.loads(Path(self.output_dir, "label2idx.json").read_text("utf-8"))
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
    return [slice(i, min(i + items_per_chunk, num_items)) for i in range(0, num_items, items_per_chunk)]


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

        If a chunk fails, it keeps the items written before, and the other chunks are finished before the error is
        raised, with a note that names the chunk. A chunk without items is removed.
        """
        slices = calculate_chunk_slices(self.videos_per_chunk, len(self.adapter))
        os.makedirs(self.output_folder, exist_ok=True)
        with warnings.catch_warnings(category=GulpWarning, action="ignore"):  # chunks are only counted here
            chunks = list(GulpDirectory(self.output_folder).new_chunks(len(slices)))
        failed: dict[int, BaseException] = {}
        written = _sum_shown(self._written(list(zip(chunks, slices, strict=True)), failed), len(slices))
        if failed:
            number = min(failed)
            error, part = failed[number], slices[number]
            error.add_note(
                f"while items {part.start} to {part.stop - 1} were written to {chunks[number].data_file_path}; "
                f"{len(slices) - len(failed)} of {len(slices)} chunks are complete"
            )
            raise error
        return written

    def _written(self, jobs: list[tuple[GulpChunk, slice]], failed: dict[int, BaseException]) -> Iterator[int]:
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
            futures = {pool.submit(_write, self.adapter, *job): number for number, job in enumerate(jobs)}
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
