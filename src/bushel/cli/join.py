"""`bushel join`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

import click
from msgspec import Struct
from msgspec.structs import asdict

from .command import Argument, Option, Several
from .options import OutputOptions, new_containers, pairs

if TYPE_CHECKING:
    from bushel import Dataset


class ResultOptions(Struct, frozen=True):
    """Options for the output."""

    save_view: Annotated[
        str | None,
        Option("Save the samples that have matches as a view of the first dataset."),
    ] = None
    keys: Annotated[
        str | None,
        Option("File to write the keys to, one a line; - for the output."),
    ] = None
    out: Annotated[str | None, Option("Write the joined samples to this new dataset.")] = None
    container: Annotated[
        str | None,
        Option(
            "Container of --out. [default: by its suffix]",
            "--container",
            "-c",
            values=new_containers,
        ),
    ] = None

    def check(self, how: str) -> None:
        """Check that the options go together. Raise BadParameter if they do not."""
        if self.save_view is not None and how != "inner":
            message = "it saves samples that have matches: leave --how left out"
            raise click.BadParameter(message, param_hint="--save-view")
        if self.container is not None and self.out is None:
            raise click.BadParameter("it is for --out", param_hint="--container")


def command(
    first: Annotated[str, Argument("The first dataset, whose keys and order the samples keep.")],
    others: Annotated[
        list[str], Argument("Datasets with more fields of these samples.", several=True)
    ],
    *,
    on: Annotated[
        str,
        Option(
            "How samples are matched: by key; by a field whose values are equal, or name"
            " keys or paths of the "
            "other dataset; or by photo=id, a field of the first dataset and one of the others."
        ),
    ] = "key",
    how: Annotated[
        Literal["inner", "left"],
        Option(
            "inner: leave out samples without a match; left: keep all samples of the first dataset."
        ),
    ] = "inner",
    rename: Annotated[
        list[str] | None,
        Option("Another name for a field of the others, such as cls=kind."),
    ] = None,
    result: ResultOptions,
    shown: OutputOptions,
) -> None:
    """Join datasets whose samples belong together, and count those without a match.

    Without --save-view, --keys and --out nothing is written: the command says what would be joined.
    `bushel.join` does the same in Python. The exit code is 1 if no sample has a match.

    Examples:
      bushel join captions.jsonl photos.tar --on image
      bushel join photos/ labels.csv --on key=id --save-view labelled
      bushel join captions.jsonl photos.tar --on image --out pairs.tar
    """
    result.check(how)
    import bushel
    from bushel._dataset.views.join import samples_in

    from .output import print_json, print_text, say

    field, equals, partner_field = on.partition("=")
    others = list(others) if isinstance(others, Several) else [cast("str", others)]
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
        _write_keys(joined, result.keys)
    if result.out is not None:
        shows = not shown.quiet
        bushel.convert(joined, result.out, container=result.container, progress=shows)
    joins = joined.info.joins
    if shown.as_json:
        said = {"paths": [first, *others], "samples": len(joined), "fields": dict(joined.spec)}
        print_json({**said, "joins": [asdict(join) for join in joins]})
    elif not shown.quiet and result.keys != "-":
        _tell(first, others, joined)
        if result.out is not None:
            print_text(f"written to {result.out}")
    raise click.exceptions.Exit(0 if any(join.matched for join in joins) else 1)


def _tell(first: str, others: list[str], joined: Dataset) -> None:
    from .output import count, print_text

    print_text(f"{count(len(joined), 'sample')} with {', '.join(joined.spec)}")
    for path, join in zip(others, joined.info.joins, strict=True):
        print_text(f"{path}: {count(join.matched, 'sample')} of {first} matched by {join.on}")
        if join.misses:
            print_text(f"  {join.misses}")


def _write_keys(joined: Dataset, path: str) -> None:
    lines = "".join(f"{key}\n" for key in joined.keys)
    with click.open_file(path, "w", encoding="utf-8", atomic=path != "-") as file:
        file.write(lines)
