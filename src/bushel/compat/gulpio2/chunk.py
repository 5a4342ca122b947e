"""One gulp chunk: a data file and its table."""

from __future__ import annotations

import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bushel.compat.gulpio2.errors import GulpWarning, MetaFileError, UnreadableFrameError
from bushel.compat.gulpio2.images import ColorSpace, decoder_of, img_to_jpeg_bytes, is_own, jpeg_bytes_to_img
from bushel.compat.gulpio2.serializers import AbstractSerializer, ImgInfo, json_serializer
from bushel.compat.gulpio2.threads import do_all
from bushel.containers.gulp.naming import padding
from bushel.storage import ExtentError, Extents, File, FilePool, Sink, open_file, read_many

__all__ = ["GulpChunk", "extract_input_for_getitem"]

Element = int | str | tuple[Any, Any]
"""An id, or an id with a slice or a list of frame numbers."""


def extract_input_for_getitem(element: Element) -> tuple[str, Any]:
    """Take apart what stands in square brackets.

    Returns:
        The id as text, and the slice or list, or None.

    Raises:
        TypeError: It is neither an id nor an id with a slice.
    """
    if isinstance(element, tuple) and len(element) == 2:
        id_, slice_ = element
    elif isinstance(element, int | str):
        id_, slice_ = element, None
    else:
        raise TypeError("Undefined input type! id or (id, slice) expected")
    return str(id_), slice_


