"""Tagging samples from the grid, and exporting tagged or filtered samples."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from bushel._pictures.texts import plain_text

from .rows import keys_of
from .selection import Query, Selection, select
from .shelf import LIKE, QUALITY, Shown
from .site import Pages, at, number_in, numbers_in
from .tags import checked_name

_CHUNK = 1 << 14
_SPELLED = 20  # largest number of samples that the line of Python names one by one


class TagPages(Pages):
    """The handlers of tags and of exports."""

    @at("/api/{d:int}/tags")
    def tags(self, shown: Shown, request: Any) -> Any:
        """The tags with their numbers of samples."""
        lost = {name: len(members) for name, members in shown.tags.lost.items()}
        return {"tags": shown.tags.counts(), "lost": lost}

    @at("/api/{d:int}/tags", "POST")
    def change(self, shown: Shown, request: Any) -> Any:
        """Add a tag to samples, or remove it.

        Parameters: `name`; `do`, which is `add` or `remove`; and the samples: `i`, a
        position (once or more), or `first` and `count`, rows of the selection that `q`, `where`,
        `sort` and `tag` make; without them, all rows.
        """
        parameters = request.query_params
        name, do = checked_name(parameters.get("name", "")), parameters.get("do", "")
        if do not in ("add", "remove"):
            raise ValueError(f"do={do}: expected add or remove")
        if "i" in parameters:
            positions: Any = np.array(numbers_in(parameters, "i"), np.int64)
        else:
            selection = select(shown, Query.of(parameters))
            first = number_in(parameters, "first", 0, 1 << 60)
            count = number_in(parameters, "count", selection.size, 1 << 60)
            positions = selection.rows(first, count)
        shown.tags.change(name, positions, add=do == "add")
        if self._shelf.tag_file is not None:
            self._shelf.tag_file.save()
        return self.tags(shown, request)

    @at("/api/{d:int}/view", "POST")
    def save_view(self, shown: Shown, request: Any) -> Any:
        """Save the listed samples as a view of the dataset, beside its data, by the parameter `name`.

        The answer has the number of its samples, and the command that makes a dataset of it.
        """
        query = Query.of(request.query_params)
        name = request.query_params.get("name", "").strip()
        selection = select(shown, query)
        view = shown.dataset
        if _is_condition(query):
            view = view.where(query.where)
        elif selection.positions is not None:
            view = view[selection.positions]
        view.save_view(name)
        command = f"bushel convert {shown.path} OUT --view {name}"
        return {"samples": len(view), "command": command}

    @at("/api/{d:int}/export")
    def export(self, shown: Shown, request: Any) -> Any:
        """The selected samples as keys, as CSV, or as a line of Python."""
        from starlette.responses import StreamingResponse

        parameters = request.query_params
        kind = parameters.get("as", "keys")
        selection = select(shown, Query.of(parameters))
        if kind == "python":
            return {"python": line_of_python(shown, Query.of(parameters), selection)}
        if kind not in _FORMS:
            raise ValueError(f"as={kind}: expected {', '.join(_FORMS)} or python")
        name, media, form = _FORMS[kind]
        headers = {
            "content-disposition": f'attachment; filename="{name}"',
            "cache-control": "no-store",
            "content-security-policy": "sandbox; default-src 'none'",
        }
        return StreamingResponse(form(shown, selection), 200, headers, media)


def _is_condition(query: Query) -> bool:
    """Return whether `Dataset.where` takes a query: a condition, but not on columns that only the viewer has."""
    of_viewer = QUALITY in query.where or LIKE in query.where
    return bool(query.where) and query == Query(where=query.where) and not of_viewer


def line_of_python(shown: Shown, query: Query, selection: Selection) -> str:
    """Return an expression that chooses these samples: of the dataset at its path, or of `ds`, which was given."""
    opened = shown.expression
    if query.everything:
        return opened
    if _is_condition(query):
        return f"{opened}.where({query.where!r})"
    if not shown.dataset.info.keyed:
        if selection.size <= _SPELLED:
            return f"{opened}[{selection.part(0, _SPELLED)}]"
        return f'{opened}[numpy.loadtxt("selection.txt", dtype=int)]'
    if selection.size <= _SPELLED:
        return f"{opened}.select_keys({keys_of(shown.dataset, selection.part(0, _SPELLED))!r})"
    return (
        f'{opened}.select_keys(open("selection.txt", '
        'encoding="utf-8", newline="").read().split("\\n")[:-1])'
    )


def _parts(selection: Selection) -> Iterator[list[int]]:
    for first in range(0, selection.size, _CHUNK):
        yield selection.part(first, _CHUNK)


def _as_keys(shown: Shown, selection: Selection) -> Iterator[bytes]:
    keyed = shown.dataset.info.keyed
    for part in _parts(selection):
        names = keys_of(shown.dataset, part) if keyed else map(str, part)
        yield "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")


def _as_csv(shown: Shown, selection: Selection) -> Iterator[bytes]:
    yield b"position,key,tags\r\n"
    for part in _parts(selection):
        text = io.StringIO()
        keys = map(plain_text, keys_of(shown.dataset, part))
        tags = map("|".join, shown.tags.of(part))
        csv.writer(text).writerows(zip(part, keys, tags, strict=True))
        yield text.getvalue().encode()


_FORMS = {
    "keys": ("selection.txt", "text/plain; charset=utf-8", _as_keys),
    "table": ("selection.csv", "text/csv; charset=utf-8", _as_csv),
}
