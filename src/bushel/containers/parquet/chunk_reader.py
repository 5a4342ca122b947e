"""A remote Parquet file whose column chunks are fetched whole, one after another, for a pass over all of its pages."""

from __future__ import annotations

from bisect import bisect_right

from bushel.containers.parquet.footer import Footer
from bushel.storage import File

__all__ = ["ChunkReader"]


class ChunkReader:
    """Reads a remote file. A read inside a column chunk fetches the chunk, which is kept until another one is read.

    Args:
        file: The file.
        footer: Its footer.
    """

    def __init__(self, file: File, footer: Footer) -> None:
        self._file = file
        self.path, self.size, self.mtime_ns = file.path, file.size, file.mtime_ns
        chunks = sorted((chunk.offset, chunk.length) for group in footer.groups for chunk in group.chunks)
        self._starts = [offset for offset, _ in chunks]
        self._stops = [offset + length for offset, length in chunks]
        self._held: tuple[int, bytes] = (0, b"")

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent: see `File.read`."""
        start, data = self._held
        if not start <= offset <= offset + length <= start + len(data):
            number = bisect_right(self._starts, offset) - 1
            if number < 0 or offset + length > self._stops[number]:
                return self._file.read(offset, length)
            start = self._starts[number]
            data = self._file.read(start, self._stops[number] - start)
            self._held = start, data
        return data[offset - start : offset - start + length]
