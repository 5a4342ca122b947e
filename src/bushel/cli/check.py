"""Checking a dataset: `bushel verify`, `bushel index` and `bushel repair`; and comparing two: `bushel diff`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct, structs

import bushel

from .command import Argument, Option
from .options import (
    DatasetOptions,
    IndexPlace,
    Kind,
    MaxProblems,
    OnePath,
    OutputOptions,
    Parts,
    Path,
    Pickle,
    Resume,
    ShardRunOptions,
    SizeOptions,
    Target,
    Workers,
    pairs,
)
from .output import count, print_json, print_text, resumable, size, with_options

if TYPE_CHECKING:
    from bushel import Dataset
    from bushel.integrity.diff_datasets import Diff


class CheckOptions(Struct, frozen=True):
    """Options for the checks of values.

    Attributes:
        checksums: Read all bytes and compare them with their checksums.
        decode: Also decode every value.
    """

    checksums: bool = True
    decode: bool = False
    index: IndexPlace = "auto"


def verify(
    path: Path,
    *,
    chosen: DatasetOptions,
    checks: CheckOptions,
    max_problems: MaxProblems = 1000,
    running: ShardRunOptions,
    pickle: Pickle = False,
    shown: OutputOptions,
) -> bool:
    """Check a dataset: structure, index, checksums, keys.

    The dataset is not changed.

    Each problem is printed on one line. The last line contains "ok" only if all bytes were compared
    with a checksum. The exit code is 1 if there are problems; warnings (stale, unfinished,
    unchecked) do not count.

    Examples:
      bushel verify train/
      bushel verify train/ --decode
    """
    names_some = chosen.config or chosen.split not in (None, "all") or chosen.revision
    result = bushel.verify(
        # it goes through splits itself: their samples may have the same keys
        chosen.files(path) if names_some else path,
        **structs.asdict(checks),
        container=chosen.container,
        **structs.asdict(running),
        pickle=pickle,
        max_problems=max_problems,
        progress=not shown.quiet,
    )
    unlisted = f" ({result.more:,} of them not listed)" if result.more else ""
    lines = [
        f"{path}: {result.verdict}{unlisted}; "
        f"{count(result.shards, 'shard')}, {count(result.samples, 'sample')}, "
        f"{size(result.bytes_checked)} compared with checksums"
    ]
    if checks.checksums and result.ok and result.verdict != "ok":
        lines.append(
            f"`bushel index {shlex.quote(path)}` records the checksums of bytes that have none."
        )
    facts = {"path": path, "verdict": result.verdict, "bytes_unchecked": result.bytes_unchecked}
    return _show(shown, facts, result, *lines)


def _show(shown: OutputOptions, facts: dict[str, Any], result: Any, *lines: str) -> bool:
    """Print a result; its problems even if nothing else is printed. Return whether it is ok."""
    if not shown.as_json:
        for problem in result.problems:
            print_text(with_options(f"{'warning: ' * problem.warning}{problem}"))
    shown.show({**facts, "ok": result.ok, **asdict(result)}, *lines)
    return bool(result.ok)


class ContentOptions(Struct, frozen=True):
    """Options for the contents of the index.

    Attributes:
        checksums: Record the CRC-32 of every field, which reads all data.
        segments: Record the segments of tiled JPEGs, so that crops read only their bytes.
        frames: Record the places of the packets of video clips, so that single frames can be read.
        seek: Record decoder states of plain JPEGs, so that crops decode faster.
        columns: Record columns, such as label,image.width; auto for those that writers record.
        keys: Write a key file, which finds keys of very many samples without a table in memory.
    """

    checksums: bool = True
    segments: bool = False
    frames: bool = False
    seek: bool = False
    columns: str | None = None
    keys: bool = False

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `bushel.index`."""
        return {**structs.asdict(self), "columns": self.columns or ()}


class PlaceOptions(Struct, frozen=True):
    """Options for the place of the index, and for an index that exists there.

    Attributes:
        index: Folder or URL for the index, if the data are read-only: bushel.open(…, index=…).
        force: Index all shards again, and accept data that changed.
    """

    index: str | None = None
    force: bool = False


def index(
    path: Path,
    *,
    chosen: DatasetOptions,
    spec: list[str] | None = None,
    contents: ContentOptions,
    place: PlaceOptions,
    running: ShardRunOptions,
    pickle: Pickle = False,
    shown: OutputOptions,
) -> None:
    """Index a dataset, and store the index in `.bushel` beside it.

    With checksums, `bushel verify` finds any later damage. Data that differ from the recorded
    checksums are refused; --force accepts them.

    Options:
        spec: FIELD=TYPE: A type that the files do not contain; may be repeated.

    Examples:
      bushel index train/
      bushel index --seek train/
      bushel index --columns label,image.width train/
    """
    import time

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
            **structs.asdict(running),
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
    what = "with" if info.checksums else "without"
    lines = [
        f"{path}: {count(info.shards, 'shard')} of {info.container}, "
        f"{count(info.samples, 'sample')}, {size(info.bytes)} "
        f"indexed {what} checksums in {seconds:.1f} s"
    ]
    if read < info.bytes:
        lines.append(
            f"The index of {size(info.bytes - read)} was there and fits: these data were not read."
        )
        if info.checksums:
            lines[-1] += " `bushel verify` compares them with their checksums."
    shown.show(facts, *lines)