class GulpChunk:
    """A gulp chunk on disk. Threads may read it at once, and need not open it.

    Args:
        data_file_path: Path of the `.gulp` file.
        meta_file_path: Path of the `.gmeta` file.
        serializer: How the meta file is written.
        jpeg_decoder: Makes of a JPEG (bytes) what `read_frames` returns for it.
        colorspace: `"RGB"` or `"GRAY"`, for all frames alike; None: as they are stored.
        files: Open files, shared with other chunks.

    Attributes:
        meta_dict: Id to `{"frame_info": [...], "meta_data": [...]}`.
        fp: What the data file is written through, inside `open("wb")` and `open("ab")`; else None.

    Raises:
        MetaFileError: The meta file is no table of a gulp chunk.
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

    def __getitem__(self, element: Element) -> tuple[list[Any], dict[str, Any]]:
        return self.read_frames(*extract_input_for_getitem(element))

    def __iter__(self) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        return self.iter_all()

    # Reading

    def read_frames(self, id_: int | str, slice_: Any = None) -> tuple[list[Any], dict[str, Any]]:
        """Read the frames of one item: one read of the file, and decoding on all processors.

        Args:
            id_: The item.
            slice_: A slice, or a list or 1-D array of frame numbers; None for all frames.

        Returns:
            The frames, uint8 of shape HxWx3 or HxW unless there is another decoder, and a copy of the item's (first)
            metadata.

        Raises:
            KeyError: There is no such item.
            IndexError: There is no such frame.
            TypeError: `slice_` is neither slice nor list.
            UnreadableFrameError: A frame is damaged (a `ValueError`).
        """
        id_ = str(id_)
        if id_ not in self.meta_dict:
            raise KeyError(f"there is no item {id_!r} in {self.meta_file_path}")
        infos, meta = self._entry(id_)
        chosen = _choose(infos, slice_)
        stored = self._stored(id_, chosen)
        if not is_own(self.jpeg_decoder):  # of the user: perhaps not for threads
            return [self.jpeg_decoder(jpeg) for jpeg in stored], meta
        return do_all(partial(self._decode, id_), list(zip(chosen, stored, strict=True))), meta

    def iter_all(
        self, accepted_ids: Collection[int | str] | None = None, shuffle: bool = False
    ) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        """Iterate over the items.

        Args:
            accepted_ids: Only these, in the order of the chunk.
            shuffle: In an order drawn from NumPy's global generator.

        Yields:
            Frames and metadata, as `read_frames`.
        """
        ids = list(self.meta_dict)
        if accepted_ids is not None:
            accepted = set(map(str, accepted_ids))
            ids = [id_ for id_ in ids if id_ in accepted]
        if shuffle:
            np.random.shuffle(ids)
        for id_ in ids:
            yield self.read_frames(id_)

    def check(self) -> None:
        """Look at every entry of the table.

        Raises:
            MetaFileError: One has not the frames and metadata of a gulp item.
        """
        for id_ in self.meta_dict:
            self._where(id_, self._entry(id_)[0])

    def _entry(self, id_: str) -> tuple[Sequence[Any], dict[str, Any]]:
        try:
            entry = self.meta_dict[id_]
            infos, metas = entry["frame_info"], entry["meta_data"]
            return infos, dict(metas[0]) if metas else {}
        except (KeyError, TypeError, ValueError) as error:
            raise MetaFileError(
                f"the entry of item {id_!r} has not the frame_info and meta_data of a gulp item",
                file=self.meta_file_path,
            ) from error

    def _stored(self, id_: str, infos: Sequence[Any]) -> list[bytes]:
        """The JPEGs, in one read."""
        if not infos:
            return []
        where = self._where(id_, infos)
        extents = Extents(0, np.ascontiguousarray(where[:, 0]), where[:, 2] - where[:, 1])
        try:
            return [stored for stored in read_many([self._data()], extents) if stored is not None]
        except ExtentError as error:
            self._unreadable(id_, int(where[error.row, 0]), str(error), error)

    def _where(self, id_: str, infos: Sequence[Any]) -> npt.NDArray[np.int64]:
        """Offset, padding and length of frames: int64[frames, 3]."""
        try:
            where = np.array(infos, np.int64).reshape(-1, 3)
        except (ValueError, TypeError, OverflowError) as error:
            raise MetaFileError(
                f"frames of item {id_!r} are not [offset, padding, length]", file=self.meta_file_path
            ) from error
        if (where < 0).any() or (where[:, 1] > where[:, 2]).any():
            raise MetaFileError(f"a frame of item {id_!r} has no possible place", file=self.meta_file_path)
        return where

    def _data(self) -> File:
        """The data file as it is now: another size or time is another file."""
        now = os.stat(self.data_file_path)
        name = (self.data_file_path, now.st_size, now.st_mtime_ns, now.st_ino)
        return self._files.get(name, lambda: open_file(Path(self.data_file_path)))

    def _decode(self, id_: str, frame: tuple[Any, bytes]) -> Any:
        info, stored = frame
        try:
            return self.jpeg_decoder(stored)
        except ValueError as error:
            self._unreadable(id_, int(info[0]), f"{len(stored)} bytes that are no whole JPEG: {error}", error)

    def _unreadable(self, id_: str, offset: int, what: str, error: Exception) -> NoReturn:
        raise UnreadableFrameError(
            f"a frame of item {id_!r} cannot be read: {what}",
            key=id_,
            field="frames",
            file=self.data_file_path,
            offset=offset,
            hint=f"run `bushel gulp2_sanity_check {os.path.dirname(self.data_file_path) or '.'}`",
        ) from error

    # Writing

    @contextmanager
    def open(self, flag: str = "rb") -> Iterator[None]:
        """Open the chunk, as a context manager that gives None.

        An exception in the block leaves a chunk of the items appended before it, which can be read.

        Args:
            flag: `rb` to read, `wb` to write a new chunk in place of what is there, `ab` to append.

        Raises:
            NotImplementedError: Another flag.
            FileNotFoundError: There is nothing to read.
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
            path.unlink(missing_ok=True)  # who reads the old file goes on doing that
        self.fp = sink = Sink(path, path.stat().st_size if path.exists() else 0)
        try:
            yield
        finally:
            sink.close()
            self.fp = None
            self._save()

    def append(self, id_: int | str, meta_data: Mapping[str, Any], frames: Sequence[Any]) -> None:
        """Append an item, or to an item: frames are added to its frames, metadata to its list of metadata.

        Args:
            id_: The item's id.
            meta_data: Its metadata.
            frames: Arrays (uint8, HxWx3 or HxW) or images of Pillow; JPEGs as bytes are stored as they are.

        Raises:
            ValueError: A frame is no such image, and then nothing is appended; or the chunk is not open for writing.
        """
        sink = self._sink()
        jpegs = do_all(_to_jpeg, list(frames))
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
            warnings.warn(
                f"{self.meta_file_path} is empty: the items of this chunk are lost to its readers",
                GulpWarning,
                stacklevel=2,
            )
            return OrderedDict()
        table = self.serializer.load(self.meta_file_path)
        if not isinstance(table, dict):
            raise MetaFileError(f"a {type(table).__name__} where a map of ids is expected", file=self.meta_file_path)
        return table

    def _save(self) -> None:
        """Write the meta file, whole or not at all."""
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
    raise TypeError(f"frames are chosen by a slice or a list of numbers, not by {type(slice_).__name__}")


def _to_jpeg(frame: Any) -> bytes:
    return bytes(frame) if isinstance(frame, bytes | bytearray | memoryview) else img_to_jpeg_bytes(frame)
