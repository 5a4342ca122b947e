"""The map: the vectors of samples in the plane of their main directions, with a lasso."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._pictures.palette import class_colours
from bushel._pictures.pixels import colours
from bushel.viewer.column_choices import column_choices
from bushel.viewer.rows import keys_of, line_of
from bushel.viewer.selection import Query, select
from bushel.viewer.shelf import Shown, plain_text
from bushel.viewer.site import Pages, as_json_answer, at, bytes_answer
from bushel.viewer.tags import checked_name
from bushel.viewer.vectors import Vectors, inside, read_more

Legend = list[tuple[int, str, str]]
"""Colour number, text and colour."""

_SECONDS = 1.0  # seconds for which one request reads vectors; then the page sends another one
_CLASSES = 250
_STEPS = 16
# colour numbers of samples without a value, and of those that the filters do not list
_ABSENT, _OTHER = 255, 254
_CORNERS = 2000
_SHOWN = 12


class MapPages(Pages):
    """The handlers of the map."""

    @at("/d/{d:int}/map")
    def page(self, request: Any) -> Any:
        """The map of a field."""
        shown, parameters = self._site.shown(request), request.query_params
        names = self._site.shelf.vector_names(shown)
        name = parameters.get("field") or next(iter(names), "")
        if name not in names:
            raise KeyError(f"unknown vectors {name!r}: known are {', '.join(names) or 'none'}")
        columns = column_choices(shown)
        colour = parameters.get(
            "colour", next((column for column in columns if column in shown.dataset.spec), "")
        )
        query = Query.of(parameters)
        return self._site.page(
            request,
            "map.html",
            shown,
            here="map",
            names=names,
            name=name,
            columns=columns,
            colour=colour,
            query=query,
        )

    @at("/api/{d:int}/map")
    def status(self, request: Any) -> Any:
        """How many vectors were read; each request reads some more."""
        shown, vectors = self._vectors(request)
        read_more(shown.dataset, vectors, _SECONDS)
        total = len(vectors.rows)
        progress = {
            "done": vectors.done,
            "total": total,
            "samples": len(shown.dataset),
            "numbers": vectors.values.shape[1],
        }
        if vectors.done < total:
            return as_json_answer(progress)
        points = vectors.settle()
        step = int(vectors.rows[1]) if total > 1 else 1
        missing = int(np.count_nonzero(np.isnan(points[:, 0])))
        return as_json_answer(
            progress
            | {
                "step": step,
                "missing": missing,
                "explained": vectors.explained,
            }
        )

    @at("/api/{d:int}/points")
    def points(self, request: Any) -> Any:
        """The places of all vectors: float32 x and y, one after another, little-endian."""
        _, vectors = self._vectors(request)
        return bytes_answer(_settled(vectors).astype("<f4").tobytes(), "application/octet-stream")

    @at("/api/{d:int}/colours")
    def colours(self, request: Any) -> Any:
        """A colour number for each vector, and the legend of the numbers."""
        shown, vectors = self._vectors(request)
        parameters = request.query_params
        name = parameters.get("colour", "")
        numbers: npt.NDArray[np.uint8] = np.zeros(len(vectors.rows), np.uint8)
        legend: Legend = [(0, "all samples", "#2d6a4f")]
        if name:
            values, missing = self._site.shelf.column(shown, name)
            numbers, legend = _numbers(shown, name, values, missing, vectors.rows)
        selection = select(self._site.shelf, shown, Query.of(parameters))
        if selection.positions is not None:
            listed = np.zeros(len(shown.dataset), np.bool_)
            listed[selection.positions] = True
            numbers[~listed[vectors.rows]] = _OTHER
        counts = np.bincount(numbers, minlength=256)
        legend += [(_OTHER, "not listed", "#c9c4b8"), (_ABSENT, "no value", "#8a8579")]
        used = [
            [number, text, colour, int(counts[number])]
            for number, text, colour in legend
            if counts[number]
        ]
        return as_json_answer(
            {"legend": used, "numbers": base64.b64encode(numbers.tobytes()).decode()}
        )

    @at("/api/{d:int}/lasso", "POST")
    def lasso(self, request: Any) -> Any:
        """Count the listed samples in a polygon, and add a tag to them or remove it.

        Parameters: `polygon`, x and y of its corners on the map, separated by commas; `name` and
        `do`, as for tags.
        """
        shown, vectors = self._vectors(request)
        parameters = request.query_params
        places = _settled(vectors)
        within: npt.NDArray[Any] = vectors.rows[
            inside(places, _polygon(parameters.get("polygon", "")))
        ]
        selection = select(self._site.shelf, shown, Query.of(parameters))
        if selection.positions is not None:
            listed: npt.NDArray[np.bool_] = np.isin(within, selection.positions)
            within = within[listed]
        if parameters.get("name"):
            do = parameters.get("do", "")
            if do not in ("add", "remove"):
                raise ValueError(f"do={do}: expected add or remove")
            self._site.shelf.tag(shown, checked_name(parameters["name"]), within, add=do == "add")
        first = within.tolist()[:: max(1, len(within) // _SHOWN)][:_SHOWN]
        if first:
            keys = [plain_text(key) for key in keys_of(shown.dataset, first)]
        else:
            keys = []
        tags = self._site.shelf.tags[shown.number].counts()
        return as_json_answer(
            {"count": len(within), "some": list(zip(first, keys, strict=True)), "tags": tags}
        )

    def _vectors(self, request: Any) -> tuple[Shown, Vectors]:
        shown = self._site.shown(request)
        return shown, self._site.shelf.vectors_of(shown, request.query_params.get("field", ""))


def _settled(vectors: Vectors) -> npt.NDArray[np.float32]:
    """Return the places of all vectors. Raise ValueError if not all were read."""
    if vectors.done < len(vectors.rows):
        raise ValueError(f"{vectors.done} of {len(vectors.rows)} vectors have been read so far")
    return vectors.settle()


def _polygon(text: str) -> npt.NDArray[np.float64]:
    try:
        numbers = np.array([float(number) for number in text.split(",")], np.float64)
    except ValueError:
        numbers = np.zeros(0)
    if (
        len(numbers) < 6
        or len(numbers) % 2
        or len(numbers) > 2 * _CORNERS
        or not np.isfinite(numbers).all()
    ):
        raise ValueError(
            f"the polygon has {len(numbers)} numbers: expected x and y of 3 to {_CORNERS:,} corners"
        )
    return numbers.reshape(-1, 2)


def _numbers(
    shown: Shown, name: str, values: npt.NDArray[Any], missing: Any, rows: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], Legend]:
    """Return a colour number for each vector, and the legend: number, text, colour."""
    column = np.ma.getdata(values)[rows]
    if missing is None:
        lost = np.zeros(len(rows), np.bool_)
    else:
        lost = np.asarray(missing)[rows].copy()
    if column.dtype.kind == "f":
        lost |= np.isnan(column)
    present = np.flatnonzero(~lost)
    numbers = np.full(len(rows), _ABSENT, np.uint8)
    if not len(present):
        return numbers, []
    kinds, which, counts = np.unique(column[present], return_inverse=True, return_counts=True)
    if len(kinds) <= 64 or column.dtype.kind not in "iuf" or name in shown.labels:
        order = np.argsort(-counts, kind="stable")[:_CLASSES]
        place = np.full(len(kinds), _OTHER, np.uint8)
        place[order] = np.arange(len(order))
        numbers[present] = place[which]
        hues = class_colours()
        return numbers, [
            (number, line_of(shown, name, kinds[kind].item()), "#" + bytes(hues[1 + number]).hex())
            for number, kind in enumerate(order.tolist())
        ]
    edges = np.quantile(column[present].astype(np.float64), np.linspace(0, 1, _STEPS + 1))
    numbers[present] = np.searchsorted(edges[1:-1], column[present], side="right")
    shades = colours(np.arange(_STEPS, dtype=np.float64)[None])[0]
    return numbers, [
        (step, f"{edges[step]:.4g} to {edges[step + 1]:.4g}", "#" + bytes(shades[step]).hex())
        for step in range(_STEPS)
    ]
