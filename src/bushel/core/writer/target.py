"""The target of a writer: one file or a folder, its container, and the dataset that is there already."""

from __future__ import annotations

from pathlib import Path

from bushel.containers import container_by_suffix, container_for, containers, get_container
from bushel.containers.base import Container, Layout, ReadOptions
from bushel.core.dataset.discovery import find
from bushel.core.dataset.open import open_shards
from bushel.core.dataset.shards import OpenShard
from bushel.errors import FormatError, StateError
from bushel.spec import format_spec
from bushel.storage import AnyPath

__all__ = ["check_file_or_folder", "check_same_fields", "choose_container", "existing_shards", "holds_dataset"]


def choose_container(target: AnyPath, container: str | None) -> Container:
    """Return the container to write.

    Args:
        target: Path of the dataset.
        container: Name of the container; by default it follows from the target's suffix or from the dataset there.

    Raises:
        ValueError: The name is unknown, or there is no name and nothing to derive it from.
    """
    if container is not None:
        return get_container(container)
    if container_by_suffix(target.name) is None and target.exists():
        for candidate in containers():
            if holds_dataset(candidate, target):
                return candidate
    return container_for(target.name)


def holds_dataset(container: Container, target: AnyPath) -> bool:
    """Return whether the target holds a dataset of this container, complete or damaged."""
    try:
        return bool(container.shards(target))
    except FormatError:
        return True


def check_file_or_folder(target: AnyPath, *, single: bool) -> None:
    """Check that the target is not a folder where one file is to be written, nor a file where a folder is.

    Raises:
        FileExistsError: It is.
    """
    if isinstance(target, Path) and target.exists() and target.is_dir() == single:
        there, wanted = ("folder", "file") if single else ("file", "folder")
        raise FileExistsError(f"{target} is a {there}, but the new dataset is a {wanted}: use another path")


def existing_shards(target: AnyPath, container: Container, *, single: bool) -> list[OpenShard]:
    """Return the shards of the dataset at the target, with their indexes; none if there is no dataset.

    Raises:
        FileExistsError: The target holds a dataset of another container.
    """
    if not target.exists():
        return []
    for other in containers() if not single else ():
        if other is not container and holds_dataset(other, target):
            raise FileExistsError(
                f"{target} is a {other.name} dataset, not {container.name}: write to another folder, or replace it "
                "with mode='overwrite'"
            )
    if not holds_dataset(container, target):
        return []
    found = find([target], container.name)
    return open_shards(found.container, found.shards, ReadOptions(checksums=True), "auto")


def check_same_fields(target: AnyPath, shards: list[OpenShard], spec: dict[str, str], layout: Layout) -> None:
    """Check that new samples are stored like the existing ones.

    Args:
        target: Path of the dataset, for messages.
        shards: The existing shards.
        spec: The writer's spec.
        layout: How the writer stores its fields.

    Raises:
        StateError: The fields differ.
    """
    existing = {name: column for shard in shards for name, column in shard.index.columns.items()}
    wanted = {column.field.name: column for column in layout.columns}
    differing = [
        name
        for name, column in wanted.items()
        if (known := existing.get(name)) is not None
        and (
            known.codec != column.codec
            or known.field.sequence != column.field.sequence
            or (known.field.type != column.field.type and not layout.sparse)
        )
    ]
    if differing or spec != format_spec({name: column.field for name, column in wanted.items()}):
        have = {name: column.field.type for name, column in existing.items()}
        raise StateError(f"{target} has the fields {have}, but the writer has {spec}: use the same spec")
    if existing and not layout.sparse and existing.keys() != wanted.keys():
        raise StateError(f"{target} has the fields {', '.join(existing)}, but the writer has {', '.join(wanted)}")
