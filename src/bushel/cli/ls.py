"""Looking at samples: `bushel ls`, `bushel cat` and `bushel get`, and in a browser: `bushel view`."""

from __future__ import annotations

import pathlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import click
from msgspec import Struct
from msgspec.structs import asdict

import bushel

from .command import Argument, Option
from .options import (
    DatasetOptions,
    Json,
    Kind,
    OnePath,
    Path,
    Pickle,
    TrustOptions,
    View,
    names_in,
    pairs,
)
from .output import harmless, print_bytes, print_json, print_text, say

if TYPE_CHECKING:
    from bushel._dataset.views.dataset import Dataset
    from bushel.viewer.shelf import Shelf


Number = Annotated[int | None, Option("Number of samples. [default: all]", "-n", "--limit", min=0)]
_NOT_IN_JSON = (float("inf"), float("-inf"))


class ListOptions(Struct, frozen=True):
    """The samples to list, and their shown properties.

    Attributes:
        fields: Show the size in bytes of every field.
        where: List samples for which this is true, such as 'label == 3 and image.width > 256'.
        columns: Show these columns, such as label,image.width.
        sort: Sort by this column; -image.width puts the largest values first.
    """

    number: Number = None
    start: Annotated[int, Option("Number of samples to skip before the first one.", min=0)] = 0
    fields: bool = False
    where: str | None = None
    columns: str | None = None
    sort: str | None = None


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
      bushel ls train/ --where 'label == 3' --columns label,image.width
    """
    from bushel._dataset.views.dataset import Dataset

    from .describe import listing

    dataset = chosen.opened(path, **asdict(trust))
    names = names_in(listed.columns) or []
    start, number = listed.start, listed.number
    places: Any = range(0)
    values: dict[str, list[Any]] = {}
    if listed.where or names or listed.sort:
        if not isinstance(dataset, Dataset):
            raise ValueError(
                "a stream has no columns: write it as a dataset first, with `bushel convert`"
            )
        dataset, places = _chosen(dataset, listed)
        values = {name: dataset.column(name).tolist() for name in names}
        start, number = 0, None
    for position, key, sizes in listing(dataset, start, number, sizes=listed.fields or as_json):
        cells = {name: column[position] for name, column in values.items()}
        place = int(places[position]) if len(places) else position
        if as_json:
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
    number: Number = None,
    start: Annotated[int, Option("Position of the first sample.", min=0)] = 0,
    fields: str | None = None,
    *,
    chosen: DatasetOptions,
    trust: TrustOptions,
) -> None:
    """Print samples as lines of JSON.

    Text and numbers are decoded. Other values are printed as their size and SHA-256.

    Options:
        fields: Fields to print, such as label,text. [default: all]

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
    raw: bool = False,
    position: bool = False,
    *,
    chosen: DatasetOptions,
    pickle: Pickle = False,
) -> None:
    """Print a sample as JSON, or the stored bytes of one of its fields.

    Options:
        raw: Print binary data even on a terminal.
        position: SAMPLE is a position, even if a sample has it as key.

    Examples:
      bushel get train/ n01440764/10026 image -o fish.jpg
      bushel get train/ 0
    """
    from bushel.errors import naming

    from .describe import is_readable, lines, one_sample, stored_value

    dataset = bushel.open(chosen.files(path), container=chosen.container, pickle=pickle)
    dataset = one_sample(dataset, sample, by_position=position)
    if field is None:
        print_json(next(lines(dataset, 0, 1, None)))
        return
    kind, data = stored_value(dataset, field)
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


_MOST = 8  # largest number of datasets in one viewer


class AddressOptions(Struct, frozen=True):
    """Options for the address of the viewer.

    Attributes:
        host: Address to listen on, so that other machines have access. [default: this machine only]
        browser: Open the page in a browser.
        token_file: Keep the token of the URL in FILE, which is made if it is missing. With the same
            --port, links to pages then stay valid when the viewer is started again.
    """

    port: Annotated[
        int | None,
        Option("Port; 0 for any free one, the default.", "--port", "-p", min=0, max=65535),
    ] = None
    host: str | None = None
    browser: bool = True
    token_file: str | None = None


