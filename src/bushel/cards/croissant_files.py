"""The files of a dataset as objects of Croissant, with their SHA-256."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bushel._runtime.parallel import parallel_map
from bushel._runtime.threads import cpu_count
from bushel.cards.facts import Split
from bushel.errors import UnsupportedError
from bushel.storage import AnyPath, is_object, open_file

FORMATS = {
    "tar": "application/x-tar",
    "zip": "application/zip",
    "parquet": "application/x-parquet",
    "jsonl": "application/jsonlines",
    "csv": "text/csv",
}
"""The formats of files whose contents Croissant describes, by container."""

_OTHER = "application/octet-stream"
_CHUNK = 4 << 20
_MANY = 1000  # a shard with more files than this is described as a set of files


@dataclass(frozen=True, slots=True)
class Publisher:
    """Where the readers of the metadata find files."""

    folder: Path  # the folder of the metadata: paths of files are relative to it
    base_url: str | None  # the prefix of these paths; None for the paths alone
    tick: Callable[[int], None]  # called with the number of bytes that were read since the last call

    def path_of(self, path: AnyPath) -> str:
        """Return the path of a local file relative to the metadata.

        Raises:
            UnsupportedError: It does not lie in that folder or below.
        """
        own = Path(str(path)).resolve()
        if not own.is_relative_to(self.folder):
            raise UnsupportedError(
                f"{path} is not below {self.folder}, to which paths in the metadata are relative: write the metadata "
                f"into a folder that has the data, such as {own.parent.parent}"
            )
        return own.relative_to(self.folder).as_posix()

    def url_of(self, path: AnyPath) -> str:
        """Return the URL of a file, or its path relative to the metadata."""
        if is_object(path):
            return str(path)
        own = self.path_of(path)
        return own if self.base_url is None else f"{self.base_url.rstrip('/')}/{quote(own)}"


def identifier(*parts: str) -> str:
    """Return an `@id`: parts with slashes between them, without characters that an IRI cannot have."""
    return "/".join(quote(part, safe="/._-") for part in parts if part)


def file_objects(split: Split, publisher: Publisher) -> list[dict[str, Any]]:
    """Return an object for each file of a dataset; shards of very many files are sets of files instead.

    Raises:
        ExtentError: A file has shrunk.
        OSError: A file cannot be read.
    """
    container = split.dataset.info.container
    wanted = [
        (shard, number)
        for shard in split.dataset.shards
        if container != "folder" and len(shard.shard.files) <= _MANY
        for number in range(len(shard.shard.files))
    ]
    digests = parallel_map(
        partial(_sha256, tick=publisher.tick),
        (shard.shard.path(number) for shard, number in wanted),
        workers=max(1, min(cpu_count(), len(wanted))),
        name="bushel-card",
    )
    return [
        _file_object(shard.shard.path(number), shard.index.files[number].size, digest, container, publisher)
        for (shard, number), digest in zip(wanted, digests, strict=True)
    ]


def _sha256(path: AnyPath, tick: Callable[[int], None] | None = None) -> str:
    """Return the SHA-256 of a local or remote file in hexadecimal digits."""
    file, digest = open_file(path), sha256()
    for first in range(0, file.size, _CHUNK):
        size = min(_CHUNK, file.size - first)
        digest.update(file.read(first, size))
        if tick is not None:
            tick(size)
    return digest.hexdigest()


def _file_object(path: AnyPath, size: int, digest: str, container: str, publisher: Publisher) -> dict[str, Any]:
    url = publisher.url_of(path)
    return {
        "@type": "cr:FileObject",
        "@id": identifier(url if is_object(path) else publisher.path_of(path)),
        "name": str(path).rsplit("/", 1)[-1],
        "contentUrl": url,
        "contentSize": f"{size} B",
        "encodingFormat": FORMATS.get(container, _OTHER),
        "sha256": digest,
    }


def table_object(path: Path, publisher: Publisher) -> dict[str, Any]:
    """Return the object of an exported index."""
    found = _file_object(path, path.stat().st_size, _sha256(path), "parquet", publisher)
    return found | {"description": "The index: a row per sample, with its key, columns, and where its values are."}
