"""The page of quality: outliers of each measure, near-duplicates, and pictures that two datasets share."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bushel._pictures.values import value_pixels
from bushel.errors import BushelError
from bushel.viewer.extents import stored_values
from bushel.viewer.quality import MEASURES, Measures, measures_of, near_duplicates, picture_hash
from bushel.viewer.rows import rows_of
from bushel.viewer.shelf import Shown
from bushel.viewer.site import Handler, Site

__all__ = ["QualityPages", "measure"]

_SIDE = 96
_SECONDS = 3.0
"""Time for which a request measures."""
_EXTREME = 6
_GROUPS, _TILES = 30, 8
_LABELS = ("label", "cls", "class")


class QualityPages:
    """The handler of the page of quality.

    Args:
        site: Keeps the measures.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        return {"/d/{d:int}/quality": self.quality}

    def quality(self, request: Any) -> Any:
        """Measure some more pictures, and show what was found so far."""
        shown, shelf = self._site.shown(request), self._site.shelf
        name = shown.picture
        if name is None:
            raise KeyError("this dataset has no images to measure")
        others = [each for each in shelf.datasets if each is not shown and each.picture is not None]
        chosen = request.query_params.get("with", "")
        partner = next((each for each in others if str(each.number) == chosen), None)
        measures = shelf.measures_of(shown)
        with self._site.decoding:
            measure(shown, measures, _SECONDS)
            if partner is not None:
                measure(partner, shelf.measures_of(partner), _SECONDS)
        sides = [shown] if partner is None else [shown, partner]
        return self._site.page(
            request,
            "quality.html",
            shown,
            here="quality",
            name=name,
            measures=measures,
            words=MEASURES,
            others=others,
            partner=partner,
            progress=[(each.name, shelf.measures_of(each).done, len(each.dataset)) for each in sides],
            extremes=[(measure_, *_extremes(shown, name, measures, measure_)) for measure_ in MEASURES],
            groups=_groups(sides, [shelf.measures_of(each) for each in sides]),
        )


def measure(shown: Shown, measures: Measures, seconds: float) -> None:
    """Measure the pictures of further samples until a time has passed. Samples without a picture have no measures."""
    until = time.monotonic() + seconds
    name = shown.picture or ""
    while measures.done < len(shown.dataset) and time.monotonic() < until:
        position = measures.done
        measures.done += 1
        try:
            values = stored_values(shown.dataset, position, name)
            if not values:
                continue
            pixels = value_pixels(values[0].extent.codec, values[0].read(), _SIDE)
        except (BushelError, OSError, ValueError):  # its tile and its page show the error
            continue
        for measure_, value in measures_of(pixels).items():
            measures.values[measure_][position] = value
        measures.hashes[position] = picture_hash(pixels)


def _extremes(shown: Shown, name: str, measures: Measures, measure_: str) -> tuple[Any, Any]:
    """Return the samples with the least and with the greatest values."""
    values = measures.values[measure_]
    known = np.flatnonzero(np.isfinite(values))
    order = known[np.argsort(values[known], kind="stable")]
    ends = order[:_EXTREME].tolist(), order[::-1][:_EXTREME].tolist()
    return tuple(  # type: ignore[return-value]
        [(row, float(values[row["position"]])) for row in rows_of(shown, end, [name])] for end in ends
    )


def _groups(sides: list[Shown], measures: list[Measures]) -> list[dict[str, Any]]:
    """Return groups of near-duplicates: with two datasets, those that have members in both."""
    own = [each.distinct() for each in measures]
    hashes = np.concatenate([each.hashes[rows] for each, rows in zip(measures, own, strict=True)])
    members = [(side, int(row)) for side, rows in enumerate(own) for row in rows]
    found = []
    for group in near_duplicates(hashes):
        listed = [members[number] for number in group]
        if len(sides) > 1 and len({side for side, _ in listed}) < 2:
            continue
        most = _TILES // len(sides)
        chosen = [
            member for side in range(len(sides)) for member in [each for each in listed if each[0] == side][:most]
        ]
        shown_rows = []
        for side, position in chosen:
            [row] = rows_of(sides[side], [position], [sides[side].picture or ""])
            shown_rows.append((sides[side], row))
        labels = {value for _, row in shown_rows for name, value in row["values"] if name in _LABELS}
        found.append({"count": len(listed), "rows": shown_rows, "labels": sorted(labels)})
        if len(found) == _GROUPS:
            break
    return found
