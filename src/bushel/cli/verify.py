"""`bushel verify`."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct, structs

from .command import Option
from .options import (
    DatasetOptions,
    IndexPlace,
    MaxProblems,
    OutputOptions,
    Path,
    Pickle,
    ShardRunOptions,
)

if TYPE_CHECKING:
    from bushel.integrity import VerifyResult


class CheckOptions(Struct, frozen=True):
    """Options for the checks of values."""

    checksums: Annotated[
        bool,
        Option(
            "Read all bytes and compare them with their checksums.", "--checksums/--no-checksums"
        ),
    ] = True
    decode: Annotated[bool, Option("Also decode every value.")] = False
    index: IndexPlace = None


def command(
    path: Path,
    *,
    chosen: DatasetOptions,
    checks: CheckOptions,
    max_problems: MaxProblems = 1000,
    running: ShardRunOptions,
    pickle: Pickle = False,
    shown: OutputOptions,
) -> None:
    """Check a dataset: structure, index, checksums, keys.

    The dataset is not changed.

    Each problem is printed on one line. The last line contains "ok" only if all bytes were compared
    with a checksum. The exit code is 1 if there are problems; warnings (stale, unfinished,
    declared, unchecked) do not count.

    Examples:
      bushel verify train/
      bushel verify train/ --decode
    """
    import bushel

    from .messages import with_options
    from .output import print_json, print_text

    result = bushel.verify(
        chosen.files(path),
        **{name: value for name, value in structs.asdict(checks).items() if value is not None},
        container=chosen.container,
        **structs.asdict(running),
        pickle=pickle,
        max_problems=max_problems,
        progress=not shown.quiet,
    )
    if shown.as_json:
        more = {
            "ok": result.ok,
            "verdict": result.verdict,
            "bytes_unchecked": result.bytes_unchecked,
        }
        print_json({"path": path, **more, **asdict(result)})
        raise click.exceptions.Exit(0 if result.ok else 1)
    for problem in result.problems:
        print_text(with_options(f"warning: {problem}" if problem.warning else str(problem)))
    if not shown.quiet:
        print_text(f"{path}: {_summary(result)}")
        if checks.checksums and result.ok and result.verdict != "ok":
            print_text(
                f"`bushel index {shlex.quote(path)}` records the checksums of bytes that have none."
            )
    raise click.exceptions.Exit(0 if result.ok else 1)


def _summary(found: VerifyResult) -> str:
    from .output import count, size

    unlisted = f" ({found.more:,} of them not listed)" if found.more else ""
    return (
        f"{found.verdict}{unlisted}; {count(found.shards, 'shard')},"
        f" {count(found.samples, 'sample')}, "
        f"{size(found.bytes_checked)} compared with checksums"
    )
