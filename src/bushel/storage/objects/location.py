"""Paths in object stores: `s3://bucket/a/b.tar`, `gs://…`, `az://container/…`, `https://host/…`.

Also listings below a path, and reading many whole objects at once.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BufferedReader
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Self
from urllib.parse import unquote

from bushel._runtime.parallel import parallel_map
from bushel.errors import UnsupportedError
from bushel.storage.base import StorePath
from bushel.storage.fileobject import Seekable

from .blockcache import cache_of_environment
from .client import SCHEMES, library, store_of
from .remotefile import ObjectStat, RemoteFile, stat_of
from .retries import persistently, translated

if TYPE_CHECKING:
    from obstore import ListResult, ObjectMeta
    from obstore.store import ObjectStore

_CHUNK = 1 << 24  # bytes that a handle fetches at a time, in two requests
_AT_ONCE = 64  # folders that are listed at a time

# objects that a listing requests at a time: a hundred thousand objects take a hundred requests
_PAGE = 1000
_KEYS_ELSEWHERE = "credentials come from the environment and from the files of each store's tools"


@dataclass(frozen=True, slots=True, order=True)
class ObjectPath(StorePath):
    """The path of an object or of a folder of objects. Making one sends no request."""

    root: str  # the URL of the bucket, container or host: `s3://bucket`
    key: str  # the key in it, without slashes at its ends; empty for the root

    @classmethod
    def parse(cls, url: str) -> ObjectPath:
        """Return the path of a URL. In a URL of an HTTP server, `%20` is a space.

        Raises:
            UnsupportedError: The scheme is unknown, or the URL has a query or a password, which
                errors would show.
            ValueError: The URL has no bucket or host.
        """
        scheme, _, rest = url.partition("://")
        place, _, key = rest.partition("/")
        if scheme not in SCHEMES:
            raise UnsupportedError(
                f"{url}: expected a URL that starts with one of "
                f"{', '.join(f'{scheme}://' for scheme in SCHEMES)}"
            )
        if "@" in place:
            address = f"{scheme}://{place.rpartition('@')[2]}/{key.partition('?')[0]}"
            raise UnsupportedError(
                f"{address}: a URL must not contain a user or password; {_KEYS_ELSEWHERE}"
            )
        if not place:
            what = "host" if scheme.startswith("http") else "bucket"
            raise ValueError(f"{url}: the URL has no {what}; expected {scheme}://{what}/path")
        if scheme.startswith("http"):
            if "?" in key or "#" in key:
                url = re.split("[?#]", url)[0]  # the query of a signed one is a secret
                raise UnsupportedError(
                    f"{url}: a URL with a query, such as a signed one, has no folder for an "
                    "index: read the object with the credentials of its store, or download it"
                )
            key = unquote(key)
        return cls(f"{scheme}://{place}", "/".join(part for part in key.split("/") if part))

    def __str__(self) -> str:
        key = self.key
        if self.root.startswith("http"):
            for sign in "%?#":
                key = key.replace(sign, f"%{ord(sign):02X}")
        return "/".join(filter(None, [self.root, key]))

    def __truediv__(self, name: str) -> Self:
        parts = [*self.key.split("/"), *name.split("/")]
        return self.at("/".join(part for part in parts if part not in ("", ".")))

    def at(self, key: str) -> Self:
        """Return the path of another key in the same bucket."""
        return type(self)(self.root, key)

    @property
    def store(self) -> ObjectStore:
        """The connection to the bucket, which retries failed requests itself."""
        return store_of(self.root)

    @property
    def once(self) -> ObjectStore:
        """The connection to the bucket, without retries of its own."""
        return store_of(self.root, retries=False)

    @property
    def name(self) -> str:
        """The last component."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        """The folder that contains it; the root is its own parent."""
        return self.at(self.key.rpartition("/")[0])

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot on, or an empty string."""
        return PurePosixPath(self.name).suffix

    @property
    def stem(self) -> str:
        """The name without its suffix."""
        return PurePosixPath(self.name).stem

    def with_name(self, name: str) -> Self:
        """Return the path of another name in the same folder."""
        return self.parent / name

    @property
    def immutable(self) -> bool:
        """Whether the object can never be replaced, so that its ETag need not be compared."""
        return False

    @property
    def writable(self) -> bool:
        """Whether objects can be written; false for plain HTTP servers and the Hugging Face Hub."""
        return self.listable and not self.immutable

    @property
    def listable(self) -> bool:
        """Whether folders can be listed; false for plain HTTP servers."""
        return not self.root.startswith("http")

    def stat(self) -> ObjectStat:
        """Return the size, stamp and ETag of the object.

        Raises:
            FileNotFoundError: The object does not exist.
            OSError: The store refuses, or cannot be reached.
        """
        if not self.key:
            raise FileNotFoundError(errno.ENOENT, "this is a bucket, not an object", str(self))
        return stat_of(persistently(self, lambda: library().head(self.once, self.key)))

    def is_file(self) -> bool:
        """Return whether the object exists and may be read.

        Without the right to list a bucket, a missing object is refused too. A refusal therefore
        counts as missing.
        """
        try:
            self.stat()
        except (FileNotFoundError, PermissionError):
            return False
        return True

    def is_dir(self) -> bool:
        """Return whether there are objects below it; always False for an HTTP server, which has no listings."""
        if not self.listable:
            return False

        def first() -> Sequence[ObjectMeta]:
            return next(iter(library().list(self.once, self.key or None, chunk_size=1)), ())

        return len(persistently(self, first)) > 0

    def exists(self) -> bool:
        """Return whether the object or the folder exists.

        A name with a suffix is looked for as an object first, other names as a folder.
        """
        if self.suffix or not self.listable:
            return self.is_file() or self.is_dir()
        try:
            return self.is_dir() or self.is_file()
        except PermissionError:  # some buckets allow everyone to read and nobody to list
            if not self.is_file():
                raise
            return True

    def iterdir(self) -> Iterator[Self]:
        """Yield the objects and folders in this folder.

        Raises:
            UnsupportedError: It is on an HTTP server, which has no listings.
            OSError: The store refuses, or cannot be reached.
        """
        yield from self.listing()[0]

    def listing(self) -> tuple[list[Self], dict[str, ObjectMeta]]:
        """Return the objects and folders in this folder, and the metadata of objects that the store lists, by name.

        Raises:
            UnsupportedError: It is on an HTTP server, which has no listings.
            OSError: The store refuses, or cannot be reached.
        """
        self.need_listing()
        listed = self._entries()
        keys = [*listed["common_prefixes"], *(meta["path"] for meta in listed["objects"])]
        # some tools make an empty object for a folder
        entries = [self.at(inner) for key in keys if (inner := key.strip("/")) != self.key]
        return entries, {meta["path"].rpartition("/")[2]: meta for meta in listed["objects"]}

    def _entries(self) -> ListResult[Sequence[ObjectMeta]]:
        listed: ListResult[Sequence[ObjectMeta]] = persistently(
            self, lambda: library().list_with_delimiter(self.once, self.key or None)
        )
        return listed

    def glob(self, pattern: str) -> Iterator[Self]:
        """Yield the objects and folders that match a pattern, sorted. `*` and `?` do not match a slash.

        Raises:
            UnsupportedError: It is on an HTTP server, which has no listings.
            OSError: The store refuses, or cannot be reached.
        """
        part, _, rest = pattern.partition("/")
        matches: Iterable[Self] = [self / part]
        if any(sign in part for sign in "*?["):
            hidden = part.startswith(".")
            matches = sorted(
                path
                for path in self.iterdir()
                if fnmatchcase(path.name, part) and path.name.startswith(".") == hidden
            )
        elif not rest:
            matches = [path for path in matches if path.exists()]
        for path in matches:
            if rest:
                yield from path.glob(rest)
            else:
                yield path

    def known_names(self) -> list[str] | None:
        """Return the names of all objects below it, relative to it, in order; None if a listing must be made."""
        return None

    def need_listing(self) -> None:
        """Raise UnsupportedError if it is on an HTTP server, which has no listings."""
        if not self.listable:
            raise UnsupportedError(
                f"{self}: an HTTP server cannot list its files; name "
                f"them, as in {self}/train-{{000..146}}.tar, or run "
                "`bushel index` on the dataset before it is put there"
            )

    def open(self, mode: str = "rb") -> IO[Any]:
        """Open the object for reading. Seeking is possible.

        Raises:
            FileNotFoundError: The object does not exist.
            UnsupportedError: `mode` is not `rb`.
        """
        if mode != "rb":
            raise UnsupportedError(
                f"{self}: cannot open an object in mode "
                f"{mode!r}, only 'rb'; objects are written whole"
            )
        return BufferedReader(Seekable(RemoteFile.open(self)), _CHUNK)

    def read_bytes(self) -> bytes:
        """Return the whole object.

        Raises:
            FileNotFoundError: The object does not exist.
            OSError: The store refuses, or cannot be reached.
        """
        if cache_of_environment() is not None:
            file = RemoteFile.open(self)
            return file.read(0, file.size)
        return self._read_once()

    def _read_once(self) -> bytes:
        """Return the whole object, from one request, which is retried if it fails."""
        return persistently(self, lambda: bytes(library().get(self.once, self.key).bytes()))


