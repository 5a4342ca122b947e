"""A gulp directory: chunks, and items by id."""

from __future__ import annotations

import json
import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bushel.compat.gulpio2.chunk import Element, GulpChunk, extract_input_for_getitem
from bushel.compat.gulpio2.errors import GulpWarning, UnpairedChunkError
from bushel.compat.gulpio2.images import ColorSpace, decoder_of, jpeg_bytes_to_img
from bushel.containers.base import Shard
from bushel.containers.gulp.naming import chunk_names, chunk_number, pair_chunks
from bushel.errors import FormatError
from bushel.storage import FilePool

__all__ = ["GulpDirectory"]


class GulpDirectory:
    """A directory of `.gulp` and `.gmeta` files. Threads may share it, and a copy in another process opens its own.

    An id that is in several chunks is read from the first, with a `GulpWarning`.

    Args:
        output_dir: The directory.
        jpeg_decoder: Makes of a JPEG (bytes) what is returned for it, such as an array.
        colorspace: `"RGB"` or `"GRAY"`, for all frames alike; None: as they are stored.

    Attributes:
        all_meta_dicts: The `meta_dict` of every chunk.
        chunk_lookup: Id to the number of its chunk.
        chunk_objs_lookup: Number of a chunk to the `GulpChunk`.
        merged_meta_dict: Id to its entry in the `meta_dict` of its chunk.
        num_chunks: Number of chunks.

    Raises:
        UnpairedChunkError: A data or meta file has no partner (an `AssertionError` too).
        MetaFileError: A meta file is no table of a gulp chunk.
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
        for shard in self._shards():
            number = chunk_number(shard.root, shard.name)
            if number in self.chunk_objs_lookup:
                raise UnpairedChunkError(f"another chunk has the number {number} too", file=str(shard.path(0)))
            self.chunk_objs_lookup[number] = self._chunk(*(str(shard.path(file)) for file in range(2)))
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
        """The chunks, ready to be opened and read from."""
        return iter(self)

    def new_chunks(self, total_new_chunks: int) -> Iterator[GulpChunk]:
        """Fresh chunks, ready to be opened and written to; their numbers follow the highest that is there."""
        taken = [chunk_number(Path(self.output_dir), name) for names in self._names() for name in names]
        first = max(taken, default=-1) + 1
        for number in range(first, first + total_new_chunks):
            yield self._chunk(
                os.path.join(self.output_dir, f"data_{number}.gulp"),
                os.path.join(self.output_dir, f"meta_{number}.gmeta"),
            )

    def __getitem__(self, element: Element) -> tuple[list[Any], dict[str, Any]]:
        """`d[id]`, `d[id, 1:10:2]` or `d[id, [1, 5]]`: frames and metadata, as `GulpChunk.read_frames`.

        Raises:
            KeyError: There is no such item.
        """
        id_, slice_ = extract_input_for_getitem(element)
        if id_ not in self.chunk_lookup:
            raise KeyError(f"there is no item {id_!r} in {os.fspath(self.output_dir)}")
        return self.chunk_objs_lookup[self.chunk_lookup[id_]].read_frames(id_, slice_)

    def _chunk(self, data: str, meta: str) -> GulpChunk:
        return GulpChunk(data, meta, jpeg_decoder=self.jpeg_decoder, files=self._files)

    def _names(self) -> tuple[list[str], list[str]]:
        folder = Path(self.output_dir)
        return chunk_names(folder) if folder.is_dir() else ([], [])

    def _shards(self) -> list[Shard]:
        try:
            return pair_chunks(Path(self.output_dir), *self._names())
        except FormatError as error:
            raise UnpairedChunkError(error.message, file=error.file, hint=error.hint) from error

    def _load_label_dict(self) -> dict[str, int]:
        labels: dict[str, int] = json.loads(Path(self.output_dir, "label2idx.json").read_text("utf-8"))
        return labels
