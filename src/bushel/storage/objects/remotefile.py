"""An open object: bytes by position, as long as it is the same object."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from typing_extensions import Buffer

from bushel.errors import FormatError
from bushel.storage.objects.blockcache import cache_of_environment
from bushel.storage.objects.client import library, store_of
from bushel.storage.objects.location import ObjectPath, stat_of
from bushel.storage.objects.retries import Cut, persistently

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ObjectStore

__all__ = ["RemoteFile", "read_object"]


class RemoteFile:
    """An object of a known size and stamp. Making one asks nothing of the store: every answer is compared with them.

    It may be used by several threads, and goes on in a forked process, which gets connections of its own.

    Attributes:
        location: The object's path.
        size: Bytes.
        mtime_ns: Its stamp, as in `ObjectStat.st_mtime_ns`; 0 to compare the size only.
    """

    __slots__ = ("_connection", "location", "mtime_ns", "size")

    def __init__(self, location: ObjectPath, size: int, mtime_ns: int) -> None:
        self.location, self.size, self.mtime_ns = location, size, mtime_ns
        self._connection: tuple[int, ObjectStore] | None = None

    def __reduce__(self) -> tuple[type[RemoteFile], tuple[ObjectPath, int, int]]:
        """A copy makes a connection of its own: that of this one has the credentials."""
        return RemoteFile, (self.location, self.size, self.mtime_ns)

    @classmethod
    def open(cls, location: ObjectPath) -> RemoteFile:
        """The object as it is now.

        Raises:
            FileNotFoundError: There is none.
            OSError: The store refuses, or cannot be reached.
        """
        stat = location.stat()
        return cls(location, stat.st_size, stat.st_mtime_ns)

    @property
    def path(self) -> str:
        """The URL."""
        return str(self.location)

    def read(self, offset: int, length: int, /) -> bytes:
        """The bytes of one extent, in several requests at once where it is long.

        Raises:
            ExtentError: It does not lie within the object.
            FormatError: The object was replaced.
            OSError: The store refuses, or cannot be reached.
        """
        from bushel.storage.objects.ranges import read_extent

        return read_extent(self, offset, length)

    def fetch(self, start: int, stop: int, give_up: threading.Event | None = None) -> Buffer:
        """The bytes from `start` to `stop`, in one request, which is made again when it fails.

        Args:
            start: First byte.
            stop: One behind the last byte; more than `start`.
            give_up: Set from elsewhere when nobody waits for the bytes any more.

        Raises:
            FormatError: The object was replaced.
            OSError: The store refuses, or could not be reached for `BUSHEL_NETWORK_PATIENCE` seconds.
        """
        return persistently(self.path, lambda: self._fetch_once(start, stop), give_up)

    def _fetch_once(self, start: int, stop: int) -> Buffer:
        options: GetOptions = {"range": (start, stop)}
        try:
            answer = library().get(self._store, self.location.key, options=options)
        except Exception as error:
            if "status code: 416" in str(error):  # the range lies behind its end
                raise self._replaced("it is shorter now") from error
            raise
        self._compare(answer.meta)
        data: Buffer = answer.bytes()
        if (size := memoryview(data).nbytes) != stop - start:
            raise Cut(f"{size} bytes came where {stop - start} were asked for")
        return data

    @property
    def _store(self) -> ObjectStore:
        process = os.getpid()
        connection = self._connection
        if connection is None or connection[0] != process:
            self._connection = connection = (process, store_of(self.location.root, retries=False))
        return connection[1]

    def _compare(self, meta: ObjectMeta) -> None:
        found = stat_of(meta)
        if found.st_size != self.size:
            raise self._replaced(f"it has {found.st_size} bytes, and had {self.size}")
        if self.mtime_ns and found.st_mtime_ns != self.mtime_ns:
            raise self._replaced("it has another ETag" if found.tag else "it was written again")

    def _replaced(self, how: str) -> FormatError:
        return FormatError(
            f"the object has changed since the dataset was opened: {how}",
            file=self.path,
            hint="open the dataset again; if it has an index, run `bushel index` first",
        )


def read_object(path: ObjectPath) -> bytes:
    """A whole object, whatever it is now.

    Raises:
        FileNotFoundError: There is none.
        OSError: The store refuses, or cannot be reached.
    """
    if cache_of_environment() is not None:
        file = RemoteFile.open(path)
        return file.read(0, file.size)
    store = store_of(path.root, retries=False)

    def once() -> bytes:
        return bytes(library().get(store, path.key).bytes())

    return persistently(str(path), once)
