"""`bushel split`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from bushel.cli.options import Append, Debug, Json, Path, Quiet, Resume, ShardBytes, ShardSamples, mode_of, pairs

__all__ = ["command"]


def command(
    source: Path,
    target: Annotated[str, typer.Argument(help="A folder for the new datasets.")],
    shares: Annotated[list[str], typer.Argument(help="NAME=SHARE of each; together they make 1.")],
    container: Annotated[
        str | None, typer.Option("--container", "-c", help="Of the new datasets. [that of SOURCE]")
    ] = None,
    shuffle: Annotated[
        bool, typer.Option("--shuffle/--no-shuffle", help="Choose at random, or the first samples first.")
    ] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the choice.")] = 0,
    shard_samples: ShardSamples = None,
    shard_bytes: ShardBytes = None,
    append: Append = False,
    resume: Resume = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Divide a dataset into several; every sample is in one of them.

    Example:
      bushel split all/ out/ train=0.9 val=0.1
    """
    mode = mode_of(append=append, resume=resume)
    from bushel.cli.output import count, print_json, print_text, resumable
    from bushel.ingest.reshape import split

    try:
        parts = {name: float(share) for name, share in pairs(shares, "SHARES").items()}
    except ValueError as error:
        raise typer.BadParameter(f"a share is a number, as in train=0.9: {error}", param_hint="SHARES") from None
    with resumable(target):
        done = split(
            source,
            target,
            parts,
            shuffle=seed if shuffle else None,
            container=container,
            shard_samples=shard_samples,
            shard_bytes=shard_bytes,
            mode=mode,
        )
    if as_json:
        print_json({name: asdict(one) for name, one in done.items()})
    elif not quiet:
        for name, one in done.items():
            print_text(f"{target.rstrip('/')}/{name}: {count(one.samples, 'sample')} written as {one.container}")
