"""Several datasets of one, or one of several: `bushel split` and `bushel merge`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import click
from msgspec import Struct, structs

import bushel

from .command import Argument, Option
from .options import (
    ModeOptions,
    OnePath,
    OutputOptions,
    SameKind,
    SizeOptions,
    Target,
    pairs,
)
from .output import count, resumable


class ChoiceOptions(Struct, frozen=True):
    """Options that decide which samples each dataset gets."""

    shuffle: Annotated[
        bool,
        Option(
            "Choose samples at random, instead of the first ones for the first share.",
            "--shuffle/--no-shuffle",
        ),
    ] = False
    seed: Annotated[int, Option("Seed of the random choice.", min=0)] = 0
    stratify: Annotated[
        str | None,
        Option("Field, such as label: each dataset gets its share of the samples of every value."),
    ] = None


def split(
    source: OnePath,
    target: Annotated[str, Argument("Folder for the new datasets.")],
    shares: Annotated[
        list[str],
        Argument(
            "NAME=SHARE of each new dataset, such as train=0.9 val=0.1, or its number of "
            "samples: train=200 val=40. One of them can be the rest: train=rest val=40.",
            files=False,
        ),
    ],
    *,
    container: SameKind = None,
    choice: ChoiceOptions,
    sizes: SizeOptions,
    modes: ModeOptions,
    shown: OutputOptions,
) -> None:
    """Divide a dataset into several datasets.

    Every sample is in exactly one of them.

    Examples:
      bushel split all/ out/ train=0.9 val=0.1 --shuffle
      bushel split all/ out/ train=0.9 val=0.1 --shuffle --seed 7 --stratify label
      bushel split all/ out/ train=rest val=1000 --shuffle
    """
    mode = modes.mode()
    parts = _parse_shares(shares)
    with resumable(target):
        results = bushel.split(
            source,
            target,
            parts,
            **structs.asdict(choice),
            container=container,
            **structs.asdict(sizes),
            mode=mode,
        )
    folder = target.rstrip("/")
    shown.show(
        results,
        *(
            f"{folder}/{name}: {count(result.samples, 'sample')} written as {result.container}"
            for name, result in results.items()
        ),
    )


def _parse_shares(shares: list[str]) -> dict[str, float | None]:
    """Return the share of each new dataset, None for the rest. Raise BadParameter if a share is malformed."""
    parsed: dict[str, float | None] = {}
    try:
        for name, share in pairs(shares, "SHARES").items():
            number = int if share.isdecimal() else float
            parsed[name] = None if share == "rest" else number(share)
    except ValueError as error:
        raise click.BadParameter(
            f"a share must be a number, such as train=0.9 or train=200, or rest: {error}",
            param_hint="SHARES",
        ) from None
    return parsed


def merge(
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
    with resumable(target):
        options = {"mode": mode, "keys": None if keys else False, **structs.asdict(sizes)}
        try:
            result = bushel.merge(sources, target, container=container, **options)
        except FileNotFoundError as error:
            error.add_note("the new dataset comes first: bushel merge TARGET SOURCES...")
            raise
    shown.show(
        {"target": target, **asdict(result)},
        f"{target}: {count(result.samples, 'sample')} written as {result.container}",
    )
