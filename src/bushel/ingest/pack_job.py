"""Pack one part of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bushel.core.index.class_names import Labels
from bushel.core.order import Order
from bushel.core.parallel import cpu_count
from bushel.core.writer.pack_writer import PackWriter
from bushel.ingest.columns import column_reader
from bushel.ingest.commit import OnPart, Written
from bushel.ingest.part import ErrorLimit, OrderRange, Part, WorkerConfig, write_part
from bushel.ingest.processes import WorkerPool
from bushel.ingest.run_folder import RunFolder
from bushel.ingest.sample_encoder import BadItem, EncodedSample, Item, SampleEncoder
from bushel.ingest.side_files import ErrorList
from bushel.storage import AnyPath

__all__ = ["PackJob"]


@dataclass(frozen=True, slots=True)
class PackJob:
    """What every part of a packing run has in common.

    Attributes:
        run: The files of the run.
        encoder: Encodes samples. It has the source.
        order: Order of all samples of the source.
        starts: Index of the first item of each part in the order, followed by the number of items.
        spec: Field to type of the target.
        container: Name of the container.
        options: Further arguments of the writer.
        folders: Paths of empty folders, which the first part gets; None if samples are not files of a folder.
        labels: Names of classes.
        workers: Number of threads; None for the number of CPUs.
        processes: Number of worker processes that replace the threads.
        batch_bytes: Bytes of samples that are encoded as one batch.
        encode: Encodes a batch in running worker processes; None to start what is needed for each part.
    """

    run: RunFolder
    encoder: SampleEncoder
    order: Order
    starts: tuple[int, ...]
    spec: Mapping[str, str]
    container: str
    options: Mapping[str, Any]
    folders: tuple[str, ...] | None
    labels: Labels
    workers: int | None
    processes: int
    batch_bytes: int
    encode: Callable[[Sequence[Item]], list[EncodedSample | BadItem]] | None = None

    def write(
        self,
        number: int,
        target: AnyPath,
        limit: ErrorLimit,
        log: ErrorList,
        progress: OnPart | None,
        taken: frozenset[str],
    ) -> Written:
        """Pack a part: see `PartWriter`."""
        items = OrderRange(self.order, self.starts[number], self.starts[number + 1])
        root, name = (target.parent, target.name) if self.run.single else (target, "")
        part = Part(self.run.part(number), root, name, log.path, items, {"part": number})
        with ExitStack() as stack:
            encode = self.encode
            if encode is None:
                encode = (
                    stack.enter_context(WorkerPool(self.encoder, self.processes)) if self.processes else self.encoder
                )
            config = WorkerConfig(
                encode=encode,
                origin=self.encoder.origin,
                workers=self.processes or self.workers or cpu_count(),
                batch_bytes=self.batch_bytes,
                progress=progress or _ignore,
                columns=None if taken else column_reader(self.encoder),
                taken=taken,
            )
            writer = stack.enter_context(
                PackWriter(
                    target,
                    dict(self.spec),
                    container=self.container,
                    expected=len(items),
                    folders=None if self.folders is None else (self.folders if number == 0 else ()),
                    labels=self.labels,
                    **self.options,
                )
            )
            result = write_part(part, writer, log, "create", limit, config)
        return Written(result.bytes, result.limits)


def _ignore(done: int, samples: int, errors: int, size: int) -> None:
    """Do nothing with the progress of a part in a worker process: the driver counts parts."""
