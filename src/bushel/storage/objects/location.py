"""Paths in object stores: `s3://bucket/a/b.tar`, `gs://…`, `az://container/…`, `https://host/…`."""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

from bushel.errors import UnsupportedError
from bushel.storage.base import FROM_TAG, StorePath
from bushel.storage.objects.client import SCHEMES, library, store_of
from bushel.storage.objects.retries import persistently

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

__all__ = ["ObjectPath", "ObjectStat", "stat_of"]

_KEYS_ELSEWHERE = "credentials come from the environment and from the files of each store's tools"


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """What a store says of an object.

    Attributes:
        st_size: Bytes.
        st_mtime_ns: A number that is another when the object is another: made from its ETag, which (unlike the time)
            a store gives alike in listings and answers, and changes within a second; without one, the time.
        modified: When it was put there, in whole seconds since 1970.
        tag: Its ETag, or None.
    """

    st_size: int
    st_mtime_ns: int
    modified: int
    tag: str | None


def stat_of(meta: ObjectMeta) -> ObjectStat:
    """What Bushel keeps of the metadata of an object."""
    tag, modified = meta["e_tag"], int(meta["last_modified"].timestamp())
    stamp = modified * 10**9
    if tag:
        stamp = _stamp_of(tag)
    return ObjectStat(meta["size"], stamp, modified, tag or None)


@lru_cache(maxsize=1024)
def _stamp_of(tag: str) -> int:
    digest = hashlib.sha256(tag.removeprefix("W/").encode()).digest()
    return FROM_TAG | int.from_bytes(digest[:8], "little") >> 2


