"""Finding the files of a dataset in an object store or on an HTTP server."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import IO

from bushel._discovery.completeness import LoadManifest, marker_path
from bushel._index.sidecar import FOLDER, Manifest, find_manifest, load_manifest
from bushel._runtime.threads import Result, Threads
from bushel.containers import is_data_file
from bushel.containers.base import Shard
from bushel.storage import AnyPath, as_path, expand_braces, is_object
from bushel.storage.objects.location import ObjectPath

__all__ = ["ListedPath", "expand_url", "listed_in_manifest", "manifest_loader"]

_AHEAD = 4
"""Number of manifests that are requested before they are needed."""


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
            shards = []
            for entry in manifest.shards:
                own = FOLDER if sidecars == FOLDER else f"{entry.name}/{FOLDER}"
                shards.append(Shard(path, entry.name, tuple(stamp.name for stamp in entry.recorded), own))
            return manifest.container, shards
    raise FileNotFoundError(
        f"{path} is neither named like a file of a container nor a folder with a {FOLDER}/manifest.json. An HTTP "
        f"server cannot list a folder: run `bushel index` on the dataset before it is put there, or name its files"
    )


def manifest_loader(paths: Sequence[AnyPath]) -> LoadManifest:
    """Return a function that loads manifests, each once. Manifests that are certainly needed are requested now.

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

    def request(place: AnyPath, result: Result[Manifest | None]) -> None:
        try:
            result.set(find_manifest(place))
        except BaseException as error:
            result.fail(error)

    threads = Threads(max(1, len(begun)), "bushel-manifest")
    for place, result in begun.items():
        threads.submit(partial(request, place, result))

    def load(place: AnyPath) -> Manifest | None:
        if (result := begun.get(place)) is None:
            begun[place] = result = Result()
            request(place, result)
        if not result.done:  # requests that no thread has begun are dropped with the threads, which are kept for this
            threads.check_process()
        return result.get()

    return load


class ListedPath:
    """A path in an object store that asks the store once for its entries, however many containers look at it."""

    def __init__(self, path: ObjectPath) -> None:
        self._path, self.name, self.parent = path, path.name, path.parent

    def __str__(self) -> str:
        return str(self._path)

    def __truediv__(self, name: str) -> ObjectPath:
        return self._path / name

    @cached_property
    def _entries(self) -> list[ObjectPath]:
        try:
            return list(self._path.iterdir()) if self._path.listable else []
        except PermissionError:
            if self._path.is_file():  # some buckets allow everyone to read and nobody to list
                return []
            raise

    def is_dir(self) -> bool:
        """Return whether it is a folder."""
        return bool(self._entries)

    def is_file(self) -> bool:
        """Return whether it is an object."""
        return self._path.is_file()

    def exists(self) -> bool:
        """Return whether it exists."""
        return self.is_dir() or self.is_file()

    def iterdir(self) -> Iterator[ObjectPath]:
        """Iterate over the entries of the folder."""
        return iter(self._entries)

    def stat(self) -> object:
        """Return size and time of the object."""
        return self._path.stat()

    def open(self, mode: str = "rb") -> IO[bytes]:
        """Open the object for reading."""
        return self._path.open(mode)
