"""Publish finished shards: give their files the final names, or upload them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.read.shards import OpenShard
from bushel._index.saving import save_index
from bushel._index.sidecar import load_index
from bushel._index.table import FOLDER, FileStamp, Shard
from bushel.storage import AnyPath, Staging
from bushel.storage.names import below, try_remove_tree

if TYPE_CHECKING:  # which imports logging: local shards are not uploaded
    from concurrent.futures import Future, ThreadPoolExecutor


class FinishedShard(Struct, frozen=True):
    """A complete shard whose files are still staged."""

    # the final shard, except for the stamps of remote files, which the storage assigns
    staged: OpenShard
    staging: Staging  # the staged files

    def publish(self) -> OpenShard:
        """Rename or upload the files to their final names.

        Raises:
            OSError: That failed. The files are still staged.
        """
        opened, staging = self.staged, self.staging
        sidecar = sidecar_name(opened.shard)
        ordered = _order_to_publish(opened.shard, opened.shard.files)
        if staging.local:
            staging.commit(ordered, index=sidecar)
            return opened
        uploaded = dict(zip(ordered, staging.upload(ordered), strict=True))
        stamps = tuple(
            FileStamp(entry.name, *uploaded[entry.name], entry.crc32)
            for entry in opened.index.files
        )
        index = replace(opened.index, files=stamps)
        save_index(index, staging.path_of(sidecar), sync=False)
        staging.upload([sidecar], replace=True)
        staging.discard()
        return OpenShard.of(opened.container, opened.shard, index, stored=True)

    def stop(self) -> None:
        """Abort an upload by `publish` in another thread."""
        self.staging.stop.set()


class Uploads:
    """Uploads finished shards in another thread, one at a time, while the next shard is written.

    The caller holds the lock of the writer.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._going: tuple[FinishedShard, Future[OpenShard]] | None = None

    @property
    def failed(self) -> bool:
        """Whether the current upload has failed. `settle` raises its error."""
        return (
            self._going is not None
            and self._going[1].done()
            and self._going[1].exception() is not None
        )

    def begin(self, shard: FinishedShard) -> None:
        """Start an upload. The previous one must be settled."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(1, "bushel-upload")
        self._going = shard, self._pool.submit(shard.publish)

    def settle(self) -> OpenShard | None:
        """Wait for the current upload. Ctrl-C aborts it.

        Returns:
            The uploaded shard, or None if nothing is uploaded.

        Raises:
            OSError: The upload failed. The shard is still staged.
        """
        if self._going is None:
            return None
        (shard, future), self._going = self._going, None
        try:
            return future.result()
        except BaseException:
            shard.stop()
            _wait(future)
            raise

    def stop(self) -> None:
        """Abort the current upload. The shard stays staged unless it was uploaded completely."""
        if self._going is not None:
            (shard, future), self._going = self._going, None
            shard.stop()
            _wait(future)

    def end(self) -> OpenShard | None:
        """Wait for the current upload as `settle` does, and end the thread in any case."""
        try:
            return self.settle()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


def _wait(future: Future[OpenShard]) -> None:
    """Wait until an upload has ended, however it ends."""
    from concurrent.futures import wait

    wait([future])


def upload_again(root: AnyPath, folder: Path) -> None:
    """Upload a shard that a killed writer has staged on this machine, or remove it if it is not complete.

    Its index is written last.
    """
    sidecar = next(folder.glob(f"**/{FOLDER}/*.safetensors"), None)
    if sidecar is None:
        try_remove_tree(folder)
        return
    index, name = load_index(sidecar), folder.name.replace("%2F", "/")
    sidecars = sidecar.parent.relative_to(folder).as_posix()
    shard = Shard(
        root,
        "" if name == "dataset" else name,
        tuple(stamp.name for stamp in index.files),
        sidecars,
    )
    FinishedShard(
        OpenShard.of(index.container, shard, index, stored=True), Staging(root, name)
    ).publish()


def sidecar_name(shard: Shard) -> str:
    """Return the path of a shard's index below the root of the shard."""
    return f"{shard.sidecars}/{shard.sidecar.name}"


def _order_to_publish(shard: Shard, names: Sequence[str]) -> list[str]:
    """Return the files of a complete shard in the order in which they get their final names.

    A shard with the name of one of its files is found by it, so a new one gets that file last: a
    recordio would be read without its keys if it had its `.rec` before its `.idx`. Where samples
    were appended, that file comes first: the old table of keys fits a longer file.
    """
    if (
        shard.name not in names
        or len(names) == 1
        or below(shard.root, shard.name, any_text=True).exists()
    ):
        return list(names)
    return sorted(names, key=lambda name: name == shard.name)
