"""The open shard of a writer: start, finish and drop it."""

from __future__ import annotations

from bushel._writer.dataset_plan import DatasetPlan
from bushel._writer.shard_writer import ShardInProgress
from bushel._writer.written_shards import WrittenShards
from bushel.errors import noted_in


class CurrentShard:
    """The unfinished shard of a writer, if it has one. The caller holds the lock of the writer.

    Attributes:
        shard: The shard, or None.
    """

    def __init__(self, plan: DatasetPlan, written: WrittenShards) -> None:
        self._plan, self._written = plan, written
        self.shard: ShardInProgress | None = None

    @property
    def samples(self) -> int:
        """Number of samples in it."""
        return 0 if self.shard is None else self.shard.samples

    @property
    def is_full(self) -> bool:
        """Whether the next sample belongs into another shard."""
        return self.shard is not None and self._plan.limits.reached_by(self.shard)

    def start(self, samples: int) -> ShardInProgress:
        """Start a shard, or continue the last one if the dataset cannot have another one."""
        written = self._written
        layout = self._plan.next_layout(written.shards, samples)
        if written.grows_in_place:
            last = written.shards[-1]
            plan = self._plan.of_shard(last.shard, layout)
            self.shard = ShardInProgress.reopen(last, plan, sync=written.sync)
        else:
            plan = self._plan.of_shard(written.next_shard(layout), layout)
            self.shard = ShardInProgress.create(
                plan, sync=written.sync, replace=written.replaces_objects
            )
        self._plan.folders = self._plan.folders and ()  # only one shard gets them
        return self.shard

    def finish(self, *, last: bool = False) -> None:
        """Finish and publish the shard, if there is one. With `last`, no other one follows."""
        shard, self.shard = self.shard, None
        if shard is None:
            return
        try:
            self._written.publish(shard.finish(), last=last)
        except BaseException as error:
            with noted_in(error):
                shard.discard()
            raise

    def discard(self) -> None:
        """Stop writing, and remove the staged files."""
        shard, self.shard = self.shard, None
        if shard is not None:
            shard.discard()
