"""A remote Parquet file whose column chunks, or those pages of them that are wanted, are fetched in one piece each."""

from __future__ import annotations

from bisect import bisect_right

from bushel.containers.parquet.footer import Footer
from bushel.storage import File

__all__ = ["ChunkReader"]


class ChunkReader:
    """Reads a remote file. A read inside a column chunk fetches the chunk, which is kept until another one is read.

    Args:
        file: The file.
        footer: Its footer, or the footer of a run of rows, of whose chunks only the pages that have them are fetched.
    """

    def __init__(self, file: File, footer: Footer) -> None:
        self._file = file
        self.path, self.size, self.mtime_ns = file.path, file.size, file.mtime_ns
        spans = sorted(span for group in footer.groups for chunk in group.chunks for span in chunk.spans)
        self._starts = [start for start, _ in spans]
        self._stops = [stop for _, stop in spans]
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
