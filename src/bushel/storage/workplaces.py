"""Workplaces: the local folders of unfinished files."""

from __future__ import annotations

import os
from pathlib import Path

from bushel.errors import UnsupportedError

from .base import AnyPath
from .files import is_object
from .names import refuse_link, try_remove_tree


def workplace(root: AnyPath) -> Path | None:
    """Return the local folder that holds the unfinished files of a dataset.

    For a local dataset this is its own folder. For one in an object store it is a folder in
    `TMPDIR`, always the same for the same URL and user.

    Returns:
        The folder, which may not exist; None for another kind of storage, such as an HTTP server.
    """
    if isinstance(root, Path):
        return root
    if not is_object(root) or not root.writable:
        return None
    import hashlib  # which local datasets do not need
    import tempfile

    digest = hashlib.sha256(str(root).rstrip("/").encode("utf-8", "surrogateescape")).hexdigest()[
        :32
    ]
    return Path(tempfile.gettempdir()) / f"bushel-{os.getuid()}" / digest


def make_workplace(root: AnyPath) -> Path:
    """Return the workplace, created if necessary in a folder where no other user can write.

    Raises:
        UnsupportedError: The storage is of another kind.
        PermissionError: Another user owns the folder.
    """
    folder = workplace(root)
    if folder is None:
        raise UnsupportedError(
            f"{root} is neither local nor in an object store that Bushel writes to"
        )
    if folder == root:
        return folder
    above = folder.parent
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    if above.is_symlink() or above.lstat().st_uid != os.getuid():
        raise PermissionError(
            f"{above} belongs to another user: set TMPDIR to a folder of your own"
        )
    folder.mkdir(exist_ok=True)
    return folder


def leave_workplace(root: AnyPath) -> None:
    """Remove the workplace of a remote dataset, if it is empty."""
    if not isinstance(root, Path) and (folder := workplace(root)) is not None:
        # their removal was interrupted by a kill
        for removed in (folder / ".bushel").glob("done-*"):
            try_remove_tree(removed)
        remove_empty(folder / ".bushel" / "staging", folder / ".bushel", folder)


def make_staging_folder(folder: Path) -> None:
    """Create a staging folder and its parents, which another writer may remove in the meantime if they are empty."""
    refuse_link(folder)
    for _ in range(100):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileNotFoundError, FileExistsError):
            # another writer created or removed it in the meantime
            continue
        return
    folder.mkdir(parents=True, exist_ok=True)


def remove_empty(*folders: Path) -> None:
    """Remove folders that are empty, in this order, up to the first one that is not."""
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:  # not empty: other shards are being written, or it holds sidecars
            break