def list_objects(root: ObjectPath) -> list[str]:
    """Return the names of all objects below a prefix, relative to it, in any order. Folders are listed in parallel.

    Raises:
        UnsupportedError: The root is on a plain HTTP server, which has no listings.
        OSError: The store refuses, or cannot be reached.
    """
    root.need_listing()
    listed_names = root.known_names()
    if listed_names is not None:
        return listed_names
    above, prefix = root, ""
    while True:  # into a folder that contains nothing but a folder
        listed = above._entries()
        folders = [root.at(key.strip("/")) for key in listed["common_prefixes"]]
        if listed["objects"] or len(folders) != 1:
            break
        [above] = folders
        prefix = f"{prefix}{above.name}/"
    keys = (meta["path"].strip("/") for meta in listed["objects"] if not meta["path"].endswith("/"))
    names = [prefix + key.rpartition("/")[2] for key in keys if key != above.key]
    walks = parallel_map(
        lambda folder: [f"{prefix}{folder.name}/{name}" for name in walk_objects(folder)],
        folders,
        threads=min(_AT_ONCE, max(len(folders), 1)),
        name="bushel-list",
    )
    for walked in walks:
        names += walked
    return names


def walk_objects(root: ObjectPath) -> Iterator[str]:
    """Yield the names of all objects below a prefix, relative to it, in the order of the store.

    Objects whose names end in a slash, which some tools make for folders, are left out.

    Raises:
        UnsupportedError: The root is on a plain HTTP server, which has no listings.
        OSError: The store refuses, or cannot be reached.
    """
    root.need_listing()
    names = root.known_names()
    if names is not None:
        yield from names
        return
    prefix = root.key and f"{root.key}/"
    with translated(root):
        for page in library().list(root.store, prefix or None, chunk_size=_PAGE):
            for meta in page:
                name = meta["path"].removeprefix(prefix)
                if name and not name.endswith("/"):
                    yield name
