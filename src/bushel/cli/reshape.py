"""Several datasets of one, or one of several: `bushel split`, `bushel merge` and `bushel join`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

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
from .output import count, print_json, print_text, resumable, say


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


class ResultOptions(Struct, frozen=True):
    """Options for the output."""

    save_view: Annotated[
        str | None, Option("Save the samples that have matches as a view of the first dataset.")
    ] = None
    keys: Annotated[
        str | None, Option("File to write the keys to, one a line; - for the output.")
    ] = None
    out: Annotated[str | None, Option("Write the joined samples to this new dataset.")] = None
    container: Annotated[
        str | None,
        Option(
            "Container of --out. [default: by its suffix]",
            "--container",
            "-c",
        ),
    ] = None

    def check(self, how: str) -> None:
        """Check that the options go together. Raise BadParameter if they do not."""
        if self.save_view is not None and how != "inner":
            message = "it saves samples that have matches: leave --how left out"
            raise click.BadParameter(message, param_hint="--save-view")
        if self.container is not None and self.out is None:
            raise click.BadParameter("it is for --out", param_hint="--container")


def join(
    first: Annotated[str, Argument("The first dataset, whose keys and order the samples keep.")],
    others: Annotated[list[str], Argument("Datasets with more fields of these samples.")],
    *,
    on: Annotated[
        str,
        Option(
            "How samples are matched: by key; by a field whose values are "
            "equal, or name keys or paths of the other dataset; or by "
            "photo=id, a field of the first dataset and one of the others."
        ),
    ] = "key",
    how: Annotated[
        Literal["inner", "left"],
        Option(
            "inner: leave out samples without a match; left: keep all samples of the first dataset."
        ),
    ] = "inner",
    rename: Annotated[
        list[str] | None, Option("Another name for a field of the others, such as cls=kind.")
    ] = None,
    result: ResultOptions,
    shown: OutputOptions,
) -> bool:
    """Join datasets whose samples belong together, and count those without a match.

    Without --save-view, --keys and --out nothing is written: the command says what would be joined.
    `bushel.join` does the same in Python. The exit code is 1 if no sample has a match.

    Examples:
      bushel join captions.jsonl photos.tar --on image
      bushel join photos/ labels.csv --on key=id --save-view labelled
      bushel join captions.jsonl photos.tar --on image --out pairs.tar
    """
    result.check(how)
    from bushel._dataset.views.join import samples_in

    field, equals, partner_field = on.partition("=")
    opened = [bushel.open(path) for path in (first, *others)]
    joined = bushel.join(
        opened,
        on=(field, partner_field) if equals else on,
        how=how,
        names=pairs(rename, "--rename"),
    )
    if result.save_view is not None:
        samples_in(joined, opened[0]).save_view(result.save_view)
        if not (shown.quiet or shown.as_json):
            say(f"saved: bushel.open({first!r}, view={result.save_view!r})")
    if result.keys is not None:
        to_file = result.keys != "-"
        with click.open_file(result.keys, "w", encoding="utf-8", atomic=to_file) as file:
            file.writelines(f"{key}\n" for key in joined.keys)
    if result.out is not None:
        shows = not shown.quiet
        bushel.convert(joined, result.out, container=result.container, progress=shows)
    joins = joined.info.joins
    if shown.as_json:
        said = {"paths": [first, *others], "samples": len(joined), "fields": dict(joined.spec)}
        print_json({**said, "joins": [structs.asdict(join) for join in joins]})
    elif not shown.quiet and result.keys != "-":
        print_text(f"{count(len(joined), 'sample')} with {', '.join(joined.spec)}")
        for path, join in zip(others, joins, strict=True):
            print_text(f"{path}: {count(join.matched, 'sample')} of {first} matched by {join.on}")
            if join.misses:
                print_text(f"  {join.misses}")
        if result.out is not None:
            print_text(f"written to {result.out}")
    return any(join.matched for join in joins)
