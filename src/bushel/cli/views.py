"""`bushel views`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from .command import Option
from .options import Json, OnePath


def command(
    path: OnePath,
    *,
    delete: Annotated[str | None, Option("Delete the view of this name.")] = None,
    as_json: Json = False,
) -> None:
    """List the views that are saved beside a dataset, or delete one.

    `ds.save_view("clean")` saves a view, and `bushel.open(path, view="clean")` opens it. A view is
    stale if the dataset has changed since.

    Examples:
      bushel views train/
      bushel views train/ --delete clean
    """
    from bushel._dataset.views.views import delete as delete_view
    from bushel._dataset.views.views import list_views

    from .output import columns, print_json, print_text

    if delete is not None:
        delete_view(path, delete)
    views = list_views(path)
    if as_json:
        print_json([asdict(view) for view in views])
        return
    if delete is not None:
        return
    rows = [
        (view.name, f"{view.samples:,}", "stale" if view.stale else "", view.made) for view in views
    ]
    for line in columns(rows) if rows else ["no views are saved"]:
        print_text(line.rstrip())
