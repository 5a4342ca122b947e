"""From an adapter to chunks, in several processes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Protocol

from bushel.compat.gulpio2.chunk import GulpChunk
from bushel.compat.gulpio2.directory import GulpDirectory
from bushel.compat.gulpio2.errors import ArgumentError, GulpWarning

__all__ = ["ChunkWriter", "GulpIngestor", "calculate_chunk_slices"]


class _Adapter(Protocol):
    def __len__(self) -> int: ...
    def iter_data(self, slice_element: slice | None = None, /) -> Iterable[Mapping[str, Any]]: ...


class ChunkWriter:
    """Writes items of an adapter to a chunk."""

    def __init__(self, adapter: _Adapter) -> None:
        self.adapter = adapter

    def write_chunk(self, output_chunk: GulpChunk, input_slice: slice) -> int:
        """Write the items of a slice. Those without frames are named on standard output and left out.

        Returns:
            The number of items written.
        """
        written = 0
        with output_chunk.open("wb"):
            for video in self.adapter.iter_data(input_slice):
                if len(video["frames"]) > 0:
                    output_chunk.append(video["id"], video["meta"], video["frames"])
                    written += 1
                else:
                    print(f"Failed to write video with id: {video['id']}; no frames")
        return written


def calculate_chunk_slices(items_per_chunk: int, num_items: int) -> list[slice]:
    """The slices of an adapter's items that make the chunks; the last may be shorter.

    Raises:
        ArgumentError: There are no items, or none per chunk (a `ValueError` and an `AssertionError`).
    """
    if items_per_chunk <= 0:
        raise ArgumentError(f"a chunk has at least one item, not {items_per_chunk}")
    if num_items <= 0:
        raise ArgumentError("the adapter has no items: nothing was found to gulp")
    return [slice(i, min(i + items_per_chunk, num_items)) for i in range(0, num_items, items_per_chunk)]


class GulpIngestor:
    """Writes all items of an adapter into new chunks of a folder; to be called.

    Args:
        adapter: An `AbstractDatasetAdapter`.
        output_folder: Made when it is not there; chunks that it has are kept.
        videos_per_chunk: Items in a chunk.
        num_workers: Processes, each of which writes a chunk at a time. One: no other process is used.

    Raises:
        ArgumentError: No workers (a `ValueError` and an `AssertionError`).
    """

    def __init__(
        self,
        adapter: _Adapter,
        output_folder: str | os.PathLike[str],
        videos_per_chunk: int | str,
        num_workers: int | str,
    ) -> None:
        if int(num_workers) <= 0:
            raise ArgumentError(f"at least one worker is needed, not {num_workers}")
        self.adapter = adapter
        self.output_folder = output_folder
        self.videos_per_chunk = int(videos_per_chunk)
        self.num_workers = int(num_workers)

    def __call__(self) -> int:
        """Write the chunks. When one fails the others are finished first, and it keeps what was written before.

        A chunk that gets no item is not left there.

        Returns:
            The number of items written.

        Raises:
            ArgumentError: The adapter has no items.
            Exception: What the adapter raised, with a note that says where.
        """
        slices = calculate_chunk_slices(self.videos_per_chunk, len(self.adapter))
        os.makedirs(self.output_folder, exist_ok=True)
        with warnings.catch_warnings(category=GulpWarning, action="ignore"):  # of chunks that are only counted here
            chunks = list(GulpDirectory(self.output_folder).new_chunks(len(slices)))
        workers = min(self.num_workers, len(slices))
        failed: dict[int, BaseException] = {}
        done = self._here(chunks, slices, failed) if workers == 1 else self._there(chunks, slices, failed, workers)
        written = _sum_shown(done, len(slices))
        if failed:
            number = min(failed)
            error, part = failed[number], slices[number]
            error.add_note(
                f"while items {part.start} to {part.stop - 1} were written to {chunks[number].data_file_path}; "
                f"{len(slices) - len(failed)} of {len(slices)} chunks are complete"
            )
            raise error
        return written

    def _here(self, chunks: list[GulpChunk], slices: list[slice], failed: dict[int, BaseException]) -> Iterator[int]:
        for number, (chunk, part) in enumerate(zip(chunks, slices, strict=True)):
            try:
                yield _write(self.adapter, chunk, part)
            except Exception as error:  # raised when the other chunks are written
                failed[number] = error
                yield 0

    def _there(
        self, chunks: list[GulpChunk], slices: list[slice], failed: dict[int, BaseException], workers: int
    ) -> Iterator[int]:
        with ProcessPoolExecutor(workers) as pool:
            jobs = {
                pool.submit(_write, self.adapter, chunk, part): number
                for number, (chunk, part) in enumerate(zip(chunks, slices, strict=True))
            }
            try:
                for job in as_completed(jobs):
                    if (error := job.exception()) is not None:
                        failed[jobs[job]] = error
                    yield 0 if error is not None else job.result()
            except BaseException:  # such as Ctrl-C: chunks that were not begun are not made
                pool.shutdown(cancel_futures=True)
                raise


def _write(adapter: _Adapter, chunk: GulpChunk, part: slice) -> int:
    """Write a chunk, and take it away again if no item came."""
    try:
        return ChunkWriter(adapter).write_chunk(chunk, part)
    finally:
        if not chunk.meta_dict:
            for path in (chunk.data_file_path, chunk.meta_file_path):
                Path(path).unlink(missing_ok=True)


def _sum_shown(done: Iterable[int], total: int) -> int:
    """All items together; on a terminal, finished chunks are counted as they come."""
    if not sys.stderr.isatty():
        return sum(done)
    from rich.console import Console
    from rich.progress import Progress

    # Without a thread of its own: the worker processes are forked while this runs.
    with Progress(console=Console(stderr=True), auto_refresh=False) as progress:
        task = progress.add_task("Chunks finished", total=total)
        items = 0
        for written in done:
            items += written
            progress.update(task, advance=1, refresh=True)
    return items
