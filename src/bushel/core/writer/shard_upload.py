"""Shards on their way to a dataset that is not local, while the next one is written."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait

from bushel.core.dataset.shards import OpenShard
from bushel.core.writer.shard_writer import WholeShard

__all__ = ["Uploads"]


class Uploads:
    """One upload at a time, in a thread of its own.

    Not safe for threads: its writer takes care of that.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._going: tuple[WholeShard, Future[OpenShard]] | None = None

    @property
    def failed(self) -> bool:
        """Whether the upload that was begun has ended with an error, which `settle` raises."""
        return self._going is not None and self._going[1].done() and self._going[1].exception() is not None

    def begin(self, shard: WholeShard) -> None:
        """Begin an upload. The one before must be settled."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "bushel-upload")
        self._going = shard, self._pool.submit(shard.publish)

    def settle(self) -> OpenShard | None:
        """Wait for the upload that was begun; Ctrl-C meanwhile aborts it.

        Returns:
            The shard where it is now, or None if no upload was begun.

        Raises:
            OSError: It failed. The shard is still staged.
        """
        if self._going is None:
            return None
        (shard, future), self._going = self._going, None
        try:
            return future.result()
        except BaseException:
            shard.stop()
            wait([future])
            raise

    def stop(self) -> None:
        """Abort the upload that was begun. The shard is still staged, unless it was there already."""
        if self._going is not None:
            (shard, future), self._going = self._going, None
            shard.stop()
            wait([future])

    def end(self) -> OpenShard | None:
        """As `settle`, and let go of the thread in any case."""
        try:
            return self.settle()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None
