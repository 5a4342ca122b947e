"""Paths on the Hugging Face Hub: `hf://datasets/ORG/NAME@REVISION/path`.

The revision is replaced by its commit when the path is made, so everything that is opened from it
stays the same version, in every process that gets a copy. Files are read by HTTP ranges, as in any
object store.
"""

from __future__ import annotations

import errno
import re
import threading
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

from bushel.errors import UnsupportedError

from .hub_api import commit_of, known_listing, listing_of
from .location import ObjectPath
from .remotefile import ObjectStat, stamp_of_tag

if TYPE_CHECKING:
    from obstore import ObjectMeta

_URL = re.compile(
    r"hf://datasets/(?P<repo>[^/@]+/[^/@]+)(@(?P<revision>refs/(convert|pr)/[^/]+|[^/]+))?(/(?P<key>.*))?"
)
_COMMIT = re.compile("[0-9a-f]{40}")


class HubPath(ObjectPath):
    """The path of a file or folder of a dataset on the Hub, in one commit.

    Attributes:
        root: `hf://datasets/ORG/NAME@COMMIT`.
        key: The path in the repository.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, url: str) -> HubPath:
        """Return the path of a URL. A branch or tag (`main` by default) takes one request per process.

        In the name of a revision, `%2F` is a slash.

        Raises:
            UnsupportedError: The URL does not name a dataset.
            FileNotFoundError: The dataset or the revision does not exist.
            OSError: The Hub refuses, or cannot be reached.
        """
        match = _URL.fullmatch(url)
        if match is None:
            raise UnsupportedError(
                f"{url}: expected hf://datasets/ORG/NAME/path or"
                " hf://datasets/ORG/NAME@REVISION/path"
            )
        revision = unquote(match["revision"] or "main")
        if _COMMIT.fullmatch(revision):
            commit = revision
        else:
            commit = commit_of(match["repo"], revision)
        key = "/".join(part for part in (match["key"] or "").split("/") if part)
        return cls(f"hf://datasets/{match['repo']}@{commit}", key)

    @staticmethod
    def names_repository(url: str) -> bool:
        """Return whether a URL names a whole dataset, and no file or folder of it."""
        match = _URL.fullmatch(url)
        return match is not None and not (match["key"] or "").strip("/")

    @property
    def immutable(self) -> bool:
        """Whether the file can never be replaced: always, in a commit."""
        return True

    def stat(self) -> ObjectStat:
        """Return size and stamp of the file, from the listing.

        Raises:
            FileNotFoundError: The commit has no such file.
            OSError: The Hub refuses, or cannot be reached.
        """
        entry = listing_of(self.root, self.key).files.get(self.key)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "the commit has no such file", str(self))
        return ObjectStat(entry.size, stamp_of_tag(entry.digest), 0, entry.digest)

    def is_dir(self) -> bool:
        """Return whether there are files below it."""
        return bool(self._below())

    def listing(self) -> tuple[list[Self], dict[str, ObjectMeta]]:
        """Return the files and folders in this folder, from the listing of the commit, by which `stat` answers, too."""
        return [
            self / name for name in dict.fromkeys(name.partition("/")[0] for name in self._below())
        ], {}

    def known_names(self) -> list[str]:
        """Return the names of all files below it, relative to it, in order."""
        return self._below()

    def _read_once(self, give_up: threading.Event | None = None) -> bytes:
        if known_listing(self.root, self.key) is not None:
            self.stat()  # a file that the listing lacks is not requested
        return super()._read_once(give_up)

    def _below(self) -> list[str]:
        prefix = f"{self.key}/" if self.key else ""
        try:
            files = listing_of(self.root, self.key).files
        except FileNotFoundError:
            return []
        return [path.removeprefix(prefix) for path in files if path.startswith(prefix)]
