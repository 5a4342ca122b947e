"""`bushel view`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from .command import Argument, Option
from .options import Kind, Pickle, View, pairs
from .output import print_text, say

if TYPE_CHECKING:
    from bushel.viewer.shelf import Shelf


_MOST = 8  # largest number of datasets in one viewer


class AddressOptions(Struct, frozen=True):
    """Options for the address of the viewer."""

    port: Annotated[
        int | None,
        Option("Port; 0 for any free one, the default.", "--port", "-p", min=0, max=65535),
    ] = None
    host: Annotated[
        str | None,
        Option(
            "Address to listen on, so that other machines have access. [default: this machine only]"
        ),
    ] = None
    browser: Annotated[bool, Option("Open the page in a browser.", "--browser/--no-browser")] = True
    token_file: Annotated[
        str | None,
        Option(
            "Keep the token of the URL in FILE, which is made if it is missing. With the "
            "same --port, links to pages then stay valid when the viewer is started again."
        ),
    ] = None


class PageOptions(Struct, frozen=True):
    """Options for what the pages show."""

    tags: Annotated[
        str | None,
        Option(
            "Keep the tags that samples are given in the "
            "browser in this file. It is made if missing."
        ),
    ] = None
    overlay: Annotated[
        list[str] | None,
        Option(
            "FIELD=FORM: How a field annotates pictures, where its name and "
            "values do not say: xyxy, xywh or cxcywh for boxes, or keypoints, "
            "with ,relative or ,pixels; mask; caption; none. May be repeated."
        ),
    ] = None
    embeddings: Annotated[
        list[str] | None,
        Option(
            "A .npy file with an array (samples, numbers): a vector for each "
            "sample, by which 'More like this' finds others. May be repeated."
        ),
    ] = None
    loader: Annotated[
        list[str] | None,
        Option(
            "MODULE:NAME of a bushel.Loader, or of a function that returns one: a page shows "
            "its batches, as training gets them, of any rank and step. May be repeated."
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        Option(
            "Show tokens of batches as text: a tokenizer.json, "
            "or MODULE:NAME of a function of tokens."
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `make_shelf`."""
        from bushel.viewer.named import loader_named, tokenizer_named

        return {
            "tags": None if self.tags is None else Path(self.tags).expanduser(),
            "overlays": pairs(self.overlay, "--overlay"),
            "embeddings": [Path(file).expanduser() for file in self.embeddings or ()],
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
        token = kept_token(Path(address.token_file).expanduser())
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
