"""`bushel card`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict

from .command import Option
from .options import IndexPlace, OnePath, Quiet


class AboutOptions(Struct, frozen=True):
    """Options for facts that the dataset does not have."""

    title: Annotated[str | None, Option("Name of the dataset. [default: its folder's]")] = None
    description: Annotated[str | None, Option("Description in a few sentences.")] = None
    license: Annotated[
        str | None,
        Option("Licence: an SPDX identifier, such as cc-by-4.0, or a URL."),
    ] = None
    url: Annotated[str | None, Option("Its page.")] = None
    creator: Annotated[list[str] | None, Option("Creator of the dataset; may be repeated.")] = None
    license_column: Annotated[
        str | None,
        Option("Column with the licence of each sample, such as meta.license."),
    ] = None
    source_column: Annotated[
        str | None,
        Option("Column with the source of each sample, such as meta.url."),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `bushel.card`."""
        arguments = asdict(self)
        arguments["creators"] = arguments.pop("creator") or ()
        return arguments


def command(
    path: OnePath,
    *,
    output: Annotated[
        str | None, Option("File to write, such as README.md.", "--output", "-o")
    ] = None,
    about: AboutOptions,
    index: IndexPlace = None,
    quiet: Quiet = False,
) -> None:
    """Describe a dataset for others: a data card in Markdown.

    The card has counts, sizes, fields, classes, columns, licences and sources, removed samples and
    checksums, all from the index, and front matter that the Hugging Face Hub reads. A folder with a
    dataset in each folder, as `bushel split` writes them, is described as one dataset with splits.

    Examples:
      bushel card train/ -o train/README.md --license cc-by-4.0
      bushel card train/ --license-column meta.license --source-column meta.url
    """
    import bushel

    from .output import print_text

    text = bushel.card(path, output, **about.arguments(), index="auto" if index is None else index)
    if output is None:
        print_text(text.rstrip("\n"))
    elif not quiet:
        print_text(f"{output}: written")
