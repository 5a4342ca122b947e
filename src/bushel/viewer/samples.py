"""The grid, the page of a sample, and the data that both show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from bushel._pictures.thumbnail import Picture
from bushel.viewer.byte_ranges import media_type, requested_range
from bushel.viewer.extents import Stored, stored_values
from bushel.viewer.overlay_pages import overlays_of
from bushel.viewer.pictures import kept_picture, picture_of, side_for
from bushel.viewer.rows import MOST_ROWS, add_columns, rows_of, window_text
from bushel.viewer.sample_page import as_json, hex_lines, sample_fields
from bushel.viewer.selection import Query, select
from bushel.viewer.shelf import LIKE, Shown, plain_text
from bushel.viewer.site import Pages, Site, as_json_answer, at, bytes_answer, number_in, redirect
from bushel.viewer.tracks import is_played

_BLOCK = 1 << 18
_HEX = 4096
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
            likeness=_likeness(Query.of(request.query_params)),
            measured=self._site.shelf.measured_columns(shown),
            start=json.dumps(start),
        )

    @at("/d/{d:int}/s/{position:int}")
    def sample(self, request: Any) -> Any:
        """The page of one sample."""
        shown, position = self._site.shown(request), request.path_params["position"]
        query = Query.of(request.query_params)
        fields_asked = [("field", name) for name in request.query_params.getlist("field")]
        if request.query_params.get("view") == "table":
            fields_asked.append(("view", "table"))
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

    @at("/api/{d:int}/sample/{position:int}")
    def sample_json(self, request: Any) -> Any:
        """A sample as JSON."""
        return as_json_answer(as_json(self._site.shown(request), request.path_params["position"]))

    @at("/d/{d:int}/thumb")
    async def thumb(self, request: Any) -> Any:
        """A picture of a value. One that was kept is returned at once, others are made in a thread."""
        from starlette.concurrency import run_in_threadpool

        try:
            picture = kept_picture(self._site.shelf, *self._wanted(request))
        except (LookupError, ValueError):
            picture = None
        if picture is not None:
            return _picture_answer(picture)
        return await run_in_threadpool(self._site.answering(self._make_thumb), request)

    def _make_thumb(self, request: Any) -> Any:
        place = self._wanted(request)
        with self._site.decoding:
            return _picture_answer(picture_of(self._site.shelf, *place))

    def _wanted(self, request: Any) -> tuple[Shown, int, str, int, int | None]:
        """Return the arguments of `picture_of` in the parameters of a URL."""
        shown, parameters = self._site.shown(request), request.query_params
        element = number_in(parameters, "e") if "e" in parameters else None
        side = side_for(number_in(parameters, "side", 256))
        return shown, number_in(parameters, "i"), parameters.get("f", ""), side, element

    @at("/d/{d:int}/hex")
    def hex(self, request: Any) -> Any:
        """A part of a value as hex digits."""
        stored = self._stored(request)
        start = min(number_in(request.query_params, "start", 0), stored.size) // 16 * 16
        lines = hex_lines(stored.read(start, start + _HEX), start)
        return as_json_answer({"start": start, "size": stored.size, "lines": lines})

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


def _likeness(query: Query) -> str:
    """Return the column of likenesses to one sample that a query sorts by; empty if it sorts by another."""
    name = query.sort.removeprefix("-")
    return name if name.startswith(LIKE) else ""


def _overlay_names(site: Site, shown: Shown) -> dict[str, Any]:
    """Return the picture field that has annotations, and their fields; None if no picture has them."""
    overlays = overlays_of(site, shown)
    if overlays is None:
        return {"picture": None}
    return {"picture": overlays.picture, "fields": [overlay.field for overlay in overlays.fields]}


def _picture_answer(picture: Picture) -> Any:
    return bytes_answer(picture.data, picture.media_type, cache="private, max-age=86400")


def _suffix(stored: Stored) -> str:
    base = stored.extent.codec.partition("(")[0]
    return base if base.isalnum() and base.isascii() else "bin"


def _blocks(stored: Stored, start: int, stop: int) -> Iterator[bytes]:
    if stored.extent.pieces:  # each read would join the whole record again
        yield stored.read(start, stop)
        return
    for first in range(start, stop, _BLOCK):
        yield stored.read(first, min(first + _BLOCK, stop))
