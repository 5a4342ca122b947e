"""The routes of the viewer."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bushel import __version__
from bushel.core.dataset.info import readable_size
from bushel.core.parallel import cpu_count
from bushel.errors import BushelError
from bushel.viewer.byte_ranges import UnsatisfiableRange, media_type, requested_range
from bushel.viewer.extents import Stored, stored_values
from bushel.viewer.guard import Door, Guard
from bushel.viewer.pictures import picture_of, side_for
from bushel.viewer.rows import MOST_ROWS, rows_of
from bushel.viewer.sample_page import as_json, hex_lines, sample_fields
from bushel.viewer.selection import Query, select
from bushel.viewer.shelf import Shelf, Shown, plain_text

__all__ = ["make_app"]

_HERE = Path(__file__).parent
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_BLOCK = 1 << 18
_HEX = 4096

_PAGES: list[tuple[str, str]] = []
"""Names and paths of the pages of a dataset, after the grid."""

Handler = Callable[[Any], Any]


def make_app(shelf: Shelf, door: Door) -> Guard:
    """Return the ASGI application that shows these datasets to those who pass the door."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    site = Site(shelf)
    routes = [
        Route("/", site.home),
        Route("/static/{name}", site.static),
        Route("/d/{d:int}", site.answer(site.grid)),
        Route("/d/{d:int}/s/{position:int}", site.answer(site.sample)),
        Route("/d/{d:int}/key/{key:path}", site.answer(site.by_key)),
        Route("/d/{d:int}/thumb", site.answer(site.thumb)),
        Route("/d/{d:int}/bytes", site.answer(site.bytes)),
        Route("/d/{d:int}/hex", site.answer(site.hex)),
        Route("/api/{d:int}/rows", site.answer(site.rows)),
        Route("/api/{d:int}/sample/{position:int}", site.answer(site.sample_json)),
    ]
    return Guard(Starlette(routes=routes), door)


