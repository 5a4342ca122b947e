"""Starting and stopping the viewer."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.open.splits import files_named
from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import F32
from bushel._runtime.public import public
from bushel.errors import needed_by
from bushel.loader import Loader
from bushel.storage import AnySource
from bushel.transforms.values import Transform

from .guard import Door, kept_token, new_token
from .named import Tokenizer, tokenizer_named
from .overlays import checked_overlay
from .shelf import Shelf, Shown, plain_text
from .tags import TagFile, Tags
from .vectors import vectors_of_file

_LOOPBACK = "127.0.0.1"
_FIXED = frozenset(("__key__", "data", "index", "train", "test", "images"))
"""File names that are less meaningful than the name of their folder."""


def require_extra() -> Any:
    """Return the module `uvicorn`. Raise MissingPackageError if a package of the extra `view` is not installed."""
    with needed_by("the viewer", "bushel[view]"):
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn
    return uvicorn


def make_shelf(
    sources: Sequence[Any],
    *,
    transforms: Mapping[str, Any] | None = None,
    tags: Path | None = None,
    overlays: Mapping[str, str] | None = None,
    embeddings: Sequence[Path] = (),
    loaders: Mapping[str, Loader] | None = None,
    tokenizer: Tokenizer | None = None,
    **options: Any,
) -> Shelf:
    """Open datasets for the viewer.

    Args:
        sources: For each dataset, a `Dataset` or what `bushel.open` takes. A `Loader` is its
            dataset, and one of the loaders.
        transforms: Transforms whose batches are shown, by name.
        tags: The file that keeps the tags; None if they are lost when the viewer closes.
        overlays: How fields annotate pictures, by field, such as `{"boxes": "xywh,relative"}`.
        embeddings: Files `.npy` with a vector for each sample of one of the datasets.
        loaders: Loaders whose batches the page of batches shows, by name.
        tokenizer: Returns the text of tokens; None to show their numbers.
        options: Arguments of `bushel.open`.

    Raises:
        BushelError: As `bushel.open`.
        OSError: As `bushel.open`.
        ValueError: The file of the tags or of vectors holds something else, a declaration of an
            overlay is malformed, or a file has another number of vectors than each dataset has
            samples.
        KeyError: No dataset has the field of an overlay.
    """
    shown, named_loaders = [], dict(loaders or {})
    for number, source in enumerate(sources):
        if isinstance(source, Loader):
            named_loaders[f"loader {number + 1}" if len(sources) > 1 else "loader"] = source
            source = _dataset_of(source)
        if isinstance(source, Dataset):
            dataset, whole = (
                source,
                [str(shard.path(0)) for shard in source.shards[:1000] if shard.stamps],
            )
            name = _name_of(_folder_of(whole)) if whole else "dataset"
            shown.append(Shown(number, name, whole, dataset))
        else:
            opened = open_dataset(files_named(source), **options)
            shown.append(
                Shown(number, _name_of(source), source, opened, f"bushel.open({_plain(source)!r})")
            )
    for name, text in (overlays or {}).items():
        checked_overlay(name, text)
        if not any(name in dataset.dataset.spec for dataset in shown):
            raise KeyError(f"the overlay {name}={text}: no dataset has a field {name!r}")
    tags_of_datasets = tuple(Tags(dataset.dataset) for dataset in shown)
    file = None
    if tags is not None:
        file = TagFile(
            tags,
            {
                plain_text(str(dataset.source)): tags_of_dataset
                for dataset, tags_of_dataset in zip(shown, tags_of_datasets, strict=True)
            },
        )
    declared, vectors = dict(overlays or {}), _vectors_in(embeddings, shown)
    return Shelf(
        tuple(shown),
        dict(transforms or {}),
        tags_of_datasets,
        file,
        overlays=declared,
        vectors=vectors,
        loaders=named_loaders,
        tokenizer=tokenizer,
    )


def _dataset_of(loader: Loader) -> Dataset:
    """Return the dataset of a loader.

    Raises:
        TypeError: It is a view that the viewer does not show, such as one of `ds.map`.
    """
    if isinstance(loader.dataset, Dataset):
        return loader.dataset
    raise TypeError(
        f"the samples of this loader come from {loader.dataset!r}, which has no index to look at:"
        " give the dataset "
        'beside it, such as bushel.view(ds, loaders={"train": loader})'
    )


def _vectors_in(files: Sequence[Path], shown: Sequence[Shown]) -> dict[tuple[int, str], F32]:
    """Return the vectors in files, by number of the dataset and name of the file."""
    vectors = {}
    for path in files:
        fitting = {dataset.number: vectors_of_file(path, len(dataset.dataset)) for dataset in shown}
        if all(fitted is None for fitted in fitting.values()):
            counts = ", ".join(
                f"{dataset.name} has {len(dataset.dataset):,} samples" for dataset in shown
            )
            raise ValueError(f"{path}: expected as many vectors as a dataset has samples: {counts}")
        vectors.update(
            {
                (number, path.name): fitted
                for number, fitted in fitting.items()
                if fitted is not None
            }
        )
    return vectors


def _plain(source: Any) -> Any:
    """Return a source as people write it: paths as text."""
    if isinstance(source, list | tuple):
        return [_plain(part) for part in source]
    return plain_text(str(source))


def _folder_of(files: Sequence[str]) -> str:
    """Return the file of a dataset, or the folder of several or of one whose name is fixed, such as `__key__.bag`."""
    first = Path(files[0])
    alone = len(files) == 1 and first.stem not in _FIXED and not re.search(r"\d{3,}", first.stem)
    if alone:
        return files[0]
    return str(first.parent)


def _name_of(source: Any) -> str:
    first = source[0] if isinstance(source, list | tuple) and source else source
    name = plain_text(str(first)).rstrip("/").rpartition("/")[2] or "dataset"
    if isinstance(source, list | tuple) and len(source) > 1:
        return f"{name} …"
    return name


@public("bushel.viewer")
class Viewer:
    """A viewer that runs in a thread of this process until it is closed, or the process ends.

    Args:
        shelf: The datasets.
        host: Address to listen on. Other machines reach the viewer only if it is not a loopback
            address.
        port: Port; 0 for any free one.
        framed: Whether pages may be shown in a frame of a page on this machine, such as a notebook.
        token: The token in the URL; by default a new one.

    Attributes:
        url: The URL, with the token in its path.
        port: The port.

    Raises:
        OSError: The address cannot be used.
        UnsupportedError: The extra `view` is not installed.

    Examples:
        >>> viewer = bushel.view(ds)
        >>> viewer.ready()
        True
        >>> viewer.close()
    """

    def __init__(
        self,
        shelf: Shelf,
        *,
        host: str = _LOOPBACK,
        port: int = 0,
        framed: bool = False,
        token: str | None = None,
    ) -> None:
        uvicorn = require_extra()
        from .app import make_app

        self._socket = _listen(host, port)
        self.port = int(self._socket.getsockname()[1])
        everywhere = host in ("0.0.0.0", "::", "")
        hosts = (socket.gethostname(), socket.getfqdn()) if everywhere else (host,)
        door = Door(token or new_token(), hosts, any_address=everywhere, framed=framed)
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{_LOOPBACK if everywhere else name}:{self.port}/-/{door.token}/"
        self._pid, self._shelf = os.getpid(), shelf
        self._server = _server(uvicorn, make_app(shelf, door))
        self._thread = threading.Thread(target=self._serve, name="bushel-view", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except ValueError:  # asyncio may find its socket closed already when the viewer is closed
            if not self._server.should_exit:
                raise

    def wait(self) -> None:
        """Wait until the viewer ends, or for Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """Stop the viewer. Requests that are being answered are given a second."""
        if os.getpid() != self._pid:
            return
        self._server.should_exit = True
        self._thread.join(3)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(3)
        with contextlib.suppress(OSError):
            self._socket.close()

    def ready(self, seconds: float = 10.0) -> bool:
        """Wait until the viewer answers, and return whether it does."""
        end = time.monotonic() + seconds
        while not self._server.started and self._thread.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
        return bool(self._server.started)

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<bushel.viewer.Viewer: {self.url}>"

    def _repr_html_(self) -> str:
        return f'<iframe src="{self.url}" width="100%" height="640" title="Bushel viewer"></iframe>'