class PageOptions(Struct, frozen=True):
    """Options for what the pages show.

    Attributes:
        tags: Keep the tags that samples are given in the browser in this file. It is made if
            missing.
        overlay: FIELD=FORM: How a field annotates pictures, where its name and values do not say:
            xyxy, xywh or cxcywh for boxes, or keypoints, with ,relative or ,pixels; mask; caption;
            none. May be repeated.
        embeddings: A .npy file with an array (samples, numbers): a vector for each sample, by which
            'More like this' finds others. May be repeated.
        loader: MODULE:NAME of a bushel.Loader, or of a function that returns one: a page shows its
            batches, as training gets them, of any rank and step. May be repeated.
        tokenizer: Show tokens of batches as text: a tokenizer.json, or MODULE:NAME of a function of
            tokens.
    """

    tags: str | None = None
    overlay: list[str] | None = None
    embeddings: list[str] | None = None
    loader: list[str] | None = None
    tokenizer: str | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `make_shelf`."""
        from bushel.viewer.named import loader_named, tokenizer_named

        return {
            "tags": None if self.tags is None else pathlib.Path(self.tags).expanduser(),
            "overlays": pairs(self.overlay, "--overlay"),
            "embeddings": [pathlib.Path(file).expanduser() for file in self.embeddings or ()],
            "loaders": {name: loader_named(name) for name in self.loader or ()},
            "tokenizer": None if self.tokenizer is None else tokenizer_named(self.tokenizer),
        }


def view(
    paths: Annotated[
        str,
        Argument(
            "A dataset: a file, a folder, a glob or a brace pattern; local, or a URL: "
            "s3://, gs://, az://, https://. Several PATHS are several datasets, to compare.",
            metavar="PATH...",
            several=True,
        ),
    ],
    *,
    address: AddressOptions,
    pages: PageOptions,
    view: View = None,
    container: Kind = None,
    pickle: Pickle = False,
) -> None:
    """Look at datasets in a browser.

    The command prints a URL and runs until Ctrl-C. Nothing in the datasets changes. The URL of each
    page contains a random token, without which the viewer refuses requests; treat it like a
    password.

    On a server without a browser, forward the port (ssh -L 8600:127.0.0.1:8600 SERVER) and open the
    printed URL at home.

    Examples:
      bushel view train/
      bushel view before/ after/
      bushel view train/ --tags reviewed.json
      bushel view coco/ --overlay objects=xywh
      bushel view train/ --embeddings clip.npy
      bushel view train/ --loader my_training:make_loader --tokenizer t.json
      bushel view train/ --port 8600 --token-file ~/.bushel-token
      bushel view 's3://bucket/train-{000..146}.tar' --port 8600 --no-browser
    """
    from bushel.viewer.guard import kept_token
    from bushel.viewer.named import make_shelf
    from bushel.viewer.serve import Viewer, require_extra

    require_extra()
    sources = list(paths) if isinstance(paths, list) else [paths]
    if len(sources) > _MOST:
        raise ValueError(
            f"{len(sources)} paths would be {len(sources)} datasets: to see one dataset of many "
            "files, quote a pattern such as 'train-*.tar', so that the shell does not expand it"
        )
    shelf = make_shelf(sources, **pages.arguments(), container=container, pickle=pickle, view=view)
    if address.token_file is None:
        token = None
    else:
        token = kept_token(pathlib.Path(address.token_file).expanduser())
    with Viewer(
        shelf, host=address.host or "127.0.0.1", port=address.port or 0, token=token
    ) as viewer:
        viewer.ready()
        _say_where(shelf, viewer.url, address)
        try:
            viewer.wait()
        except KeyboardInterrupt:
            say("\nbushel: viewer ended")


def _say_where(shelf: Shelf, url: str, address: AddressOptions) -> None:
    for shown in shelf.datasets:
        say(f"{shown.name}: {shown.dataset!r}"[:500])
    print_text(url)
    if address.host is not None:
        say("other machines can open this URL; the token in it is all that protects the data")
    say("Ctrl-C ends the viewer")
    sys.stdout.flush()
    if address.browser:
        import webbrowser

        webbrowser.open(url)
