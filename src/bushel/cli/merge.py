"""`bushel merge`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from bushel.cli.options import Debug, Json, Quiet

__all__ = ["command"]


def command(
    target: Annotated[
        str, typer.Argument(help="A new folder, or one file: out/train.tar, train.ffr, s3://bucket/train.rec.")
    ],
    sources: Annotated[list[str], typer.Argument(help="The datasets, in order.")],
    container: Annotated[
        str | None, typer.Option("--container", "-c", help="Of the new dataset. [that of the first]")
    ] = None,
    shard_samples: Annotated[int | None, typer.Option("--shard-samples", min=1, help="Samples in a shard.")] = None,
    shard_bytes: Annotated[str | None, typer.Option("--shard-bytes", help="Bytes in a shard: 1GB, 500MiB.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write several datasets as one, one after another.

    Example:
      bushel merge all/ part-00000/ part-00001/ --shard-bytes 1GB
    """
    from bushel.cli.output import count, print_json, print_text
    from bushel.ingest.reshape import merge

    done = merge(sources, target, container=container, shard_samples=shard_samples, shard_bytes=shard_bytes)
    if as_json:
        print_json({"target": target, **asdict(done)})
    elif not quiet:
        print_text(f"{target}: {count(done.samples, 'sample')} written as {done.container}")
