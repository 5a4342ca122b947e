"""`bushel merge`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from bushel.cli.command import Argument, Option
from bushel.cli.options import Debug, Json, ModeOptions, Quiet, ShardBytes, ShardSamples, Target, new_containers

__all__ = ["command"]


def command(
    target: Target,
    sources: Annotated[list[str], Argument(help="Datasets to merge, in order.")],
    *,
    container: Annotated[
        str | None,
        Option(
            "--container",
            "-c",
            help="Container of the new dataset. [default: that of the first]",
            values=new_containers,
        ),
    ] = None,
    shard_samples: ShardSamples = None,
    shard_bytes: ShardBytes = None,
    modes: ModeOptions,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Concatenate several datasets into one.

    Example:
      bushel merge all/ part-00000/ part-00001/ --shard-bytes 1GB
    """
    mode = modes.mode()
    from bushel.cli.output import count, print_json, print_text, resumable
    from bushel.ingest import merge

    with resumable(target):
        done = merge(
            sources, target, container=container, mode=mode, shard_samples=shard_samples, shard_bytes=shard_bytes
        )
    if as_json:
        print_json({"target": target, **asdict(done)})
    elif not quiet:
        print_text(f"{target}: {count(done.samples, 'sample')} written as {done.container}")
