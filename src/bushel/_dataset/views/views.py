"""The views that are saved beside a dataset: `bushel.list_views`."""

from __future__ import annotations

from bushel._dataset.open.open import open as open_dataset
from bushel._runtime.public import public
from bushel.storage import AnySource

from .saved_views import SavedView, saved_views


@public()
def list_views(source: AnySource) -> list[SavedView]:
    """Return the views of a dataset that `Dataset.save` stored, by name. No data file is read.

    Args:
        source: Anything that `bushel.open` takes.

    Examples:
        >>> ds.save_view("all")
        >>> [view.name for view in bushel.list_views("train/")]
        ['all']
    """
    with open_dataset(source) as dataset:
        return saved_views(dataset)
