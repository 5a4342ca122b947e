"""Open objects: their size and stamp, and reading by position, also with ranges that stay in memory."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct
from typing_extensions import Buffer

from bushel._runtime.parallel import map_all
from bushel.errors import FormatError
from bushel.storage.base import FROM_TAG, StoredObject, check_extent
from bushel.storage.expansion_cache import expansion_cache

from .client import library, store_of
from .ranges import read_span
from .retries import TruncatedError, persistently

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta
    from obstore.store import ObjectStore

    from .ranges import Arriving

_RECEIVED = 1 << 16
"""Bytes of a chunk of a range whose values are copied as it arrives, at least."""

_SHORT = 1 << 19
"""Bytes of a range that comes as `bytes`, at most."""


class ObjectStat(Struct, frozen=True):
    """The metadata of an object.

    Attributes:
        st_size: Size in bytes.
        st_mtime_ns: A number that differs if the object differs. It is made from the ETag, which
            (unlike the time) is the same in listings and answers, and changes within a second;
            without an ETag it is the time.
        modified: Time of modification, in whole seconds since 1970.
        tag: The ETag, or None.
    """

    st_size: int
    st_mtime_ns: int
    modified: int
    tag: str | None


def stat_of(meta: ObjectMeta) -> ObjectStat:
    """Return the part of an object's metadata that Bushel uses."""
    tag, modified = meta["e_tag"], int(meta["last_modified"].timestamp())
    stamp = stamp_of_tag(tag) if tag else modified * 10**9
    return ObjectStat(meta["size"], stamp, modified, tag or None)


@lru_cache(maxsize=1024)
def stamp_of_tag(tag: str) -> int:
    """Return the number that stands for an ETag in `ObjectStat.st_mtime_ns`."""
    digest = hashlib.sha256(tag.removeprefix("W/").encode()).digest()
    return FROM_TAG | int.from_bytes(digest[:8], "little") >> 2


class Location(Protocol):
    """The path of an object: `ObjectPath`."""

    @property
    def root(self) -> str:
        """The URL without the key."""

    @property
    def key(self) -> str:
        """The key."""

    @property
    def immutable(self) -> bool:
        """Whether the object can never be replaced."""

    def stat(self) -> ObjectStat:
        """Return the object's metadata."""


class RemoteFile(StoredObject):
    """An open remote object; reads fail if the object is replaced.

    Making one sends no request: size and stamp are given, and every answer is compared with them.
    Several threads may use it, and it continues in a forked process, which gets connections of its
    own.

    Attributes:
        location: The object's path.
        size: Size in bytes.
        mtime_ns: Its stamp, as in `ObjectStat.st_mtime_ns`; 0 to compare the size only.
    """

    __slots__ = ("_connection", "_tag", "location", "mtime_ns", "size")

    def __init__(self, location: Location, size: int, mtime_ns: int) -> None:
        self.location, self.size, self.mtime_ns = location, size, mtime_ns
        self._connection: tuple[int, ObjectStore] | None = None
        self._tag: str | None = None  # the ETag of an answer that has the stamp

    def __reduce__(self) -> tuple[type[RemoteFile], tuple[Location, int, int]]:
        """Leave out the connection, which holds credentials: a copy makes its own."""
        return RemoteFile, (self.location, self.size, self.mtime_ns)

    @property
    def identity(self) -> Hashable:
        """The identity of its bytes: open files with the same identity can use each other's ranges."""
        return self.path

    @classmethod
    def open(cls, location: Location) -> RemoteFile:
        """Open an object as it is now.

        Raises:
            FileNotFoundError: The object does not exist.
            OSError: The store refuses, or cannot be reached.
        """
        stat = location.stat()
        return cls(location, stat.st_size, stat.st_mtime_ns)

    @classmethod
    def open_at_end(cls, location: Location, length: int) -> tuple[RemoteFile, bytes]:
        """Open an object by the request for its last bytes; some stores need two requests.

        Args:
            location: The object's path.
            length: How many bytes to read; all, of a shorter object.

        Raises:
            FileNotFoundError, OSError: As `open`.
        """
        if not location.immutable:
            end = persistently(location, lambda: _end_of(location, length))
            if end is not None:
                stat, data = end
                return cls(location, stat.st_size, stat.st_mtime_ns), data
        file = cls.open(location)
        return file, file.read(max(0, file.size - length), min(file.size, length))

    @property
    def path(self) -> str:
        """The URL."""
        return str(self.location)

    def read(self, offset: int, length: int, /) -> bytes:
        """Return the bytes of one extent, fetched in several requests at a time if it is long.

        Raises:
            ExtentError: The extent is not within the object.
            FormatError: The object was replaced.
            OSError: The store refuses, or cannot be reached.
        """
        check_extent(self, offset, length)
        if not length:
            return b""
        return bytes(read_span(self, offset, offset + length))

    def fetch(self, start: int, stop: int, give_up: threading.Event | None = None) -> Buffer:
        """Return the bytes from `start` to `stop`, from one request, which is retried if it fails.

        Args:
            start: First byte.
            stop: End; more than `start`.
            give_up: When another thread sets it, a failed request is not retried.

        Raises:
            FormatError: The object was replaced.
            OSError: The store refuses, or could not be reached for `BUSHEL_NETWORK_PATIENCE`
                seconds.
        """
        return persistently(self.location, lambda: self._fetch_once(start, stop), give_up)

    def receive(
        self, start: int, stop: int, values: Arriving, give_up: threading.Event | None = None
    ) -> None:
        """Copy the values of a range out of one request as it arrives: see `fetch`."""
        persistently(self.location, lambda: self._receive_once(start, stop, values), give_up)

    def _fetch_once(self, start: int, stop: int) -> Buffer:
        answer = self._answer(start, stop)
        length = stop - start
        # a chunk is made as bytes, which needs no copy later; but with the interpreter lock, so not
        # a large one
        data: Buffer = next(answer.stream(length), b"") if length <= _SHORT else answer.bytes()
        if (size := memoryview(data).nbytes) != length:
            raise TruncatedError(f"{size} bytes came instead of {length}")
        return data

    def _receive_once(self, start: int, stop: int, values: Arriving) -> None:
        values.restart()
        size = 0
        for chunk in self._answer(start, stop).stream(min_chunk_size=_RECEIVED):
            values.put(chunk)
            size += len(chunk)
        if size != stop - start:
            raise TruncatedError(f"{size} bytes came instead of {stop - start}")

    def _answer(self, start: int, stop: int) -> GetResult:
        """Request a range, and return the answer before its bytes have arrived."""
        options: GetOptions = {"range": (start, stop)}
        try:
            answer: GetResult = library().get(self._store, self.location.key, options=options)
        except Exception as error:
            if "status code: 416" in str(error):  # the range starts after the end of the object
                raise self._replaced("it is shorter now") from error
            raise
        self._compare(answer.meta)
        return answer

    @property
    def _store(self) -> ObjectStore:
        process = os.getpid()
        connection = self._connection
        if connection is None or connection[0] != process:
            self._connection = connection = (process, store_of(self.location.root, retries=False))
        return connection[1]

    def _compare(self, meta: ObjectMeta) -> None:
        if meta["size"] == self.size and self._tag is not None and meta["e_tag"] == self._tag:
            return
        stat = stat_of(meta)
        if stat.st_size != self.size:
            raise self._replaced(f"it has {stat.st_size} bytes, and had {self.size}")
        if self.mtime_ns and not self.location.immutable and stat.st_mtime_ns != self.mtime_ns:
            raise self._replaced("it has another ETag" if stat.tag else "it was written again")
        self._tag = stat.tag

    def _replaced(self, how: str) -> FormatError:
        return FormatError(
            f"the object has changed since the dataset was opened: {how}",
            self.path,
            hint="open the dataset again; if it has an index, run `bushel index` first",
        )


