"""The open shard of a writer: start, save, finish and leave it."""

from __future__ import annotations

import time
from collections.abc import Callable

from bushel._writer.dataset_plan import DatasetPlan
from bushel._writer.shard_writer import ShardInProgress
from bushel._writer.written_shards import WrittenShards
from bushel.containers.base import Layout


class CurrentShard:
    """The unfinished shard of a writer, if it has one. The caller holds the lock of the writer.

    `before_checkpoint` is called before samples are recorded for `resume`.

    Attributes:
        shard: The shard, or None.
        appended: Whether samples have been appended since the writer was made.
        last_may_grow: Whether the next samples go into the last finished shard if it is not full.
        checkpointed: The time when samples were recorded last.
    """

    def __init__(self, plan: DatasetPlan, written: WrittenShards, before_checkpoint: Callable[[], None] | None) -> None:
        self._plan, self._written, self._before_checkpoint = plan, written, before_checkpoint
        self.shard: ShardInProgress | None = None
        self.appended = self._continued = self.last_may_grow = False
        self.checkpointed = time.monotonic()

    @property
    def is_full(self) -> bool:
        """Whether the next sample belongs into another shard."""
        return self.shard is not None and self._plan.limits.reached_by(self.shard)

    def open(self) -> int:
        """Continue what earlier writers left, and return the number of samples there.

        Raises:
            BushelError, OSError, ValueError: As `WrittenShards.open` and `DatasetPlan.adopt`.
        """
        written = self._written
        self.shard = written.open()
        self._continued = self.shard is not None
        self._plan.adopt(written.target.path, written.shards, self.shard, written.usual)
        samples = sum(shard.samples for shard in written.shards) + (self.shard.samples if self.shard else 0)
        written.expect(samples)
        return samples

    def start(self, samples: int) -> ShardInProgress:
        """Start a shard, or continue the last one if the dataset cannot have another one."""
        written = self._written
        layout = self._plan.next_layout(written.shards, samples)
        if written.grows_in_place:
            self.shard = self._reopen_last(layout)
        elif (grown := self._grown(layout)) is not None:
            self.shard = grown
        else:
            plan = self._plan.of_shard(written.next_shard(layout), layout)
            self.shard = ShardInProgress.create(plan, sync=written.sync, replace=written.replaces_objects)
        self._plan.folders = self._plan.folders and ()  # only one shard gets them
        return self.shard

    def _reopen_last(self, layout: Layout) -> ShardInProgress:
        last = self._written.shards[-1]
        reopened = ShardInProgress.reopen(last, self._plan.of_shard(last.shard, layout), sync=self._written.sync)
        self._written.shards.pop()
        return reopened

    def _grown(self, layout: Layout) -> ShardInProgress | None:
        """Reopen the last shard if it was finished before it was full, as after too many errors."""
        may_grow, self.last_may_grow = self.last_may_grow, False
        limits, shards = self._plan.limits, self._written.shards
        if not may_grow or (limits.samples is not None and shards[-1].samples >= limits.samples):
            return None
        last = shards[-1]
        reopened = self._reopen_last(layout)
        if not limits.reached_by(reopened):
            return reopened
        reopened.discard()
        shards.append(last)
        return None

    def checkpoint(self) -> None:
        """Save the samples added so far, so that they survive a kill of this process."""
        if self.shard is not None:
            self._prepare_checkpoint()
            self.shard.checkpoint()
            self.checkpointed = time.monotonic()

    def finish(self, *, last: bool = False) -> None:
        """Complete and publish the shard. With `last`, no other one follows."""
        shard, self.shard = self.shard, None
        if shard is not None:
            self._prepare_checkpoint()
            self._written.publish(shard.finish(), last=last)

    def leave(self) -> None:
        """Stop writing. Staged files stay, unless they contain nothing to resume."""
        shard, self.shard = self.shard, None
        if shard is None:
            return
        if not self.appended and not self._continued:
            shard.discard()
            return
        self._prepare_checkpoint()
        shard.suspend()

    def discard(self) -> None:
        """Stop writing, and remove the staged files."""
        shard, self.shard = self.shard, None
        if shard is not None:
            shard.discard()

    def _prepare_checkpoint(self) -> None:
        if self._before_checkpoint is not None and self._written.sync:
            self._before_checkpoint()
