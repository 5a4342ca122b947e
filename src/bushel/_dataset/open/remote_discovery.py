"""Finding the files of a dataset in an object store or on an HTTP server."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from bushel._index.shard import FOLDER, FileStamp, Shard
from bushel._index.sidecar import Manifest, load_manifest, readable_manifest
from bushel._runtime.parallel import map_all
from bushel._runtime.threads import Result, Threads
from bushel.containers import is_data_file
from bushel.storage import AnyPath, as_path, expand_braces, is_object
from bushel.storage.base import FROM_TAG
from bushel.storage.objects.location import ObjectPath
from bushel.storage.objects.remotefile import ObjectStat, stat_of

from .completeness import LoadManifest, marker_path, shard_of_entry

if TYPE_CHECKING:
    from obstore import ObjectMeta

_AHEAD = 4  # number of manifests that are requested before they are needed


def expand_url(pattern: str) -> list[ObjectPath]:
    """Return the objects that a URL with braces or glob characters stands for. Other URLs are not checked."""
    return [path for url in expand_braces(pattern) for path in _matches(url)]


def _matches(url: str) -> list[ObjectPath]:
    path = as_path(url)
    if not is_object(path):
        raise TypeError(f"{url} is not the URL of an object")
    if not glob.has_magic(path.key):
        return [path]
    parts = path.key.split("/")
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    folder = path.at("/".join(parts[:fixed]))
    matches = list(folder.glob("/".join(parts[fixed:])))
    if not matches:
        raise FileNotFoundError(f"no object matches {url}")
    return matches


def listed_in_manifest(path: ObjectPath) -> tuple[str, list[Shard]]:
    """Return the container and the shards that the manifest of a folder lists, for servers that cannot list folders.

    Raises:
        FileNotFoundError: The folder has no manifest.
    """
    for sidecars in (FOLDER, f"000000/{FOLDER}"):
        manifest = load_manifest(path / sidecars / "manifest.json")
        if manifest is not None:
            shards = [shard_of_entry(path, entry.name, entry) for entry in manifest.shards]
            return manifest.container, shards
    raise FileNotFoundError(
        f"{path} is neither named like a file of a container nor a folder with "
        f"a {FOLDER}/manifest.json. An HTTP server cannot list a folder: run "
        "`bushel index` on the dataset before it is put there, or name its files"
    )


@contextmanager
def manifest_loader(paths: Sequence[AnyPath]) -> Iterator[LoadManifest]:
    """Yield a function that loads manifests. Those that are certainly needed are requested now.

    So they are there when the folder has been listed.
    """
    first = paths[0]
    if len(paths) > 1:
        places = {str(path.parent): marker_path(path.parent, "") for path in paths}
    elif is_data_file(first.name):
        places = {"": marker_path(first.parent, first.name)}
    elif is_object(first) and first.listable:
        places = {"": marker_path(first, "")}
    else:  # the manifest is read instead of a listing
        places = {}
    begun = {place: Result[Manifest | None]() for place in list(places.values())[:_AHEAD]}

    threads = Threads(max(1, len(begun)), "bushel-manifest")
    for place, result in begun.items():
        threads.submit(partial(result.set_by, partial(readable_manifest, place)))

    def load(place: AnyPath) -> Manifest | None:
        if (result := begun.get(place)) is None:
            return readable_manifest(place)
        if not result.done:
            threads.check_process()
        return result.get()

    try:
        yield load
    finally:
        # an error is not held up by a slow answer that is not needed any more
        threads.close(wait=False)


class ListedFiles(Struct, frozen=True):
    """Files as a store has listed them, which saves a request for each.

    Only ETags that are also in a table are used. Anything else is asked of the store, file by file.
    """

    # size and stamp of each file, by its name relative to the root of its shard
    listed: Mapping[str, tuple[int, int]]

    def have(self, names: Sequence[str], files: Sequence[FileStamp]) -> bool:
        """Return whether files with the sizes and ETags that a table has recorded were listed.

        Args:
            names: The names of the files.
            files: The files as they were recorded, in the same order.
        """
        return len(names) == len(files) and all(
            file.mtime_ns >= FROM_TAG and self.listed.get(name) == (file.size, file.mtime_ns)
            for name, file in zip(names, files, strict=True)
        )


class ListedPath:
    """A path in an object store that asks the store once for its entries, however many containers look at it."""

    def __init__(self, path: ObjectPath) -> None:
        self._path, self.name, self.parent = path, path.name, path.parent
        self._found: tuple[list[ObjectPath], dict[str, ObjectMeta]] | None = None
        self._own: ObjectStat | None = None

    def __str__(self) -> str:
        return str(self._path)

    def __truediv__(self, name: str) -> ObjectPath:
        return self._path / name

    def _list(self) -> tuple[list[ObjectPath], dict[str, ObjectMeta]]:
        """Return the entries of the folder, and the objects in it by name."""
        if self._found is None:
            listing: tuple[list[ObjectPath], dict[str, ObjectMeta]] = ([], {})
            try:
                if self._path.listable:
                    listing = self._path.listing()
            except PermissionError:
                if not self.is_file():  # some buckets allow everyone to read and nobody to list
                    raise
            self._found = listing
        return self._found

    def names(self) -> list[tuple[str, bool]]:
        """Return the name of each entry of the folder, and whether it is a folder."""
        entries, objects = self._list()
        return [(entry.name, entry.name not in objects) for entry in entries]

    def files(self, names: Iterable[str]) -> ListedFiles:
        """Return the files of these names as the store has listed them, without a request."""
        stats_of = {} if self._found is None else self._found[1]
        stats = {name: stat_of(stats_of[name]) for name in names if name in stats_of}
        if self._own is not None:
            stats[self.name] = self._own
        return ListedFiles({name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()})

    def is_dir(self) -> bool:
        """Return whether it is a folder."""
        return bool(self._list()[0])

    def is_file(self) -> bool:
        """Return whether it is an object that may be read."""
        if self._own is None:
            with suppress(FileNotFoundError, PermissionError):
                self._own = self._path.stat()
        return self._own is not None

    def exists(self) -> bool:
        """Return whether it exists. What has a suffix is looked for as a folder and as an object at the same time."""
        if self._path.suffix:
            map_all(lambda look: look(), (self.is_file, self._list), threads=2, name="bushel-find")
        return self.is_dir() or self.is_file()

    def iterdir(self) -> Iterator[ObjectPath]:
        """Iterate over the entries of the folder."""
        return iter(self._list()[0])

    def stat(self) -> object:
        """Return size and time of the object."""
        return self._path.stat()

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Open the object for reading."""
        return self._path.open(mode)
