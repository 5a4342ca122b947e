"""Lists of removed samples that are requested from a store while tables are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from bushel._dataset.open.remote_discovery import ListedFiles
from bushel._dataset.open.removal_lists import PlacedList, lists_beside
from bushel._dataset.read.shards import OpenShard
from bushel._index.table import Shard
from bushel._runtime.threads import Result, Threads


class RequestedLists:
    """The lists of removed samples of shards, which a thread requests from now on.

    They are as they were after the files were listed: `listed` are the files as the store has listed them. A table that
    describes other files may be newer than the lists.
    """

    def __init__(self, shards: Sequence[Shard], listed: ListedFiles) -> None:
        self._shards, self._listed = shards, listed
        self._result = Result[Sequence[PlacedList]]()
        self._threads = Threads(1, "bushel-removed")
        self._threads.submit(self._load)

    def _load(self) -> None:
        try:
            self._result.set(lists_beside(self._shards))
        except BaseException as error:  # raised where the lists are taken
            self._result.fail(error)
        finally:
            self._threads.close(wait=False)  # this thread ends with its only work, also if nobody takes the lists

    def of(self, shards: Sequence[OpenShard]) -> Sequence[PlacedList] | None:
        """Return the lists; None if a table describes another file than the listed one, so they may be too old.

        Raises:
            FormatError: A list is damaged.
            OSError: The store refuses, or cannot be reached.
        """
        if not all(self._listed.have(each.shard.files, each.stamps) for each in shards):
            return None
        return self._result.get()
