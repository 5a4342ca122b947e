"""`bushel merge`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from msgspec import structs

from .command import Argument, Option
from .options import ModeOptions, OutputOptions, SameKind, SizeOptions, Target


def command(
    target: Target,
    sources: Annotated[list[str], Argument("Datasets to merge, in order.")],
    *,
    container: SameKind = None,
    keys: Annotated[bool, Option("Keep the keys or leave them out.", "--keys/--no-keys")] = True,
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

    from .output import count, resumable

    with resumable(target):
        options = {"mode": mode, "keys": None if keys else False, **structs.asdict(sizes)}
        result = merge(sources, target, container=container, **options)
    shown.show(
        {"target": target, **asdict(result)},
        f"{target}: {count(result.samples, 'sample')} written as {result.container}",
    )