class FormOptions(Struct, frozen=True):
    """The containers, and which samples count as intact.

    Attributes:
        to: Container of the new dataset. [default: the damaged one's]
        decode: Also leave out samples that do not decode.
    """

    container: Kind = None
    to: str | None = None
    decode: bool = False
    index: IndexPlace = "auto"


class RunOptions(Struct, frozen=True):
    """How the work is divided, and where it runs.

    Attributes:
        engine: Where shards are read and parts are written: local, ray, dask, an address.
    """

    threads: Workers = None
    parts: Parts = None
    engine: str | None = None


def repair(
    path: OnePath,
    target: Target,
    *,
    form: FormOptions,
    sizes: SizeOptions,
    resume: Resume = False,
    max_problems: MaxProblems = 1000,
    running: RunOptions,
    shown: OutputOptions,
) -> bool:
    """Write the intact samples of a damaged dataset to a new one.

    The damaged dataset is not changed.

    Each problem is printed on one line. The exit code is 1 if there are problems; the new dataset
    is intact.

    Examples:
      bushel repair train/ fixed/
      bushel repair broken.tar fixed.tar --decode
      bushel repair s3://bucket/train/ s3://bucket/fixed/ --engine ray
    """
    with resumable(target):
        result = bushel.repair(
            path,
            target,
            **structs.asdict(form),
            **structs.asdict(sizes),
            mode="resume" if resume else "create",
            max_problems=max_problems,
            **structs.asdict(running),
            progress=not shown.quiet,
        )
    more = f" ({result.more:,} more problems are not listed)" if result.more else ""
    lost = "lost" if result.checked else "known to be lost"
    lines = [
        f"{target}: {count(result.samples, 'sample')} written "
        f"as {result.container}, {result.lost:,} {lost}{more}"
    ]
    if not result.checked:
        lines.append(
            "Some values have no checksum and may be damaged: --decode checks that they decode."
        )
    return _show(shown, {"path": path, "target": target}, result, *lines)


_LISTED = 5


def diff(
    left: Annotated[str, Argument("The dataset before.")],
    right: Annotated[str, Argument("The dataset after; its container may be another.")],
    *,
    values: bool = False,
    all_keys: Annotated[
        bool, Option("List all keys instead of the first five of each kind.", "--all")
    ] = False,
    shown: OutputOptions,
) -> bool:
    """Compare two datasets: samples that only one has, and fields that changed.

    Samples are matched by key, and values are compared by their lengths and checksums in the
    indexes: no data are read without --values. The exit code is 0 if the datasets are the same, and
    1 if anything differs or cannot be compared.

    Options:
        values: Decode values whose bytes differ or cannot be compared by the indexes.

    Examples:
      bushel diff before/ after/
      bushel diff train.tar train-bag/ --values
      bushel diff before/ after/ --all --json
    """
    with bushel.open(left) as before, bushel.open(right) as after:
        differences = bushel.diff(before, after, values=values, progress=not shown.quiet)
        rows = list(_rows(differences, before, after, None if all_keys else _LISTED))
    if shown.as_json:
        print_json(
            {
                "left": left,
                "right": right,
                "same": differences.same,
                "summary": differences.summary,
                "samples": differences.samples,
                "matched_by": differences.by,
                "matched": len(differences.pairs[0]),
                "removed_fields": differences.removed_fields,
                "added_fields": differences.added_fields,
                "differences": [
                    {"what": what, "samples": number, "keys": keys} for what, number, keys in rows
                ],
            }
        )
        return differences.same
    for what, number, keys in rows:
        more = ", …" if number > len(keys) else ""
        print_text(f"{what}: {count(number, 'sample')}: {', '.join(keys)}{more}")
    for side, fields in (("left", differences.removed_fields), ("right", differences.added_fields)):
        if fields:
            listed = ", ".join(f"{name} ({kind})" for name, kind in fields.items())
            print_text(f"fields only on the {side}: {listed}")
    for name, names in differences.labels.items():
        for number, pair in enumerate(zip_longest(*names, fillvalue="")):
            if pair[0] != pair[1]:
                print_text(
                    f"{name}: class {number} is {pair[0]!r} on "
                    f"the left, and {pair[1]!r} on the right"
                )
                break
    if not shown.quiet:
        print_text(
            f"{left} has {count(differences.samples[0], 'sample')}, {right} "
            f"{differences.samples[1]:,}; {len(differences.pairs[0]):,} "
            f"matched by {differences.by}: {differences.summary}"
        )
        if not values and any(len(field.unknown) for field in differences.fields.values()):
            print_text(
                "--values reads what the indexes cannot compare; `bushel index` records checksums."
            )
    return differences.same


def _rows(
    found: Diff, one: Dataset, other: Dataset, most: int | None
) -> Iterator[tuple[str, int, list[str]]]:
    """Yield each kind of difference that there is, the number of its samples, and up to `most` of their keys."""
    kinds: list[tuple[str, Any, Dataset]] = [
        ("removed", found.removed, one),
        ("added", found.added, other),
    ]
    for name, field in found.fields.items():
        kinds += [
            (f"{name}: changed", field.changed, one),
            (f"{name}: other bytes, same value", field.same_value, one),
            (f"{name}: not known", field.unknown, one),
        ]
    for what, positions, dataset in kinds:
        if len(positions):
            yield what, len(positions), list(dataset[positions[:most]].keys)
