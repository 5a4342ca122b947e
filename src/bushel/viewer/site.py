"""Shared parts of all pages: rendering, answers, and error pages."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from bushel._pictures.pixels import class_colours
from bushel._pictures.texts import plain_text
from bushel._pictures.thumbnail import Picture
from bushel._runtime.messages import size
from bushel._runtime.threads import cpu_count
from bushel.errors import BushelError

from .kinds import predicted_name
from .shelf import ByteCache, Shelf, Shown
from .stored import UnsatisfiableRange

_PICTURE_BYTES = 48 << 20
_HERE = Path(__file__).parent
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

_HUES = ["#" + bytes(colour).hex() for colour in class_colours()[1:13]]
"""The colours of curves, documents and shares, as the first classes have them."""

Handler = Callable[..., Any]
"""Answers a request for a dataset. Starlette calls handlers in threads, several at once."""
Answers = TypeVar("Answers", bound=Callable[..., Any])


class Site:
    """Renders pages, and turns errors into answers.

    Attributes:
        shelf: The datasets.
        pictures: The thumbnails that were made.
        decoding: Bounds the number of pictures that are made at once: more than the processors only
            cost memory.
        version: Part of the URLs of pictures, scripts and styles, which browsers keep.
    """

    def __init__(self, shelf: Shelf) -> None:
        import jinja2

        self.shelf = shelf
        self.decoding = threading.BoundedSemaphore(2 * cpu_count())
        self.pictures: ByteCache[Picture] = ByteCache(
            _PICTURE_BYTES, lambda picture: len(picture.data) + 200
        )
        self.version = os.urandom(4).hex()
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
        )
        self._templates.filters.update(
            size=size,
            count=lambda number: f"{number:,}",
            quoted=partial(quote, safe="", errors="surrogateescape"),
        )
        self._static = {
            path.name: (path.read_bytes(), _TYPES[path.suffix])
            for path in (_HERE / "static").iterdir()
            if path.suffix in _TYPES
        }

    def answering(self, handler: Handler) -> Handler:
        """Wrap a handler so that it gets the dataset, and its result, JSON values or an answer, is sent.

        An error becomes an answer that names it: data on disk may be damaged in any way.
        """

        @wraps(handler)
        def guarded(request: Any) -> Any:
            try:
                result = handler(self.shown(request), request)
                return as_json_answer(result) if isinstance(result, dict) else result
            except UnsatisfiableRange:
                return bytes_answer(b"", "text/plain", status=416)
            except LookupError as error:
                return self.problem(request, 404, str(error.args[0]) if error.args else "not found")
            except (BushelError, OSError) as error:
                return self.problem(request, 422, str(error))
            except (TypeError, ValueError) as error:
                return self.problem(request, 400, str(error))
            except (MemoryError, RecursionError) as error:
                return self.problem(request, 422, f"{type(error).__name__}: {error}")

        return guarded

    def problem(self, request: Any, status: int, text: str) -> Any:
        """Return an answer with an error: a page for browsers, JSON for scripts."""
        text = plain_text(text)
        if "text/html" in request.headers.get("accept", ""):
            return self.page(request, "problem.html", None, status=status, problem=text)
        return as_json_answer({"error": text}, status=status)

    def page(
        self, request: Any, template: str, shown: Shown | None, *, status: int = 200, **values: Any
    ) -> Any:
        """Render a template."""
        text = self._templates.get_template(template).render(
            prefix=prefix_of(request),
            version=self.version,
            hues=_HUES,
            datasets=self.shelf.datasets,
            shown=shown,
            pages=_pages(self.shelf, shown),
            **values,
        )
        return bytes_answer(text.encode(), "text/html; charset=utf-8", status=status)

    def shown(self, request: Any) -> Shown:
        """Return the dataset that the path of a request names. Raise KeyError if the dataset does not exist."""
        return self.shelf.shown(request.path_params["d"])

    def picture(self, key: Hashable, make: Callable[[], Picture]) -> Any:
        """Return an answer with a picture, which is made once and kept."""
        with self.decoding:
            picture = self.pictures.get(key, make)
        return bytes_answer(picture.data, picture.media_type, cache="private, max-age=86400")

    def home(self, request: Any) -> Any:
        """Redirect to the first dataset."""
        return redirect(request, f"/d/0{self.shelf.datasets[0].start}")

    def static(self, request: Any) -> Any:
        """Return a style sheet or a script of this package."""
        content = self._static.get(request.path_params["name"])
        if content is None:
            return bytes_answer(b"not found\n", "text/plain", status=404)
        return bytes_answer(*content, cache="private, max-age=86400")


def _pages(shelf: Shelf, shown: Shown | None) -> list[tuple[str, str]]:
    """Return names and paths of the pages of a dataset, after the grid."""
    if shown is None:
        return []
    pages = [("shards", "/shards")]
    if shelf.loaders:
        pages.append(("batches", "/batches"))
    pages.append(("duplicates", "/duplicates"))
    if shown.measured:
        pages.append(("quality", "/quality"))
    if predicted_name([field.name for field in shown.fields if field.kind in ("number", "text")]):
        pages.append(("confusion", "/confusion"))
    if len(shelf.datasets) > 1 or sum(field.visual for field in shown.fields) > 1:
        pages.append(("compare", "/compare"))
    return pages


def prefix_of(request: Any) -> str:
    """Return the beginning of all URLs: empty, or the part with the token in a frame."""
    return str(request.scope.get("bushel.prefix", ""))


def at(path: str, method: str = "GET") -> Callable[[Answers], Answers]:
    """Return a decorator that gives a handler of `Pages` its path."""

    def place(handler: Answers) -> Answers:
        vars(handler)["place"] = path, method
        return handler

    return place


class Pages:
    """The handlers of some pages, each with its path."""

    def __init__(self, site: Site) -> None:
        self._site, self._shelf = site, site.shelf

    def handlers(self) -> Iterator[tuple[str, str, Handler]]:
        """Yield path, method and handler."""
        for name, handler in vars(type(self)).items():
            if (place := getattr(handler, "place", None)) is not None:
                yield *place, getattr(self, name)


def redirect(request: Any, path: str) -> Any:
    """Return a redirect to a path of this server."""
    from starlette.responses import RedirectResponse

    return RedirectResponse(prefix_of(request) + path, 303)


def number_in(
    parameters: Mapping[str, str], name: str, default: int | None = None, most: int | None = None
) -> int:
    """Return a parameter as a number that is not negative.

    It is `default` if it is missing or empty, and must not be larger than `most`.

    Raises:
        ValueError: It is missing, not a number, or too large.
    """
    text = parameters.get(name)
    if not text and default is not None:
        return default
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 20:
        raise ValueError(f"{name}={text or ''}: expected a number")
    if most is not None and int(text) > most:
        raise ValueError(f"{name}={text}: expected at most {most:,}")
    return int(text)


def numbers_in(parameters: Any, name: str, most: int | None = None) -> list[int]:
    """Return a parameter that may be repeated as numbers. Raise ValueError as `number_in` does."""
    return [number_in({name: text}, name, most=most) for text in parameters.getlist(name)]


def as_json_answer(value: Any, *, status: int = 200) -> Any:
    """Return an answer with a JSON value."""
    return bytes_answer(json.dumps(value).encode(), "application/json", status=status)


def bytes_answer(body: bytes, kind: str, *, status: int = 200, cache: str = "no-store") -> Any:
    """Return an answer with bytes of a content type."""
    from starlette.responses import Response

    return Response(body, status, {"cache-control": cache, "content-type": kind})
