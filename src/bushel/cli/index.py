"""`bushel index`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict

from .command import Option
from .options import DatasetOptions, OutputOptions, Path, Pickle, ShardRunOptions, pairs

if TYPE_CHECKING:
    from bushel.datasets import Info


class ContentOptions(Struct, frozen=True):
    """Options for the contents of the index."""

    checksums: Annotated[
        bool,
        Option(
            "Record the CRC-32 of every field, which reads all data.", "--checksums/--no-checksums"
        ),
    ] = True
    segments: Annotated[
        bool,
        Option("Record the segments of tiled JPEGs, so that crops read only their bytes."),
    ] = False
    frames: Annotated[
        bool,
        Option(
            "Record the places of the packets of video clips, so that single frames can be read."
        ),
    ] = False
    seek: Annotated[
        bool,
        Option("Record decoder states of plain JPEGs, so that crops decode faster."),
    ] = False
    columns: Annotated[
        str | None,
        Option("Record columns, such as label,image.width; auto for those that writers record."),
    ] = None
    keys: Annotated[
        bool,
        Option(
            "Write a key file, which finds keys of very many samples without a table in memory."
        ),
    ] = False

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `bushel.index`."""
        return {**asdict(self), "columns": self.columns or ()}


class PlaceOptions(Struct, frozen=True):
    """Options for the place of the index, and for an index that exists there."""

    index: Annotated[
        str | None,
        Option("Folder or URL for the index, if the data are read-only: bushel.open(…, index=…)."),
    ] = None
    force: Annotated[bool, Option("Index all shards again, and accept data that changed.")] = False


def command(
    path: Path,
    *,
    chosen: DatasetOptions,
    spec: Annotated[
        list[str] | None,
        Option("FIELD=TYPE: A type that the files do not contain; may be repeated."),
    ] = None,
    contents: ContentOptions,
    place: PlaceOptions,
    running: ShardRunOptions,
    pickle: Pickle = False,
    shown: OutputOptions,
) -> None:
    """Index a dataset, and store the index in `.bushel` beside it.

    With checksums, `bushel verify` finds any later damage. Data that differ from the recorded
    checksums are refused; --force accepts them.

    Example:
      bushel index train/
      bushel index --seek train/
      bushel index --columns label,image.width train/
    """
    import time

    import bushel
    from bushel._runtime.progress import progress_bar

    started, read = time.monotonic(), 0
    with nullcontext() if shown.quiet else progress_bar("indexing") as show:

        def progress(now: bushel.runs.Progress) -> None:
            nonlocal read
            read = now.bytes
            if show is not None:
                show(now)

        dataset = bushel.index(
            chosen.files(path),
            container=chosen.container,
            spec=pairs(spec, "--spec") or None,
            pickle=pickle,
            **contents.arguments(),
            index=place.index,
            force=place.force,
            **asdict(running),
            progress=progress,
        )
    info, seconds = dataset.info, time.monotonic() - started
    facts = {
        "path": path,
        "container": info.container,
        "shards": info.shards,
        "samples": info.samples,
        "bytes": info.bytes,
        "bytes_read": read,
        "checksums": info.checksums,
        "columns": list(dataset.columns),
        "seconds": seconds,
    }
    shown.show(facts, *_lines(path, info, read, seconds))


def _lines(path: str, info: Info, read: int, seconds: float) -> Iterator[str]:
    from .output import count, size

    what = "with" if info.checksums else "without"
    yield (
        f"{path}: {count(info.shards, 'shard')} of {info.container},"
        f" {count(info.samples, 'sample')}, "
        f"{size(info.bytes)} indexed {what} checksums in {seconds:.1f} s"
    )
    if read < info.bytes:
        compare = ""
        if info.checksums:
            compare = " `bushel verify` compares them with their checksums."
        yield (
            f"The index of {size(info.bytes - read)} was there and fits: these data were"
            f" not read.{compare}"
        )
