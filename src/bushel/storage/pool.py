"""Open files, not more at once than the process may have."""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable, Hashable

from bushel.storage.base import File

__all__ = ["FilePool"]


class FilePool:
    """Opens files when they are first needed, and lets go of the oldest when there are too many.

    A file that is let go of here stays usable for whoever holds it. There is no lock, so nothing can be held while
    the process forks: two threads may open the same file twice, and one of the two is kept. Copies made by pickling
    start empty, so a helper process opens its own files.

    Args:
        limit: Files to hold at most; by default half of what the process may open.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit if limit is not None else max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._files: dict[Hashable, File] = {}

    def __reduce__(self) -> tuple[type[FilePool], tuple[int]]:
        return FilePool, (self._limit,)

    def get(self, name: Hashable, opener: Callable[[], File]) -> File:
        """The open file of this name, opened by `opener` if it is not open yet."""
        file = self._files.get(name)
        if file is None:
            self._files[name] = file = self._open(opener)
            if len(self._files) > self._limit:
                for old in list(self._files)[: len(self._files) - self._limit]:
                    self._files.pop(old, None)
        return file

    def _open(self, opener: Callable[[], File]) -> File:
        try:
            return opener()
        except OSError as error:
            if error.errno != errno.EMFILE or not self._files:
                raise
            self.close()  # others hold most of what the process may open
            return opener()

    def close(self) -> None:
        """Let go of all files."""
        self._files.clear()
