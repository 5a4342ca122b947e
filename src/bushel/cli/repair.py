"""`bushel repair`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct, structs

from .command import Option
from .options import (
    IndexPlace,
    Kind,
    MaxProblems,
    OnePath,
    OutputOptions,
    Parts,
    Resume,
    SizeOptions,
    Target,
    Workers,
    engines,
    new_containers,
)

if TYPE_CHECKING:
    from bushel.integrity import RepairResult


class FormOptions(Struct, frozen=True):
    """The containers, and which samples count as intact."""

    container: Kind = None
    to: Annotated[
        str | None,
        Option("Container of the new dataset. [default: the damaged one's]", values=new_containers),
    ] = None
    decode: Annotated[bool, Option("Also leave out samples that do not decode.")] = False
    index: IndexPlace = None


class RunOptions(Struct, frozen=True):
    """How the work is divided, and where it runs."""

    threads: Workers = None
    parts: Parts = None
    engine: Annotated[
        str | None,
        Option(
            "Where shards are read and parts are written: local, ray, dask, an address.",
            values=engines(),
        ),
    ] = None


def command(
    path: OnePath,
    target: Target,
    *,
    form: FormOptions,
    sizes: SizeOptions,
    resume: Resume = False,
    max_problems: MaxProblems = 1000,
    running: RunOptions,
    shown: OutputOptions,
) -> None:
    """Write the intact samples of a damaged dataset to a new one.

    The damaged dataset is not changed.

    Each problem is printed on one line. The exit code is 1 if there are problems; the new dataset
    is intact.

    Examples:
      bushel repair train/ fixed/
      bushel repair broken.tar fixed.tar --decode
      bushel repair s3://bucket/train/ s3://bucket/fixed/ --engine ray
    """
    import bushel

    from .output import print_json, print_text, resumable

    with resumable(target):
        result = bushel.repair(
            path,
            target,
            **{name: value for name, value in structs.asdict(form).items() if value is not None},
            **structs.asdict(sizes),
            mode="resume" if resume else "create",
            max_problems=max_problems,
            **structs.asdict(running),
            progress=not shown.quiet,
        )
    if shown.as_json:
        print_json({"path": path, "target": target, "ok": result.ok, **asdict(result)})
        raise click.exceptions.Exit(0 if result.ok else 1)
    for problem in result.problems:
        print_text(str(problem))
    if not shown.quiet:
        _tell(target, result)
    raise click.exceptions.Exit(0 if result.ok else 1)


def _tell(target: str, done: RepairResult) -> None:
    from .output import count, print_text

    more = ""
    if done.more:
        more = f" ({done.more:,} more problems are not listed)"
    lost = "lost" if done.checked else "known to be lost"
    print_text(
        f"{target}: {count(done.samples, 'sample')} written as {done.container},"
        f" {done.lost:,} {lost}{more}"
    )
    if not done.checked:
        print_text(
            "Some values have no checksum and may be damaged: --decode checks that they decode."
        )
