"""Lists of removed samples that are requested from a store while tables are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from bushel._dataset.open.removal_lists import PlacedList, lists_beside
from bushel._index.table import Shard
from bushel._runtime.threads import Result, Threads


class RequestedLists:
    """The lists of removed samples of shards, which a thread requests from now on."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
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

    def get(self) -> Sequence[PlacedList]:
        """Return the lists.

        Raises:
            FormatError: A list is damaged.
            OSError: The store refuses, or cannot be reached.
        """
        return self._result.get()
