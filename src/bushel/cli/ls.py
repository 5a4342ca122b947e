"""Looking at samples: `bushel ls`, `bushel cat` and `bushel get`."""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import click
from msgspec import Struct
from msgspec.structs import asdict

import bushel

from .command import Argument, Option
from .options import DatasetOptions, Json, OnePath, Path, Pickle, TrustOptions, names_in
from .output import harmless, print_bytes, print_csv, print_json, print_text

if TYPE_CHECKING:
    from bushel._dataset.views.dataset import Dataset


_NOT_IN_JSON = (float("inf"), float("-inf"))


class ListOptions(Struct, frozen=True):
    """The samples to list, and their shown properties."""

    number: Annotated[
        int | None, Option("Number of samples to list. [default: all]", "-n", "--limit", min=0)
    ] = None
    start: Annotated[int, Option("Number of samples to skip before the first one.", min=0)] = 0
    fields: Annotated[bool, Option("Show the size in bytes of every field.")] = False
    where: Annotated[
        str | None,
        Option("List samples for which this is true, such as 'label == 3 and image.width > 256'."),
    ] = None
    columns: Annotated[str | None, Option("Show these columns, such as label,image.width.")] = None
    sort: Annotated[
        str | None, Option("Sort by this column; -image.width puts the largest values first.")
    ] = None
    as_csv: Annotated[bool, Option("Print CSV: position, key, and the columns.", "--csv")] = False

    @property
    def names(self) -> list[str]:
        """The names of the columns to show."""
        return names_in(self.columns) or []


def ls(
    path: Path,
    *,
    listed: ListOptions,
    chosen: DatasetOptions,
    trust: TrustOptions,
    as_json: Json = False,
) -> None:
    """List the keys of a dataset, in order.

    Only the index is read. Columns are values in the index: `bushel info --columns` shows them.

    Examples:
      bushel ls train/ -n 10 --fields
      bushel ls train/ --json | jq .key
      bushel ls train/ --where 'label == 3' --columns label,image.width --csv
    """
    from bushel._dataset.views.dataset import Dataset

    from .describe import listing

    dataset = chosen.opened(path, **asdict(trust))
    names, as_csv, start, number = listed.names, listed.as_csv, listed.start, listed.number
    places: Any = range(0)
    values: dict[str, list[Any]] = {}
    if listed.where or names or listed.sort or as_csv:
        if not isinstance(dataset, Dataset):
            raise ValueError(
                "a stream has no columns: write it as a dataset first, with `bushel convert`"
            )
        dataset, places = _chosen(dataset, listed)
        values = {name: dataset.column(name).tolist() for name in names}
        start, number = 0, None
    if as_csv:
        print_csv(["position", "key", *names])
    for position, key, sizes in listing(
        dataset, start, number, sizes=(listed.fields or as_json) and not as_csv
    ):
        cells = {name: column[position] for name, column in values.items()}
        place = int(places[position]) if len(places) else position
        if as_csv:
            print_csv([place, key, *cells.values()])
        elif as_json:
            finite = {
                name: None if value in _NOT_IN_JSON or value != value else value
                for name, value in cells.items()
            }
            shown = {"columns": finite} if names else {}
            print_json({"position": place, "key": key, "fields": sizes, **shown})
        else:
            texts = {name: "" if value is None else value for name, value in cells.items()}
            facts = [*texts.items(), *sizes.items()]
            print_text("  ".join([key, *(f"{name}={value}" for name, value in facts)]))


def _chosen(dataset: Dataset, listed: ListOptions) -> tuple[Dataset, Any]:
    """Return the samples to list, and their positions in the dataset."""
    import numpy as np

    from bushel._index.columns import sorted_rows

    places = np.arange(len(dataset))
    if listed.where is not None:
        places = dataset.positions_where(listed.where)
    if sort := listed.sort:
        values: Any = dataset[places].column(sort.removeprefix("-"))
        reverse, missing = sort.startswith("-"), np.ma.getmaskarray(values)
        places = places[sorted_rows(np.ma.getdata(values), missing, None, reverse=reverse)]
    places = places[listed.start : None if listed.number is None else listed.start + listed.number]
    return dataset[places], places


def cat(
    path: Path,
    number: Annotated[
        int | None, Option("Number of samples to print. [default: all]", "-n", "--limit", min=0)
    ] = None,
    start: Annotated[int, Option("Position of the first sample.", min=0)] = 0,
    fields: Annotated[
        str | None, Option("Fields to print, such as label,text. [default: all]")
    ] = None,
    *,
    chosen: DatasetOptions,
    trust: TrustOptions,
) -> None:
    """Print samples as lines of JSON.

    Text and numbers are decoded. Other values are printed as their size and SHA-256.

    Example:
      bushel cat train/ --fields label | jq .label | sort | uniq -c
    """
    from .describe import lines

    try:
        dataset = chosen.opened(path, **asdict(trust))
    except FileNotFoundError as error:
        if not isinstance(path, str):
            error.add_note("several paths are one dataset; `bushel get PATH KEY` prints one sample")
        raise
    for line in lines(dataset, start, number, names_in(fields)):
        print_json(line)


def get(
    path: OnePath,
    sample: Annotated[
        str, Argument("Key of the sample, or its position if no sample has that key.", files=False)
    ],
    field: Annotated[
        str | None, Argument("Name of a field; frames[3] is an element of a sequence.", files=False)
    ] = None,
    output: Annotated[str, Option("File to write; - is standard output.", "--output", "-o")] = "-",
    raw: Annotated[bool, Option("Print binary data even on a terminal.")] = False,
    position: Annotated[
        bool, Option("SAMPLE is a position, even if a sample has it as key.")
    ] = False,
    *,
    chosen: DatasetOptions,
    pickle: Pickle = False,
) -> None:
    """Print a sample as JSON, or the stored bytes of one of its fields.

    Examples:
      bushel get train/ n01440764/10026 image -o fish.jpg
      bushel get train/ 0
    """
    from bushel.errors import naming

    from .describe import find_sample, is_readable, lines, stored_value

    dataset = bushel.open(chosen.files(path), container=chosen.container, pickle=pickle)
    at = find_sample(dataset, sample, by_position=position)
    if field is None:
        print_json(next(lines(dataset, at, 1, None)))
        return
    kind, data = stored_value(dataset, at, field)
    if output != "-":
        from bushel.storage import as_path, write_whole

        target = as_path(output)
        if isinstance(target, pathlib.Path):  # may be a device or a pipe; folders are not made
            with naming(target):
                target.write_bytes(data)
        else:
            write_whole(target, data)
        return
    if raw or not sys.stdout.isatty():
        print_bytes(data)
        return
    if not is_readable(kind):
        raise click.BadParameter(
            f"{len(data)} bytes of {kind} cannot be shown on "
            "a terminal: use -o FILE to write a file, or --raw"
        )
    text = harmless(bytes(data).decode("utf-8", "surrogateescape"))
    print_bytes(text.encode("utf-8", "surrogateescape"))
