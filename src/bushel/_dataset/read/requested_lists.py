"""Lists of removed samples that are requested from a store while tables are loaded, and whether they can be used."""

from __future__ import annotations

from collections.abc import Sequence

from bushel._dataset.open.remote_discovery import ListedFiles
from bushel._dataset.read.shards import OpenShard
from bushel._index.table import Shard
from bushel._runtime.threads import Result, Threads
from bushel.containers.removed import Lists, lists_of


class RequestedLists:
    """The lists of removed samples of shards, which a thread requests from now on.

    They are as they were after the files were listed. So a table that describes the listed files is not newer than the
    lists: samples are added to a list before they are erased from a file. `listed` are their files as the store has
    listed them.
    """

    def __init__(self, shards: Sequence[Shard], listed: ListedFiles) -> None:
        self._shards, self._listed = shards, listed
        self._result = Result[Lists]()
        self._threads = Threads(1, "bushel-removed")
        self._threads.submit(self._load)

    def _load(self) -> None:
        try:
            self._result.set(lists_of(self._shards))
        except BaseException as error:  # raised where the lists are taken
            self._result.fail(error)
        finally:
            self._threads.close(wait=False)  # this thread ends with its only work, also if nobody takes the lists

    def of(self, shards: Sequence[OpenShard]) -> Lists | None:
        """Return the lists; None if a table describes another file than the listed one, so they may be too old.

        Raises:
            FormatError: A list is damaged.
            OSError: The store refuses, or cannot be reached.
        """
        if not all(self._listed.have(each.shard.files, each.stamps) for each in shards):
            return None
        return self._result.get()
