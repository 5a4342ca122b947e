"""The columns by which a dataset can be filtered and sorted."""

from __future__ import annotations

from collections.abc import Sequence

from bushel._dataset.views.inside import windows_of
from bushel.errors import BushelError
from bushel.viewer.shelf import Shown


def column_choices(shown: Shown) -> Sequence[str]:
    """Return the columns for filters and sorting: the columns of the index, and the sizes of fields."""
    try:
        columns = shown.dataset.columns
    except (BushelError, OSError):
        # an index that cannot be read: reading its samples raises the error
        columns = ()
    names = {field.name for field in shown.fields}
    lengths = [f"{field.name}.length" for field in shown.fields if field.sequence]
    windows = windows_of(shown.dataset)
    # of windows, without bytes of their own
    padding = set() if windows is None else set(windows.shape.pads)
    sized = [field for field in shown.fields if field.name not in padding]
    sizes = [
        f"{field.name}.bytes" for field in sized if field.visual or field.kind in ("bytes", "text")
    ]
    chosen = [name for name in columns if name in names or name.partition(".")[0] in names]
    chosen.sort(key=lambda name: name not in names)  # labels before sizes
    return list(dict.fromkeys([*chosen, *lengths, *sizes]))
