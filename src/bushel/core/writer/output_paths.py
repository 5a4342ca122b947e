"""What the target of a writer is: one file or a folder, of which container, and what is there."""

from __future__ import annotations

from pathlib import Path

from bushel.containers import container_by_suffix, container_for, containers, get_container
from bushel.containers.base import Container
from bushel.errors import FormatError
from bushel.storage import AnyPath

__all__ = ["check_place", "choose_container", "finds"]


def choose_container(target: AnyPath, container: str | None) -> Container:
    """The container to write.

    Args:
        target: Where.
        container: Its name, if it is known; else the target's suffix tells it, or what is there.

    Raises:
        ValueError: There is no such container, or nothing tells it.
    """
    if container is not None:
        return get_container(container)
    if container_by_suffix(target.name) is None and target.exists():
        for candidate in containers():
            if finds(candidate, target):
                return candidate
    return container_for(target.name)


def finds(container: Container, target: AnyPath) -> bool:
    """Whether a dataset of this container is there, whole or damaged."""
    try:
        return bool(container.shards(target))
    except FormatError:
        return True


def check_place(target: AnyPath, *, single: bool) -> None:
    """Make sure that no folder lies where one file is to be written, nor a file where a folder is.

    Raises:
        FileExistsError: One does.
    """
    if isinstance(target, Path) and target.exists() and target.is_dir() == single:
        there, wanted = ("folder", "file") if single else ("file", "folder")
        raise FileExistsError(f"{target} is a {there}, and a {wanted} is to be written: use another path")
