"""`bushel merge`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from msgspec import structs

from bushel.cli.command import Argument, Option
from bushel.cli.options import ModeOptions, OutputOptions, SizeOptions, Target, new_containers


def command(
    target: Target,
    sources: Annotated[list[str], Argument("Datasets to merge, in order.")],
    *,
    container: Annotated[
        str | None,
        Option(
            "Container of the new dataset. [default: the first one's]",
            "--container",
            "-c",
            values=new_containers,
        ),
    ] = None,
    sizes: SizeOptions,
    modes: ModeOptions,
    shown: OutputOptions,
) -> None:
    """Concatenate several datasets into one.

    Example:
      bushel merge all/ part-00000/ part-00001/ --shard-bytes 1GB
    """
    mode = modes.mode()
    from bushel._pack import merge
    from bushel.cli.output import count, print_json, print_text, resumable

    with resumable(target):
        result = merge(sources, target, container=container, mode=mode, **structs.asdict(sizes))
    if shown.as_json:
        print_json({"target": target, **asdict(result)})
    elif not shown.quiet:
        print_text(f"{target}: {count(result.samples, 'sample')} written as {result.container}")