@dataclass(frozen=True, slots=True, order=True)
class ObjectPath(StorePath):
    """The path of an object, or of what a store shows as a folder; a value that does nothing by itself.

    Attributes:
        root: The URL of the bucket, container or host: `s3://bucket`.
        key: The key in it, without slashes at its ends; empty for the root.
    """

    root: str
    key: str

    @classmethod
    def parse(cls, url: str) -> ObjectPath:
        """The path that a URL names. In those of HTTP servers `%20` stands for a space, as everywhere on the web.

        Raises:
            UnsupportedError: It is of another scheme, or has a query or a password, which errors would show.
            ValueError: It names no bucket or host.
        """
        scheme, _, rest = url.partition("://")
        place, _, key = rest.partition("/")
        if scheme not in SCHEMES:
            raise UnsupportedError(f"{url}: URLs begin with one of {', '.join(f'{each}://' for each in SCHEMES)}")
        if "@" in place:
            known = f"{scheme}://{place.rpartition('@')[2]}/{key.partition('?')[0]}"
            raise UnsupportedError(f"{known}: a URL holds no user or password here; {_KEYS_ELSEWHERE}")
        if not place:
            raise ValueError(f"{url}: a URL is {scheme}://{'host' if scheme.startswith('http') else 'bucket'}/path")
        if scheme.startswith("http"):
            if "?" in key or "#" in key:
                url = re.split("[?#]", url)[0]  # the query of a signed one is a secret
                raise UnsupportedError(
                    f"{url}: URLs with a query, such as signed ones, name no folder for an index: read the object "
                    "with the credentials of its store, or download it"
                )
            key = unquote(key)
        return cls(f"{scheme}://{place}", "/".join(part for part in key.split("/") if part))

    def __str__(self) -> str:
        key = self.key
        if self.root.startswith("http"):
            for sign in "%?#":
                key = key.replace(sign, f"%{ord(sign):02X}")
        return f"{self.root}/{key}" if key else self.root

    def __truediv__(self, name: str) -> ObjectPath:
        parts = [*self.key.split("/"), *name.split("/")]
        return ObjectPath(self.root, "/".join(part for part in parts if part not in ("", ".")))

    @property
    def store(self) -> ObjectStore:
        """The connection of this process to the bucket, which makes failed requests again by itself."""
        return store_of(self.root)

    @property
    def _once(self) -> ObjectStore:
        """The same without that: what reads makes requests again in its own way."""
        return store_of(self.root, retries=False)

    @property
    def name(self) -> str:
        """The last component."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> ObjectPath:
        """The folder that it is in; of the root, itself."""
        return ObjectPath(self.root, self.key.rpartition("/")[0])

    @property
    def suffix(self) -> str:
        """The last part of the name from its dot on, or nothing."""
        head, dot, tail = self.name.rpartition(".")
        return dot + tail if head and tail else ""

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return self.name.removesuffix(self.suffix) if self.suffix else self.name

    def with_name(self, name: str) -> ObjectPath:
        """The path of another name in the same folder."""
        return self.parent / name

    def with_suffix(self, suffix: str) -> ObjectPath:
        """The path with another suffix."""
        return self.parent / (self.stem + suffix)

    @property
    def listable(self) -> bool:
        """Whether what is in a folder can be asked for: not of plain HTTP servers."""
        return not self.root.startswith("http")

    def stat(self) -> ObjectStat:
        """Size, stamp and ETag of the object.

        Raises:
            FileNotFoundError: There is none.
            OSError: The store refuses, or cannot be reached.
        """
        if not self.key:
            raise FileNotFoundError(errno.ENOENT, "this is no object, but all of them", str(self))
        return stat_of(persistently(str(self), lambda: library().head(self._once, self.key)))

    def is_file(self) -> bool:
        """Whether there is an object of this name that may be read.

        Who may not list a bucket is refused what is not there, so a refusal says no more than no.
        """
        try:
            self.stat()
        except (FileNotFoundError, PermissionError):
            return False
        return True

    def is_dir(self) -> bool:
        """Whether there are objects below it; never on an HTTP server, which does not tell."""
        if not self.listable:
            return False

        def first() -> Sequence[ObjectMeta]:
            return next(iter(library().list(self._once, self.key or None, chunk_size=1)), ())

        return len(persistently(str(self), first)) > 0

    def exists(self) -> bool:
        """Whether there is an object of this name, or a folder."""
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Iterator[ObjectPath]:
        """What is in the folder: objects and folders.

        Raises:
            UnsupportedError: An HTTP server does not tell.
            OSError: The store refuses, or cannot be reached.
        """
        self._need_listing()
        found = persistently(str(self), lambda: library().list_with_delimiter(self._once, self.key or None))
        for key in [*found["common_prefixes"], *(each["path"] for each in found["objects"])]:
            if key.strip("/") != self.key:  # some tools put an empty object where a folder begins
                yield ObjectPath(self.root, key.strip("/"))

    def glob(self, pattern: str) -> Iterator[ObjectPath]:
        """The objects and folders below that match a pattern, in which `*` and `?` stand for no slash; sorted.

        Raises:
            UnsupportedError: An HTTP server does not tell what it has.
            OSError: The store refuses, or cannot be reached.
        """
        part, _, rest = pattern.partition("/")
        matches: Iterable[ObjectPath] = [self / part]
        if any(sign in part for sign in "*?["):
            hidden = part.startswith(".")
            matches = sorted(
                path for path in self.iterdir() if fnmatchcase(path.name, part) and path.name.startswith(".") == hidden
            )
        elif not rest:
            matches = [path for path in matches if path.exists()]
        for path in matches:
            if rest:
                yield from path.glob(rest)
            else:
                yield path

    def _need_listing(self) -> None:
        if not self.listable:
            raise UnsupportedError(
                f"{self}: an HTTP server does not say which files it has; name them, as in "
                f"{self}/train-{{000..146}}.tar, or run `bushel index` on the dataset before it is put there"
            )

    def open(self, mode: str = "rb") -> IO[Any]:
        """Open it for reading from front to back; seeking is possible.

        Raises:
            FileNotFoundError: There is no such object.
            UnsupportedError: Another mode than `rb` was asked for.
        """
        if mode != "rb":
            raise UnsupportedError(f"{self}: objects are written whole, not opened as {mode!r}")
        from bushel.storage.objects.handle import open_handle

        return open_handle(self)

    def read_bytes(self) -> bytes:
        """The whole object.

        Raises:
            FileNotFoundError: There is none.
            OSError: The store refuses, or cannot be reached.
        """
        from bushel.storage.objects.remotefile import read_object

        return read_object(self)

    def read_text(self, encoding: str = "utf-8") -> str:
        """The whole object as text."""
        return self.read_bytes().decode(encoding)
