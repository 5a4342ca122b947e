"""Paths from names in files: a name never leads out of its folder, and links are not followed for writing.

A name in a manifest, a table, a plan, a list or a packed folder is as untrusted as the file that
holds it. So every place that joins such a name to a folder uses `below`, or `inside` if it writes
or removes there. SECURITY.md lists the rules for each kind of name; `tests/test_joined_paths.py`
finds the places.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from bushel.errors import FormatError

from .base import AnyPath

COMMIT_LIST = "commit.json"
"""Name of the file in a staging folder that commits it: `storage.publish` moves what it lists."""
_SIDECARS = ".bushel"
_FOREIGN = r"" if os.sep == "/" else r"|[\\:]"  # other systems than POSIX have drives
leads_out = re.compile(rf"(?:\A|/)\.{{0,2}}(?:/|\Z)|\0{_FOREIGN}").search
"""Matches names that do not name a file below a folder. `below` refuses them."""
_SHOWN = 200
_HINT = (
    "the file that holds this name is damaged or forged: delete it, or use a copy that you trust"
)

PathT = TypeVar("PathT", bound=AnyPath)


def below(folder: PathT, name: str, *, any_text: bool = False) -> PathT:
    """Return the path of a file in a folder, by its name in a file.

    Args:
        folder: The folder.
        name: The name, relative to the folder, with `/`.
        any_text: Whether control characters may be in it, as in the names of photos. Files of
            datasets have none.

    Raises:
        FormatError: The name is empty, absolute, a URL, or no text; or it has a part that is empty,
            `.` or `..`, a NUL or, without `any_text`, another control character.

    Examples:
        >>> from bushel.storage.names import below
        >>> below(Path("train"), "000000/image.bag").as_posix()
        'train/000000/image.bag'
    """
    if not isinstance(name, str) or leads_out(name):
        shown = repr(name)
        if len(shown) > _SHOWN:
            shown = f"{shown[:_SHOWN]}…"
        raise FormatError(f"{shown} is not the name of a file in this folder", folder, hint=_HINT)
    if not any_text and (min(name) < " " or "\x7f" in name):
        raise FormatError(
            f"{name!r} has a control character, which no file of a dataset has", folder, hint=_HINT
        )
    return folder / name  # type: ignore[return-value]


def inside(folder: PathT, name: str) -> PathT:
    """Return the same path for writing, moving or removing: links must not lead out of the folder either.

    Control characters may be in the name.

    Raises:
        FormatError: As for `below`; or a part of the path is a symbolic link to a place outside the
            folder.
        OSError: The path is in a `.bushel` that is a symbolic link.
    """
    path = below(folder, name, any_text=True)
    if isinstance(path, Path):
        refuse_link(path.parent)
        if path.parent == folder:  # no part of the path could be a link
            return path
        real, above = os.path.realpath(str(folder)), os.path.realpath(path.parent)
        if above != real and not above.startswith(real.rstrip(os.sep) + os.sep):
            raise FormatError(
                f"{name!r} leads through a symbolic link to {above}, out of its folder",
                folder,
                hint=_HINT,
            )
    return path


def refuse_link(path: Path) -> None:
    """Refuse a path to write to if a `.bushel` in it, or anything below that, is a symbolic link.

    Raises:
        OSError: It is (`ELOOP`).
    """
    text = os.fspath(path)
    if _SIDECARS not in text:
        return
    parts = path.parts
    if _SIDECARS not in parts:
        return
    for end in range(parts.index(_SIDECARS) + 1, len(parts) + 1):
        link = os.path.join(*parts[:end])
        if os.path.islink(link):
            raise OSError(
                errno.ELOOP, "this is a symbolic link, through which nothing is written", link
            )


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as possible. Links in it are removed, not followed.

    Raises:
        OSError: The folder is in a `.bushel` that is a symbolic link.
    """
    refuse_link(folder)
    try_remove_tree(folder)


def try_remove_tree(folder: Path) -> None:
    """Remove a folder with its contents, as far as possible. Files that cannot be removed stay, without an error."""
    import shutil  # which imports the modules of all kinds of archives

    # `ignore_errors` does not cover fstat, which may fail with ESTALE on a network
    with suppress(OSError):
        shutil.rmtree(folder, ignore_errors=True)


def remove_empty(*folders: Path) -> None:
    """Remove the empty ones of some folders, in this order: others hold sidecars, or unfinished files."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link to one. A link to itself is not; `is_dir` raises for it."""
    return entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and os.path.isdir(entry))
