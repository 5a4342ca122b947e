"""The columns of a dataset: what there is to filter and sort by, and histograms of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bushel.viewer.histograms import Asked, condition_name, histogram_of
from bushel.viewer.selection import Query, select
from bushel.viewer.shelf import plain_text
from bushel.viewer.site import Handler, Pages, as_json_answer

__all__ = ["ColumnPages"]

_SIZES = frozenset(("bytes", "width", "height", "length", "frames", "duration", "channels", "hash"))
"""Last parts of the names of columns that hold sizes or hashes: they are never classes."""
_LARGEST = 20_000_000
"""Number of samples up to which histograms are made."""


class ColumnPages(Pages):
    """The handler of histograms."""

    def routes(self) -> dict[str, Handler]:
        """Return the handlers by path."""
        return {"/api/{d:int}/histogram": self.histogram}

    def histogram(self, request: Any) -> Any:
        """The histogram of a column, of the selected samples and of all."""
        shown, parameters = self._site.shown(request), request.query_params
        name = parameters.get("column", "")
        if len(shown.dataset) > _LARGEST:
            raise ValueError(f"histograms are made of up to {_LARGEST:,} samples")
        selection = select(self._site.shelf, shown, Query.of(parameters))
        values, missing = self._site.shelf.column(shown, name)
        asked = Asked(
            labels=shown.labels.get(name, ()),
            size=name not in shown.dataset.spec and _is_size(name),
            logarithmic=parameters.get("scale") == "log",
            find=parameters.get("find", ""),
        )
        found = histogram_of(name, values, missing, selection.positions, asked)
        bins = [{**asdict(each), "label": plain_text(each.label)} for each in found.bins]
        return as_json_answer(
            {
                "column": name,
                "name": condition_name(name),
                "kind": found.kind,
                "bins": bins,
                "missing": found.missing,
                "more": found.more,
            }
        )


def _is_size(name: str) -> bool:
    """Return whether a column holds a size, such as `image.width`."""
    return name.rpartition(".")[2] in _SIZES
