"""The grid, the page of a sample, and the data that both show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from .byte_ranges import media_type, requested_range
from .extents import Stored, stored_values
from .overlay_pages import overlays_of
from .pictures import picture_of, side_for
from .rows import MOST_ROWS, add_columns, rows_of, window_text
from .sample_page import sample_fields
from .selection import Query, select
from .shelf import Shown, plain_text
from .site import Pages, Site, as_json_answer, at, bytes_answer, number_in, redirect
from .tracks import is_played

_BLOCK = 1 << 18
_TABLE = 4  # fields of a line from which samples without pictures are shown as a table
_LIKES = 2  # number of fields of vectors by which a page offers to look for similar samples


class SamplePages(Pages):
    """The handlers of the grid and of samples."""

    @at("/d/{d:int}")
    def grid(self, request: Any) -> Any:
        """The grid of all or of the selected samples."""
        shown = self._site.shown(request)
        main = shown.main and shown.main.name
        pictures = [field.name for field in shown.fields if field.visual or field.kind == "bytes"]
        columns = shown.columns
        short = [field.name for field in shown.fields if field.short]
        is_table = len(short) >= _TABLE and shown.main is not None and shown.main.kind != "tree"
        overlays = _overlay_names(self._site, shown)
        start = {
            "samples": len(shown.dataset),
            "main": main,
            "pictures": pictures,
            "short": short,
            "columns": list(columns),
            "overlays": overlays,
            "compared": shown.compared,
        }
        return self._site.page(
            request,
            "grid.html",
            shown,
            here="samples",
            query=Query.of(request.query_params),
            info=shown.dataset.info,
            columns=columns,
            overlaid=overlays["picture"] is not None,
            measured=self._site.shelf.measured_columns(shown),
            start=json.dumps(start),
            usual="table" if is_table and not pictures else "grid",
        )

    @at("/d/{d:int}/s/{position:int}")
    def sample(self, request: Any) -> Any:
        """The page of one sample."""
        shown, position = self._site.shown(request), request.path_params["position"]
        query = Query.of(request.query_params)
        fields_asked = [("field", name) for name in request.query_params.getlist("field")]
        if "view" in request.query_params:
            fields_asked.append(("view", request.query_params["view"]))
        fields = sample_fields(shown, position)
        selection = select(self._site.shelf, shown, query)
        row = selection.row_of(position)
        before = selection.part(row - 1, 1) if row else []
        after = selection.part(row + 1, 1) if row is not None else []
        key = shown.key(position)
        return self._site.page(
            request,
            "sample.html",
            shown,
            here="samples",
            kept=urlencode([*query.parameters(), *fields_asked]),
            back=urlencode([*query.parameters(), *fields_asked, *([("row", row)] if row else [])]),
            position=position,
            key=plain_text(key),
            raw_key=key,
            fields=fields,
            overlays=_overlay_names(self._site, shown),
            played=is_played(shown),
            window=window_text(shown.dataset, position),
            likes=self._site.shelf.vector_names(shown)[:_LIKES],
            before=before[0] if before else None,
            after=after[0] if after else None,
            row=row,
            total=selection.size,
            shard=shown.dataset.shard_of(position),
        )

    @at("/d/{d:int}/key/{key:path}")
    def by_key(self, request: Any) -> Any:
        """Redirect to the sample with a key: an address that stays the same when samples are added before it."""
        shown = self._site.shown(request)
        position = shown.dataset.position(request.path_params["key"])
        return redirect(request, f"/d/{shown.number}/s/{position}")

    @at("/api/{d:int}/rows")
    def rows(self, request: Any) -> Any:
        """Rows of the grid."""
        shown, parameters = self._site.shown(request), request.query_params
        first, count = (
            number_in(parameters, "first", 0),
            min(number_in(parameters, "count", 60), MOST_ROWS),
        )
        selection = select(self._site.shelf, shown, Query.of(parameters))
        fields = parameters.getlist("field") or None
        positions = selection.part(first, count)
        rows = rows_of(shown, positions, fields)
        for row, tags in zip(rows, self._site.shelf.tags[shown.number].of(positions), strict=True):
            row["tags"] = tags
        if "columns" in parameters:
            add_columns(shown, rows, positions)
        return as_json_answer({"total": selection.size, "first": first, "rows": rows})

    @at("/d/{d:int}/thumb")
    def thumb(self, request: Any) -> Any:
        """A picture of a value."""
        shown, parameters = self._site.shown(request), request.query_params
        position, name = number_in(parameters, "i"), parameters.get("f", "")
        element = number_in(parameters, "e") if "e" in parameters else None
        side = side_for(number_in(parameters, "side", 256))
        with self._site.decoding:
            picture = picture_of(self._site.shelf, shown, position, name, side, element)
        return bytes_answer(picture.data, picture.media_type, cache="private, max-age=86400")

    @at("/d/{d:int}/bytes")
    def bytes(self, request: Any) -> Any:
        """The stored bytes of a value, or a range of them, straight from the container."""
        from starlette.responses import StreamingResponse

        stored = self._stored(request)
        requested = requested_range(request.headers.get("range"), stored.size)
        start, stop = requested or (0, stored.size)
        if "download" in request.query_params:
            kind = None
        else:
            kind = media_type(stored.read(0, 16))
        headers = {
            "accept-ranges": "bytes",
            "content-length": str(stop - start),
            "cache-control": "private, max-age=3600",
            "content-security-policy": "sandbox; default-src 'none'",
        }
        if requested is not None:
            headers["content-range"] = f"bytes {start}-{stop - 1}/{stored.size}"
        if kind is None:
            position = number_in(request.query_params, "i")
            headers["content-disposition"] = f'attachment; filename="{position}.{_suffix(stored)}"'
        body = _blocks(stored, start, stop)
        status = 200 if requested is None else 206
        return StreamingResponse(body, status, headers, kind or "application/octet-stream")

    def _stored(self, request: Any) -> Stored:
        shown, parameters = self._site.shown(request), request.query_params
        values = stored_values(shown.dataset, number_in(parameters, "i"), parameters.get("f", ""))
        element = number_in(parameters, "e", 0)
        if values is None or element >= len(values):
            raise KeyError("this sample has no such value")
        return values[element]


def _overlay_names(site: Site, shown: Shown) -> dict[str, Any]:
    """Return the picture field that has annotations, and their fields; None if no picture has them."""
    overlays = overlays_of(site, shown)
    if overlays is None:
        return {"picture": None}
    return {"picture": overlays.picture, "fields": [overlay.field for overlay in overlays.fields]}


def _suffix(stored: Stored) -> str:
    base = stored.extent.codec.partition("(")[0]
    return base if base.isalnum() and base.isascii() else "bin"


def _blocks(stored: Stored, start: int, stop: int) -> Iterator[bytes]:
    if stored.extent.pieces:  # each read would join the whole record again
        yield stored.read(start, stop)
        return
    for first in range(start, stop, _BLOCK):
        yield stored.read(first, min(first + _BLOCK, stop))
