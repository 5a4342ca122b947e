"""The grid, the page of a sample, the data that both show, the player, and the page of the shards."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import numpy as np

from bushel._pictures.texts import plain_text
from bushel.errors import BushelError

from .kinds import ShownField
from .overlay_pages import overlays_of
from .rows import MOST_ROWS, PLAYERS, add_columns, keys_of, rows_of, window_text
from .sample_page import sample_fields
from .selection import Query, select
from .shelf import Shown
from .site import Pages, Site, at, number_in, redirect
from .stored import Stored, media_type, picture_of, requested_range, side_for, stored_values

_TIME = "timestamp"
"""The column of LeRobot that says when a frame was taken."""
_STEPS = 20_000  # samples of an episode that are played at most
_DRAWN, _CHANNELS = 1500, 32  # steps and channels of an array that are drawn
_RATE = 10.0


def is_played(shown: Shown) -> bool:
    """Return whether a sample can be played: an episode, a sequence of pictures, a clip, or a sound."""
    return shown.episodes is not None or any(
        (field.sequence and field.visual) or field.frames or field.kind in ("clip", "audio")
        for field in shown.fields
    )


def tracks_of(shown: Shown, position: int) -> dict[str, Any]:
    """Return the values that play together with a sample, as JSON values.

    Returns:
        `steps`, `rate` (steps in a second), `first` (the position of the first step; None without
        an episode), `start` (the step to begin with), `title`, `tracks` (each a `field`, a `kind`,
        which is `pictures`, `channels`, `audio` or `video`, and a `count` of steps), and `errors`,
        one text for each field that cannot be read.

    Raises:
        IndexError: The position is out of range.
    """
    shown.dataset.selection.at(position)  # raises if it is out of range
    title, episode = plain_text(keys_of(shown.dataset, [position])[0]), None
    if shown.episodes is not None:
        title, steps = shown.episodes.of(position)
        first = max(steps.start, min(position, steps.stop - _STEPS))
        episode = range(first, min(steps.stop, first + _STEPS))
    tracks: list[dict[str, Any]] = []
    errors: list[str] = []
    playback = {"title": title, "tracks": tracks, "errors": errors, "rate": _RATE}
    for field in shown.fields:
        try:
            if episode is None:
                track = _of_sample(shown, field, position)
            else:
                track = _of_episode(shown, field, episode)
        except (BushelError, OSError, ValueError, LookupError) as error:
            errors.append(f"{field.name}: {plain_text(str(error))}")
            continue
        if track is not None:
            tracks.append({"field": field.name, **track})
    tracks.sort(key=lambda track: track["kind"] == "channels")  # pictures first
    if episode is None:
        steps_of_tracks = [track["count"] for track in tracks if "count" in track]
        return {**playback, "first": None, "start": 0, "steps": max(steps_of_tracks, default=1)}
    start = position - episode.start
    playback |= {"first": episode.start, "start": start, "steps": len(episode)}
    if _TIME in shown.dataset.columns and len(episode) > 1:
        times = shown.column(_TIME)[0][episode.start : episode.stop].astype(np.float64)
        step = float(np.median(np.diff(times)))
        playback["rate"] = 1 / step if np.isfinite(step) and step > 0 else _RATE
    return playback


def _of_sample(shown: Shown, field: ShownField, position: int) -> dict[str, Any] | None:
    if field.frames or (field.sequence and field.kind == "image"):
        elements: Any = shown.dataset.available(position).get(field.name)
        return {"kind": "pictures", "count": len(elements)} if elements else None
    if field.sequence:
        return None
    if field.kind in PLAYERS:
        if stored_values(shown.dataset, position, field.name) is None:
            return None
        return {"kind": PLAYERS[field.kind]}
    if field.kind != "array":
        return None
    array = np.asarray(shown.dataset[position, [field.name]].get(field.name))
    if array.dtype.kind in "biuf" and array.ndim in (1, 2) and len(array) > 1:
        return _channels(array.reshape(len(array), -1), len(array))
    return None


def _of_episode(shown: Shown, field: ShownField, episode: range) -> dict[str, Any] | None:
    if field.kind in ("image", "frame") and not field.sequence:
        return {"kind": "pictures", "count": len(episode)}
    if field.kind == "array" and not field.sequence:
        step = max(1, -(-len(episode) // _DRAWN))
        samples = shown.dataset.read(list(episode)[::step], [field.name])
        values = [np.asarray(sample.get(field.name)).reshape(-1) for sample in samples]
        are_numbers = all(vector.dtype.kind in "biuf" for vector in values)
        if are_numbers and len({len(vector) for vector in values}) == 1:
            return _channels(np.stack(values), len(episode))
    return None


def _channels(array: np.ndarray, count: int) -> dict[str, Any]:
    """Return an array (steps, channels) as a track; numbers that are not finite are None."""
    thin = array[:: max(1, -(-len(array) // _DRAWN)), :_CHANNELS].astype(np.float64)
    rows = [
        [float(f"{number:.5g}") if np.isfinite(number) else None for number in row]
        for row in thin.tolist()
    ]
    return {
        "kind": "channels",
        "count": count,
        "values": rows,
        "hidden": max(0, array.shape[1] - _CHANNELS),
    }


class PlayPages(Pages):
    """The handlers of the player."""

    @at("/d/{d:int}/play/{position:int}")
    def page(self, shown: Shown, request: Any) -> Any:
        """The player of a sample, or of the episode that it is of."""
        position = request.path_params["position"]
        key = plain_text(shown.key(position))
        return self._site.page(request, "play.html", shown, position=position, key=key)

    @at("/api/{d:int}/tracks/{position:int}")
    def tracks(self, shown: Shown, request: Any) -> Any:
        """Return the values that play together, as JSON."""
        return tracks_of(shown, request.path_params["position"])


_BLOCK = 1 << 18
_TABLE = 4  # fields of a line from which samples without pictures are shown as a table
_LIKES = 2  # number of fields of vectors by which a page offers to look for similar samples


class SamplePages(Pages):
    """The handlers of the grid and of samples."""

    @at("/d/{d:int}")
    def grid(self, shown: Shown, request: Any) -> Any:
        """The grid of all or of the selected samples."""
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
            query=Query.of(request.query_params),
            info=shown.dataset.info,
            columns=columns,
            overlaid=overlays["picture"] is not None,
            measured=shown.measured_columns,
            start=json.dumps(start),
            usual="table" if is_table and not pictures else "grid",
        )

    @at("/d/{d:int}/s/{position:int}")
    def sample(self, shown: Shown, request: Any) -> Any:
        """The page of one sample."""
        position = request.path_params["position"]
        query = Query.of(request.query_params)
        parameters = query.parameters()
        parameters += [("field", name) for name in request.query_params.getlist("field")]
        if "view" in request.query_params:
            parameters.append(("view", request.query_params["view"]))
        fields = sample_fields(shown, position)
        selection = select(shown, query)
        row = selection.row_of(position)
        before = after = None
        if row is not None:
            before = next(iter(selection.part(row - 1, 1)), None)
            after = next(iter(selection.part(row + 1, 1)), None)
        key = shown.key(position)
        return self._site.page(
            request,
            "sample.html",
            shown,
            kept=urlencode(parameters),
            back=urlencode([*parameters, *([("row", row)] if row else [])]),
            position=position,
            key=plain_text(key),
            raw_key=key,
            fields=fields,
            overlays=_overlay_names(self._site, shown),
            played=is_played(shown),
            window=window_text(shown.dataset, position),
            likes=shown.vector_names[:_LIKES],
            before=before,
            after=after,
            row=row,
            total=selection.size,
            shard=shown.dataset.shard_of(position),
        )

    @at("/d/{d:int}/key/{key:path}")
    def by_key(self, shown: Shown, request: Any) -> Any:
        """Redirect to the sample with a key: an address that stays the same when samples are added before it."""
        position = shown.dataset.position(request.path_params["key"])
        return redirect(request, f"/d/{shown.number}/s/{position}")

    @at("/api/{d:int}/rows")
    def rows(self, shown: Shown, request: Any) -> Any:
        """Rows of the grid."""
        parameters = request.query_params
        first = number_in(parameters, "first", 0)
        count = min(number_in(parameters, "count", 60), MOST_ROWS)
        query = Query.of(parameters)
        selection = select(shown, query)
        fields = parameters.getlist("field") or None
        positions = selection.part(first, count)
        rows = rows_of(shown, positions, fields)
        for row, tags in zip(rows, shown.tags.of(positions), strict=True):
            row["tags"] = tags
            if query.by and shown.episodes is not None:
                title, steps = shown.episodes.of(row["position"])
                row["values"].insert(0, ["episode", f"{title}, {len(steps):,} samples"])
        if "columns" in parameters:
            add_columns(shown, rows, positions)
        return {"total": selection.size, "first": first, "rows": rows}

    @at("/d/{d:int}/thumb")
    def thumb(self, shown: Shown, request: Any) -> Any:
        """A picture of a value."""
        parameters = request.query_params
        position, name = number_in(parameters, "i"), parameters.get("f", "")
        element = number_in(parameters, "e") if "e" in parameters else None
        side = side_for(number_in(parameters, "side", 256))
        key = (shown.number, position, name, side, element)
        return self._site.picture(key, lambda: picture_of(shown, position, name, side, element))

    @at("/d/{d:int}/bytes")
    def bytes(self, shown: Shown, request: Any) -> Any:
        """The stored bytes of a value, or a range of them, straight from the container."""
        from starlette.responses import StreamingResponse

        stored = _stored_value(shown, request.query_params)
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


def _stored_value(shown: Shown, parameters: Mapping[str, str]) -> Stored:
    """Return the value that the parameters `i`, `f` and perhaps `e` name."""
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
    base = stored.codec.partition("(")[0]
    return base if base.isalnum() and base.isascii() else "bin"


def _blocks(stored: Stored, start: int, stop: int) -> Iterator[bytes]:
    if stored.pieces:  # each read would join the whole record again
        yield stored.read(start, stop)
        return
    for first in range(start, stop, _BLOCK):
        yield stored.read(first, min(first + _BLOCK, stop))


_LISTED = 200  # number of boxes that are listed, too
_BOXES = 2000  # largest number of boxes on the map; of more shards, each box stands for several


def shard_boxes(shown: Shown) -> list[dict[str, Any]]:
    """Return the boxes of the map, each for a shard or for several neighbouring ones.

    Returns:
        For each box: `number` of its first shard, `shards`, `name` (path of the first file),
        `samples`, `bytes` of all files, `first` (position of its first sample), `state`, which is
        `ok` (the checksums of all fields are recorded), `partly` or `damaged` (its structure is),
        and `note`, the description of an error.
    """
    shards, starts = shown.dataset.shards, shown.dataset.reader.starts
    step = max(1, -(-len(shards) // _BOXES))
    boxes = []
    for number in range(0, len(shards), step):
        group = [shards[position] for position in range(number, min(number + step, len(shards)))]
        stamps = [stamp for shard in group for stamp in shard.stamps]
        name = plain_text(str(group[0].path(0)))
        if len(stamps) > 1:
            name += f" and {len(stamps) - 1:,} more"
        state, note = "ok" if all(shard.checksums for shard in group) else "partly", ""
        damages = [shard.damage for shard in group if shard.damage is not None]
        if damages:
            state = "damaged"
            note = plain_text(f"{damages[0].error.message}: {damages[0].describe()}")
        boxes.append(
            {
                "number": number,
                "shards": len(group),
                "name": name,
                "samples": sum(shard.samples for shard in group),
                "bytes": sum(stamp.size for stamp in stamps),
                # of a dataset that is joined to the first one, positions are not known
                "first": int(starts[number]) if number < len(starts) - 1 else 0,
                "state": state,
                "note": note,
            }
        )
    return boxes


class ShardPages(Pages):
    """The handler of the page of shards."""

    @at("/d/{d:int}/shards")
    def shards(self, shown: Shown, request: Any) -> Any:
        """The map and the list of shards."""
        boxes, reader = shard_boxes(shown), shown.dataset.reader
        # whether positions count all stored samples, in their order
        positions, stored = shown.dataset.selection.positions, range(int(reader.starts[-1]))
        whole = isinstance(positions, range) and positions == stored and reader.windows is None
        return self._site.page(
            request,
            "shards.html",
            shown,
            info=shown.dataset.info,
            boxes=boxes,
            largest=max((box["bytes"] for box in boxes), default=1) or 1,
            listed=boxes[:_LISTED],
            whole=whole,
        )
