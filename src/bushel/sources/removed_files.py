"""The files of a folder whose samples were removed from the opened folder: no source brings them back."""

from __future__ import annotations

from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.read.remaining import removed_in
from bushel.containers.folder_metadata import is_metadata
from bushel.storage import AnyPath
from bushel.storage.names import below


def removed_files(root: AnyPath) -> set[str]:
    """Return the paths, below `root`, of the files of the samples that were removed from this folder.

    Raises:
        FormatError: The folder cannot be opened, so that they are not known.
    """
    paths = set[str]()
    with open_dataset(root) as dataset:
        reader = dataset.reader
        if reader.shards[0].container == "folder":
            above = f"{reader.shards[0].shard.root}/"
            for position in removed_in(reader.shards).tolist():
                for field in dataset.spec:
                    path, _ = reader.location(position, field)
                    name = path.removeprefix(above)
                    # a table beside the files is of all samples
                    if name != path and not is_metadata(name):
                        paths.add(str(below(root, name, any_text=True)))
    return paths
