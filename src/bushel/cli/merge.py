"""`bushel merge`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from bushel.cli.options import Append, Debug, Json, Quiet, Resume, ShardBytes, ShardSamples, Target, mode_of

__all__ = ["command"]


def command(
    target: Target,
    sources: Annotated[list[str], typer.Argument(help="The datasets, in order.")],
    container: Annotated[
        str | None, typer.Option("--container", "-c", help="Of the new dataset. [that of the first]")
    ] = None,
    shard_samples: ShardSamples = None,
    shard_bytes: ShardBytes = None,
    append: Append = False,
    resume: Resume = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write several datasets as one, one after another.

    Example:
      bushel merge all/ part-00000/ part-00001/ --shard-bytes 1GB
    """
    mode = mode_of(append=append, resume=resume)
    from bushel.cli.output import count, print_json, print_text, resumable
    from bushel.ingest.reshape import merge

    sizes = {"shard_samples": shard_samples, "shard_bytes": shard_bytes}
    with resumable(target):
        done = merge(sources, target, container=container, mode=mode, **sizes)
    if as_json:
        print_json({"target": target, **asdict(done)})
    elif not quiet:
        print_text(f"{target}: {count(done.samples, 'sample')} written as {done.container}")