class Site:
    """The handlers of all routes. Starlette calls them in threads, several at once.

    Args:
        shelf: The datasets.
    """

    def __init__(self, shelf: Shelf) -> None:
        import jinja2

        self.shelf = shelf
        self._decoding = threading.BoundedSemaphore(2 * cpu_count())
        self._version = os.urandom(4).hex()  # part of the URLs of pictures, which browsers keep
        self._pages = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=jinja2.StrictUndefined
        )
        self._pages.filters.update(size=readable_size, count=lambda number: f"{number:,}", quoted=_quoted)
        self._static = {
            path.name: (path.read_bytes(), _TYPES[path.suffix])
            for path in (_HERE / "static").iterdir()
            if path.suffix in _TYPES
        }

    def answer(self, handler: Handler) -> Handler:
        """Wrap a handler so that an error becomes an answer that names it: data on disk may be damaged in any way."""

        @wraps(handler)
        def guarded(request: Any) -> Any:
            try:
                return handler(request)
            except UnsatisfiableRange:
                return _response(b"", "text/plain", status=416)
            except LookupError as error:
                return self._problem(request, 404, str(error.args[0]) if error.args else "not found")
            except (BushelError, OSError) as error:
                return self._problem(request, 422, str(error))
            except ValueError as error:
                return self._problem(request, 400, str(error))
            except (MemoryError, RecursionError) as error:
                return self._problem(request, 422, f"{type(error).__name__}: {error}")

        return guarded

    def _problem(self, request: Any, status: int, text: str) -> Any:
        text = plain_text(text)
        wants_page = "text/html" in request.headers.get("accept", "")
        if wants_page:
            return self._page(request, "problem.html", None, status=status, problem=text)
        return _json({"error": text}, status=status)

    def _page(self, request: Any, template: str, shown: Shown | None, *, status: int = 200, **values: Any) -> Any:
        prefix = request.scope.get("bushel.prefix", "")
        text = self._pages.get_template(template).render(
            prefix=prefix,
            version=self._version,
            bushel_version=__version__,
            datasets=self.shelf.datasets,
            shown=shown,
            pages=_PAGES,
            **values,
        )
        return _response(text.encode(), "text/html; charset=utf-8", status=status, cache="no-store")

    def _shown(self, request: Any) -> Shown:
        return self.shelf.shown(request.path_params["d"])

    # Pages

    def home(self, request: Any) -> Any:
        """Redirect to the first dataset."""
        from starlette.responses import RedirectResponse

        return RedirectResponse(f"{request.scope.get('bushel.prefix', '')}/d/0", 303)

    def static(self, request: Any) -> Any:
        """Return a style sheet or a script of this package."""
        found = self._static.get(request.path_params["name"])
        if found is None:
            return _response(b"not found\n", "text/plain", status=404)
        return _response(*found, cache="private, max-age=86400")

    def grid(self, request: Any) -> Any:
        """The grid of all or of the selected samples."""
        shown = self._shown(request)
        query = Query.of(request.query_params)
        info = shown.dataset.info
        main = shown.main and shown.main.name
        pictures = [field.name for field in shown.fields if field.visual or field.kind == "bytes"]
        start = {"samples": len(shown.dataset), "main": main, "pictures": pictures}
        return self._page(request, "grid.html", shown, here="samples", query=query, info=info, start=json.dumps(start))

    def sample(self, request: Any) -> Any:
        """The page of one sample."""
        shown, position = self._shown(request), request.path_params["position"]
        query = Query.of(request.query_params)
        fields = sample_fields(shown, position)
        selection = select(self.shelf, shown, query)
        row = selection.row_of(position)
        before, after = (
            (None, None)
            if row is None
            else (
                next(iter(selection.part(row - 1, 1)), None) if row else None,
                next(iter(selection.part(row + 1, 1)), None),
            )
        )
        return self._page(
            request,
            "sample.html",
            shown,
            here="samples",
            query=query,
            position=position,
            key=plain_text(shown.key(position)),
            raw_key=shown.key(position),
            fields=fields,
            before=before,
            after=after,
            row=row,
            total=selection.size,
            shard=shown.dataset.shard_of(position),
        )

    def by_key(self, request: Any) -> Any:
        """Redirect to the sample with a key: an address that stays the same when samples are added before it."""
        from starlette.responses import RedirectResponse

        shown = self._shown(request)
        position = shown.dataset.position(request.path_params["key"])
        return RedirectResponse(f"{request.scope.get('bushel.prefix', '')}/d/{shown.number}/s/{position}", 303)

    # Data

    def rows(self, request: Any) -> Any:
        """Rows of the grid."""
        shown, parameters = self._shown(request), request.query_params
        first, count = _number(parameters, "first", 0), min(_number(parameters, "count", 60), MOST_ROWS)
        selection = select(self.shelf, shown, Query.of(parameters))
        fields = parameters.getlist("field") or None
        rows = rows_of(shown, selection.part(first, count), fields)
        return _json({"total": selection.size, "first": first, "rows": rows})

    def sample_json(self, request: Any) -> Any:
        """A sample as JSON."""
        return _json(as_json(self._shown(request), request.path_params["position"]))

    def thumb(self, request: Any) -> Any:
        """A picture of a value."""
        shown, parameters = self._shown(request), request.query_params
        element = _number(parameters, "e", 0) if "e" in parameters else None
        side = side_for(_number(parameters, "side", 256))
        with self._decoding:  # threads beyond the processors only cost memory
            picture = picture_of(self.shelf, shown, _number(parameters, "i"), parameters.get("f", ""), side, element)
        return _response(picture.data, picture.media_type, cache="private, max-age=86400")

    def hex(self, request: Any) -> Any:
        """A part of a value as hex digits."""
        stored = self._stored(request)
        start = min(_number(request.query_params, "start", 0), stored.size) // 16 * 16
        lines = hex_lines(stored.read(start, start + _HEX), start)
        return _json({"start": start, "size": stored.size, "lines": lines})

    def bytes(self, request: Any) -> Any:
        """The stored bytes of a value, or a range of them, straight from the container."""
        from starlette.responses import StreamingResponse

        stored = self._stored(request)
        asked = requested_range(request.headers.get("range"), stored.size)
        start, stop = asked or (0, stored.size)
        kind = None if "download" in request.query_params else media_type(stored.read(0, 16))
        headers = {
            "accept-ranges": "bytes",
            "content-length": str(stop - start),
            "cache-control": "private, max-age=3600",
            "content-security-policy": "sandbox; default-src 'none'",
        }
        if asked is not None:
            headers["content-range"] = f"bytes {start}-{stop - 1}/{stored.size}"
        if kind is None:
            name = f"{request.query_params.get('i', '')}.{stored.extent.codec.partition('(')[0]}"
            headers["content-disposition"] = f'attachment; filename="{name}"'
        status = 200 if asked is None else 206
        body = _blocks(stored, start, stop)
        return StreamingResponse(body, status, headers, kind or "application/octet-stream")

    def _stored(self, request: Any) -> Stored:
        shown, parameters = self._shown(request), request.query_params
        values = stored_values(shown.dataset, _number(parameters, "i"), parameters.get("f", ""))
        element = _number(parameters, "e", 0)
        if values is None or element >= len(values):
            raise KeyError("this sample has no such value")
        return values[element]


def _blocks(stored: Stored, start: int, stop: int) -> Iterator[bytes]:
    if stored.extent.pieces:  # each read would join the whole record again
        yield stored.read(start, stop)
        return
    for first in range(start, stop, _BLOCK):
        yield stored.read(first, min(first + _BLOCK, stop))


def _number(parameters: Mapping[str, str], name: str, default: int | None = None) -> int:
    """Return a parameter as a number that is not negative.

    Raises:
        ValueError: It is missing, or not a number.
    """
    text = parameters.get(name)
    if text is None and default is not None:
        return default
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise ValueError(f"{name}={text or ''}: expected a number")
    return int(text)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="surrogateescape")


def _json(value: Any, *, status: int = 200) -> Any:
    body = json.dumps(value, ensure_ascii=True, allow_nan=True).encode()
    return _response(body, "application/json", status=status, cache="no-store")


def _response(body: bytes, kind: str, *, status: int = 200, cache: str = "no-store") -> Any:
    from starlette.responses import Response

    return Response(body, status, {"cache-control": cache, "content-type": kind})
