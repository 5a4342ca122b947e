"""Starting and stopping the viewer."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import check_count
from bushel._runtime.public import public
from bushel.errors import needed_by
from bushel.loader import Loader
from bushel.storage import AnySource

from .batch_pages import BatchPages
from .compare_pages import ComparePages, ConfusionPages
from .guard import App, Door, Guard, kept_token, new_token
from .histograms import ColumnPages
from .named import Tokenizer, make_shelf, tokenizer_named
from .overlay_pages import OverlayPages
from .quality_pages import DuplicatePages, QualityPages
from .samples import PlayPages, SamplePages, ShardPages
from .shelf import Shelf
from .site import Site
from .tag_pages import TagPages

_LOOPBACK = "127.0.0.1"


def require_extra() -> Any:
    """Return the module `uvicorn`. Raise MissingPackageError if a package of the extra `view` is not installed."""
    with needed_by("the viewer", "bushel[view]"):
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn
    return uvicorn


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
        self._socket = _listen(host, check_count("port", port, most=65535))
        self.port = int(self._socket.getsockname()[1])
        everywhere = host in ("0.0.0.0", "::", "")
        hosts = (socket.gethostname(), socket.getfqdn()) if everywhere else (host,)
        door = Door(token or new_token(), hosts, any_address=everywhere, framed=framed)
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{_LOOPBACK if everywhere else name}:{self.port}/-/{door.token}/"
        self._pid, self._shelf = os.getpid(), shelf
        self._server = _server(uvicorn, Guard(make_pages(shelf), door))
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


_PAGES = (
    SamplePages,
    ShardPages,
    TagPages,
    ColumnPages,
    BatchPages,
    DuplicatePages,
    ComparePages,
    QualityPages,
    OverlayPages,
    PlayPages,
    ConfusionPages,
)


def make_pages(shelf: Shelf) -> App:
    """Return the ASGI application that shows these datasets, without a check of the user."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    site = Site(shelf)
    routes = [Route("/", site.home), Route("/static/{name}", site.static)]
    for pages in _PAGES:
        for path, method, handler in pages(site).handlers():
            routes.append(Route(path, site.answering(handler), methods=[method]))
    app: App = Starlette(routes=routes)
    return app


@public()
def view(
    *sources: Dataset | Loader | AnySource,
    port: int = 0,
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
        tags=None if tags is None else Path(tags),
        overlays=overlays,
        embeddings=[Path(file) for file in files],
        loaders=loaders,
        tokenizer=tokenizer_named(tokenizer) if isinstance(tokenizer, str | Path) else tokenizer,
    )
    viewer = Viewer(shelf, port=port, framed=True, token=token)
    viewer.ready()
    return viewer
