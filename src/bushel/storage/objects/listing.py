"""Listing everything below a prefix, in the pages of the store: a hundred thousand objects in a hundred requests."""

from __future__ import annotations

from collections.abc import Iterator

from bushel.errors import UnsupportedError
from bushel.storage.objects.client import library
from bushel.storage.objects.errors import translated
from bushel.storage.objects.location import ObjectPath

__all__ = ["walk_objects"]

_PAGE = 1000


def walk_objects(root: ObjectPath) -> Iterator[str]:
    """Names of all objects below a prefix, relative to it, in the order of the store.

    Objects whose names end in a slash, which some tools make to stand for folders, are left out.

    Raises:
        UnsupportedError: It is a plain HTTP server, which does not tell.
        OSError: The store refuses, or cannot be reached.
    """
    if not root.listable:
        raise UnsupportedError(f"{root}: an HTTP server does not say which files it has: give a list or table of URLs")
    prefix = f"{root.key}/" if root.key else ""
    with translated(str(root)):
        for page in library().list(root.store, prefix or None, chunk_size=_PAGE):
            for found in page:
                name = found["path"].removeprefix(prefix)
                if name and not name.endswith("/"):
                    yield name