def _server(uvicorn: Any, app: Any) -> Any:
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=30,
        ws="none",
    )
    return uvicorn.Server(config)


def _listen(host: str, port: int) -> socket.socket:
    """Return a bound socket, so that the port is known before the server runs."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only if the protocol of the socket is TCP; else each
    # response on a kept connection waits 40 ms for the acknowledgement of the one before it
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from error
    return listener


@public()
def view(
    *sources: Dataset | Loader | AnySource,
    port: int = 0,
    transforms: Mapping[str, Transform | Sequence[Transform]] | None = None,
    token_file: str | Path | None = None,
    tags: str | Path | None = None,
    overlays: Mapping[str, str] | None = None,
    embeddings: str | Path | Sequence[str | Path] = (),
    loaders: Mapping[str, Loader] | None = None,
    tokenizer: str | Path | Tokenizer | None = None,
) -> Viewer:
    """Look at datasets in a browser, on this machine only.

    In a notebook, the result is shown as a frame. Elsewhere, print it and open its `url`. The
    viewer runs in a thread of this process and reads only; `close()` ends it.

    Args:
        sources: One or more datasets: a `Dataset`, a view of one such as `ds[:100]`, or what
            `bushel.open` takes; or a `Loader`, whose batches are shown beside its dataset.
        port: Port on the loopback address; 0 for any free one.
        transforms: Lists of transforms by name. The page of batches shows what they make of the
            pictures.
        token_file: A file that keeps the token of the URL, so that links to pages stay valid when
            the viewer is started again on the same port. It is made if it does not exist. By
            default, each viewer has a new token.
        tags: A file that keeps the tags which are given to samples in the browser, for the next
            viewer. It is made if it does not exist. By default, they are lost when the viewer
            closes.
        overlays: How fields annotate pictures, where their names and values do not say. By field:
            `"xyxy"`, `"xywh"` or `"cxcywh"` for boxes, or `"keypoints"`, each with `",relative"` or
            `",pixels"` if need be; `"mask"`, `"caption"` or `"none"`.
        embeddings: One or more `.npy` files with an array (samples, numbers): a vector for each
            sample, by which *More like this* sorts the grid.
        loaders: Loaders by name. The page of batches shows what they give to any rank in any step:
            pictures, the documents of packs and chunks, the shares of a mixture. Looking at them
            does not advance them.
        tokenizer: Shows tokens as text: a `tokenizer.json` of the package tokenizers, or a function
            that returns the text of a list of tokens. By default, numbers are shown.

    Returns:
        The running viewer.

    Raises:
        MissingPackageError: Starlette, uvicorn or Jinja2 is not installed:
            `pip install 'bushel[view]'`; or tokenizers, for a `tokenizer.json`.
        TypeError: No dataset is given, or the viewer cannot show the dataset of a loader.
        ValueError: The file of the token, of the tags or of embeddings holds something else, other
            users can read that of the token, or an overlay is malformed.
        KeyError: No dataset has the field of an overlay.

    Examples:
        >>> viewer = bushel.view("train/")
        >>> viewer.url  # open it in a browser
        'http://127.0.0.1:.../-/.../'
        >>> viewer.close()
    """
    if not sources:
        raise TypeError("view() needs a dataset or a path")
    require_extra()
    token = None if token_file is None else kept_token(Path(token_file))
    files = [embeddings] if isinstance(embeddings, str | Path) else embeddings
    shelf = make_shelf(
        sources,
        transforms=transforms,
        tags=None if tags is None else Path(tags),
        overlays=overlays,
        embeddings=[Path(file) for file in files],
        loaders=loaders,
        tokenizer=tokenizer_named(tokenizer) if isinstance(tokenizer, str | Path) else tokenizer,
    )
    viewer = Viewer(shelf, port=port, framed=True, token=token)
    viewer.ready()
    return viewer
