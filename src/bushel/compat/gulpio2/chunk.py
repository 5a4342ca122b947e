"""Gulp chunks: reading and writing items."""

from __future__ import annotations

import os
import shlex
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import UnsupportedOperation
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt

import bushel
from bushel.containers.gulp import padding
from bushel.storage import ExtentError, Extents, File, FilePool, Sink, open_file, read_many

from .errors import (
    FrameChoiceError,
    MetaFileError,
    MissingItemError,
    NeverOpenError,
    UnreadableFrameError,
)
from .images import ColorSpace, decoder_of, is_own, jpeg_bytes_to_img, map_frames
from .tables import AbstractSerializer, ImgInfo, json_serializer, load_table
from .utils import img_to_jpeg_bytes

Element = int | str | tuple[Any, Any]
"""An id, or an id with a slice or a list of frame numbers."""
Item = tuple[list[Any], dict[str, Any]]
"""The frames of an item, and its metadata."""


def extract_input_for_getitem(element: Element) -> tuple[str, Any]:
    """Split an index of `[]` into the id as text, and the slice or list of frames or None."""
    if isinstance(element, tuple) and len(element) == 2:
        return str(element[0]), element[1]
    if isinstance(element, int | str):
        return str(element), None
    raise TypeError("Undefined input type! id or (id, slice) expected")


class DataFile(Sink):
    """A data file under construction, with the methods of the file object of a chunk that programs use."""

    closed = False

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self.position

    def close(self, *, sync: bool = True) -> None:
        """Write the buffered bytes, and close the file. With `sync`, wait until it is on disk."""
        self.closed = True
        super().close(sync=sync)


class GulpChunk:
    """A gulp chunk on disk. Several threads may read it at once, without opening it first.

    `colorspace` is `"RGB"` or `"GRAY"` for all frames, which otherwise stay as they are stored;
    `files` are open files to share with other chunks.
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
        self.fp: DataFile | BinaryIO | None = None
        self._files = FilePool(1) if files is None else files
        self.meta_dict = load_table(self.meta_file_path, serializer)
        self._removed: dict[str, Any] = {}
        self._leave_out_removed()

    def _leave_out_removed(self) -> None:
        """Take the items that `bushel remove` removed out of `meta_dict`. They stay in the file when it is written."""
        path = Path(self.data_file_path)
        # a chunk with a table of another kind is in no dataset of Bushel
        listed = self.meta_file_path.endswith(".gmeta") and path.is_file()
        gone = (
            bushel.integrity.removed_positions(path, container="gulp").tolist()
            if self.meta_dict and listed
            else []
        )
        order = list(self.meta_dict)
        self._removed = {order[place]: self.meta_dict.pop(order[place]) for place in gone}

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

        `slice_` is a slice, or a list or 1-D array of frame numbers. A damaged frame is an
        `UnreadableFrameError`.
        """
        id_ = str(id_)
        if id_ not in self.meta_dict:
            raise MissingItemError(f"unknown item {id_!r} in {self.meta_file_path}")
        infos, meta = self._entry(id_)
        try:
            chosen = _choose(infos, slice_)
        except IndexError:
            self._places(id_, infos)  # a malformed entry is the first mistake, as of the original
            raise
        stored = self._stored(id_, chosen)
        if not is_own(self.jpeg_decoder):  # a user's decoder may not be thread-safe
            return [self.jpeg_decoder(jpeg) for jpeg in stored], meta
        return map_frames(partial(self._decode, id_), list(zip(chosen, stored, strict=True))), meta

    def iter_all(
        self, accepted_ids: Collection[int | str] | None = None, shuffle: bool = False
    ) -> Iterator[Item]:
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
            expected = (
                f"the entry of item {id_!r} does not have "
                "the frame_info and meta_data of a gulp item"
            )
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
            raise MetaFileError(
                f"a frame of item {id_!r} has an invalid place", file=self.meta_file_path
            )
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
            self._unreadable(
                id_,
                int(info[0]),
                f"its {len(stored)} bytes are not a complete JPEG: {error}",
                error,
            )

    def _unreadable(self, id_: str, offset: int, reason: str, error: Exception) -> NoReturn:
        raise UnreadableFrameError(
            f"cannot read a frame of item {id_!r}: {reason}",
            key=id_,
            field="frames",
            file=self.data_file_path,
            offset=offset,
            hint="run `bushel gulp2_sanity_check "
            + shlex.quote(os.path.dirname(self.data_file_path) or ".")
            + "`",
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
            with open(self.data_file_path, "rb") as self.fp:
                yield
            return
        path = Path(self.data_file_path)
        if flag == "wb":
            self.meta_dict.clear()
            self._removed.clear()
        self._save()
        if flag == "wb":
            path.unlink(missing_ok=True)  # readers of the old file can continue
        self.fp = sink = DataFile(path, path.stat().st_size if path.exists() else 0)
        try:
            yield
        finally:
            sink.close()
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

    def _sink(self) -> DataFile:
        if isinstance(self.fp, DataFile) and not self.fp.closed:
            return self.fp
        kind = NeverOpenError if self.fp is None else UnsupportedOperation
        raise kind(
            f"{self.data_file_path} is not open for writing: use `with chunk.open('wb'):` or 'ab'"
        )

    def _save(self) -> None:
        part = f"{self.meta_file_path}.{os.getpid()}.part"
        self.serializer.dump({**self._removed, **self.meta_dict}, part)
        os.replace(part, self.meta_file_path)


def _choose(infos: Sequence[Any], slice_: Any) -> Sequence[Any]:
    if slice_ is None:
        return infos
    if isinstance(slice_, slice):
        return infos[slice_]
    if isinstance(slice_, list | np.ndarray):
        return [infos[number] for number in slice_]
    raise FrameChoiceError(
        f"choose frames by a slice or a list of numbers, not by a {type(slice_).__name__}"
    )


def _to_jpeg(frame: Any) -> bytes:
    return (
        bytes(frame)
        if isinstance(frame, bytes | bytearray | memoryview)
        else img_to_jpeg_bytes(frame)
    )
