"""Folders of MDS streams without a merged index: which of them are one dataset beyond doubt."""

from __future__ import annotations

from collections.abc import Callable

from bushel._index.table import Shard
from bushel._runtime.log import log_warning
from bushel.containers.json_index import INDEX, load_index
from bushel.containers.mds.described import parse_entries
from bushel.errors import FormatError
from bushel.storage import AnyPath, below

_ABOUT = ("README", "LICENSE", ".json", ".md", ".txt", ".yaml", ".yml")
_SPLITS = frozenset(
    {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval"}
)
_SHOWN = 3


def certain_streams(
    path: AnyPath, listed: Callable[[AnyPath], list[Shard] | None]
) -> list[Shard] | None:
    """Return the shards of all streams of a folder, in the order of their names; None if it is another folder.

    Each sub-folder must have an index.json of MDS, and the folder no files but pages about the
    data.

    Args:
        path: The folder.
        listed: Returns the shards that the index.json of a folder lists, None for one of another
            format.

    Raises:
        FormatError: The streams have names of splits or different columns, or one is damaged.
    """
    names, shards, columns = list[str](), list[Shard](), list[object]()
    for entry in sorted(
        (child for child in path.iterdir() if not child.name.startswith(".")),
        key=lambda child: child.name,
    ):
        if entry.name.endswith(_ABOUT) and not entry.is_dir():
            continue
        folder = below(path, entry.name, any_text=True)
        if not (folder / INDEX).is_file() or (shards_of_stream := listed(folder)) is None:
            return None
        names.append(entry.name)
        shards += shards_of_stream
        entries = load_index(folder, parse_entries) or {}
        columns += [
            (description.column_names, description.column_encodings)
            for description in entries.values()
        ]
    if not names:
        return None
    shown = ", ".join(names[:_SHOWN]) + (
        f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    )
    problem = ""
    if not _SPLITS.isdisjoint(name.lower() for name in names):
        problem = "the names of splits"
    problem = problem or (
        "different columns" if any(of_entry != columns[0] for of_entry in columns) else ""
    )
    if problem:
        first = below(path, names[0], any_text=True)
        raise FormatError(
            f"its sub-folders are MDS datasets with {problem}: {shown}",
            file=str(path),
            hint=f"name one of them, such as {str(first)!r}; container='mds' joins all of them",
        )
    log_warning("%s: read as the streams of one MDS dataset: %s", path, shown)
    return shards
