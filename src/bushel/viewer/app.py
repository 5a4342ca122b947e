"""The application and its routes, with the guard in front of them."""

from __future__ import annotations

from typing import Any

from .batch_pages import BatchPages
from .compare import ComparePages
from .confusion import ConfusionPages
from .duplicates import DuplicatePages
from .guard import App, Door, Guard
from .histograms import ColumnPages
from .overlay_pages import OverlayPages
from .quality_pages import QualityPages
from .samples import SamplePages
from .shards import ShardPages
from .shelf import Shelf
from .site import Site, redirect
from .tag_pages import TagPages
from .tracks import PlayPages

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


def make_app(shelf: Shelf, door: Door) -> Guard:
    """Return the ASGI application that shows these datasets, with access control."""
    return Guard(make_pages(shelf), door)


def make_pages(shelf: Shelf) -> App:
    """Return the ASGI application that shows these datasets, without a check of the user."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    site = Site(shelf)
    routes = [Route("/", _home), Route("/static/{name}", site.static)]
    for pages in _PAGES:
        for path, method, handler in pages(site).handlers():
            routes.append(Route(path, site.answering(handler), methods=[method]))
    app: App = Starlette(routes=routes)
    return app


def _home(request: Any) -> Any:
    """Redirect to the first dataset."""
    return redirect(request, "/d/0")