def _end_of(location: Location, length: int) -> tuple[ObjectStat, bytes] | None:
    """Return size, stamp and last bytes of an object; None if the store does not answer requests for an end."""
    try:
        answer = library().get(
            store_of(location.root, retries=False),
            location.key,
            options={"range": {"suffix": length}},
        )
        stat, data = stat_of(answer.meta), bytes(answer.bytes())
    except Exception as error:
        if isinstance(error, library().exceptions.NotSupportedError) or "status code: 416" in str(
            error
        ):
            return None  # Azure has no such requests, and an empty object has no range
        raise
    if len(data) != min(length, stat.st_size):
        return None
    return stat, data


_Range = tuple[int, int]
_AT_ONCE = 8
"""Requests for ranges at once."""


class HeldFile(RemoteFile):
    """A remote object. `hold` reads ranges, which the cache of expanded blocks keeps: later reads take them from there.

    What the cache has dropped is requested again, in the ranges that are read.

    Attributes:
        ranges: First byte and end of each range, ascending.
    """

    __slots__ = ("ranges",)

    def __init__(
        self, location: Location, size: int, mtime_ns: int, ranges: tuple[_Range, ...]
    ) -> None:
        super().__init__(location, size, mtime_ns)
        self.ranges = ranges

    def __reduce__(self) -> tuple[type[RemoteFile], tuple[object, ...]]:  # type: ignore[override]
        return HeldFile, (self.location, self.size, self.mtime_ns, self.ranges)

    @property
    def identity(self) -> Hashable:
        """The file with its ranges: only they are kept."""
        return self.path, self.ranges

    def hold(self) -> None:
        """Request the ranges, except those that are kept or that another thread is requesting.

        Raises:
            FormatError: The object was replaced.
            OSError: The store refuses, or cannot be reached.
        """
        map_all(self._hold, self.ranges, threads=_AT_ONCE, name="bushel-ranges")

    def _name(self, extent: _Range) -> Hashable:
        return "range", self.path, self.size, self.mtime_ns, *extent

    def _hold(self, extent: _Range) -> None:
        expansion_cache().obtain(
            self._name(extent),
            lambda: np.frombuffer(memoryview(read_span(self, *extent)), np.uint8),
        )

    def _fetch_once(self, start: int, stop: int) -> Buffer:
        content = self._kept(start, stop)
        if content is None:
            return super()._fetch_once(start, stop)
        return content

    def _receive_once(self, start: int, stop: int, values: Arriving) -> None:
        if (content := self._kept(start, stop)) is None:
            super()._receive_once(start, stop, values)
        else:
            values.restart()
            values.put(content)

    def _kept(self, start: int, stop: int) -> memoryview | None:
        containing = next(
            (limits for limits in self.ranges if limits[0] <= start <= stop <= limits[1]), None
        )
        content = containing and expansion_cache().get(self._name(containing))
        if content is None or containing is None:
            return None
        return content.data[start - containing[0] : stop - containing[0]]
