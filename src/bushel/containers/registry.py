"""The containers by name: built-in ones, registered ones, and ones that installed packages add.

A registration has the facts by which files are recognised, so a container is imported when it owns
some. Entry points of other packages are looked for when nothing else owns a path, or has a name.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from bushel._runtime.public import (
    broken_plugin,
    did_you_mean,
    has_plugin,
    instead_of,
    load_plugin,
    plugin_names,
    public,
)
from bushel.errors import UnsupportedError

from .base import Container
from .facts import BUILT_IN, DIGITS, Facts

if TYPE_CHECKING:
    from .recovery import Recovered

_GROUP = "bushel.containers"
_NAME = r"[a-z][a-z0-9_-]*"


_registered = dict(BUILT_IN)
"""All containers in the order in which they are tried on an unknown path."""


@public()
def register_container(container: Container, *, replace: bool = False) -> None:
    r"""Add a container, for this process: `bushel.open` and everything else then reads its datasets.

    A package adds its container for every process by an entry point of the group
    `bushel.containers` instead, whose value is the container and whose name is its name
    (docs/extending.md). A dataset carries a registered container to worker processes, so its class
    must be importable there and its object must pickle.

    Args:
        container: An object of a subclass of `bushel.containers.Container`.
        replace: Whether it may take the name of one that was registered before. Names of Bushel's
            own cannot be taken.

    Raises:
        TypeError: `container` is of another class, or has no name.
        ValueError: Its name is malformed or taken.

    Examples:
        >>> class Lines(bushel.containers.Container):
        ...     name, suffixes = "lines", (".lines",)
        ...     def index(self, shard, options):
        ...         ends = [at for at, byte in enumerate(shard.path(0).read_bytes()) if byte == 10]
        ...         starts = [0, *(end + 1 for end in ends[:-1])]
        ...         place = bushel.containers.PlainField("utf8", starts, np.subtract(ends, starts))
        ...         return bushel.containers.table_of(self.name, shard, len(ends), {"text": place})
        >>> bushel.register_container(Lines())
        >>> Path("two.lines").write_text("first\nother\n")
        12
        >>> bushel.open("two.lines")[1]["text"]
        'other'
    """
    _check(container)
    name = container.name
    if not re.fullmatch(_NAME, name):
        raise ValueError(
            f"{name!r} cannot be the name of a container: "
            "use lower-case letters, digits, '_' and '-'"
        )
    if name in BUILT_IN:
        raise ValueError(f"container {name!r} exists already: choose another name")
    if name in _registered and not replace:
        raise ValueError(
            f"container {name!r} exists already: choose another name, or pass replace=True"
        )
    _add(container)


@lru_cache(maxsize=256)
def get_container(name: str) -> Container:
    """Return the container of this name.

    Raises:
        ValueError: The name is unknown.
        UnsupportedError: An installed package adds it, and importing it fails.

    Examples:
        >>> from bushel.containers import get_container
        >>> get_container("ffrecord").suffixes
        ('.ffr',)
    """
    if name not in _registered:
        if not has_plugin(_GROUP, name):
            raise _unknown(name, container_names())
        _add(_loaded(name))
    facts = _registered[name]
    container: Container = facts.container
    if container is None:
        container = import_module(f"bushel.containers.{facts.module}").CONTAINER
    return container


def recovery_of(name: str) -> Callable[..., Recovered]:
    """Return `recover` of the container of this name (`Container.recover`)."""
    owner: Any = get_container(name)
    if module := _registered[name].recovery:
        owner = import_module(f"bushel.containers.{module}")
    recover: Callable[..., Recovered] = owner.recover
    return recover


def get_writable(name: str) -> Container:
    """Return the container of this name, to write a dataset.

    Raises:
        ValueError: The name is unknown, or Bushel only reads this container.
    """
    is_known = name in _registered or name in container_names()  # installed packages come last
    if is_known and get_container(name).is_written:
        return get_container(name)
    written = container_names(written=True)
    if not is_known:
        raise _unknown(name, written)
    raise ValueError(
        f"{name} datasets are read in place, and not written: choose one of {', '.join(written)}"
    )


_OF_PACKAGES = {
    "bag": "granular bags",
    "gulp": "gulpio gulpio2",
    "recordio": "mxnet rec",
    "tar": "webdataset wds",
}
"""Containers, and the packages whose names people write instead."""


def meant_container(text: str) -> str | None:
    """Return the container that is written if a text is its name, or that of its package."""
    name = [*instead_of(text.lower(), _OF_PACKAGES), text][0]
    return name if name in container_names(written=True) else None


def _unknown(name: str, names: Sequence[str]) -> ValueError:
    """Return the error for an unknown container, which proposes one of these names."""
    advice = (
        did_you_mean(str(name).lower(), names, _OF_PACKAGES) or f"use one of {', '.join(names)}"
    )
    return ValueError(f"unknown container {name!r}: {advice}")


def with_episodes(name: str | None) -> str:
    """Return the container that reads the files of this one, or of any, with an episode as a sample.

    Raises:
        ValueError: It has no episodes.
    """
    having = {other: facts.episodes for other, facts in _registered.items() if facts.episodes}
    for container, episodes in having.items():
        if name in (None, container):
            return episodes
    raise ValueError(f"episodes=True is for {', '.join(having)}, and {name} has no episodes")


def container_names(*, written: bool = False) -> tuple[str, ...]:
    """Return the names of all containers; with `written`, of those that Bushel writes.

    Examples:
        >>> from bushel.containers import container_names
        >>> container_names(written=True)
        ('bag', 'tar', 'ffrecord', 'gulp', 'recordio')
    """
    if written:
        return tuple(name for name, facts in _registered.items() if facts.suffix is not None)
    return tuple(dict.fromkeys((*_registered, *plugin_names(_GROUP))))


def writable_containers() -> list[Container]:
    """Return the containers that Bushel writes."""
    return list(map(get_container, container_names(written=True)))


def container_by_suffix(name: str) -> Container | None:
    """Return the container that writes files whose names end like this, or None."""
    for container, registration in _registered.items():
        if registration.suffix and name.endswith(registration.suffix):
            return get_container(container)
    return None


def container_for(name: str) -> Container:
    """Return the container that the suffix of an output's name implies.

    Raises:
        ValueError: The name implies none.
        UnsupportedError: It implies one that reads files with such a name, and does not write them.
    """
    container = container_by_suffix(name)
    if container is None:
        for writable in writable_containers():
            refuse_read_only(name, writable, name)
        names = ", ".join(container_names(written=True))
        raise ValueError(f"the name {name!r} does not tell the container; pass container=: {names}")
    return container


def read_only_ending(name: str, container: Container) -> str | None:
    """Return the ending of the name of a file that a container reads and does not write; None of any other name."""
    if not container.suffix or name.endswith(container.suffix):
        return None
    return next((ending for ending in container.suffixes if name.endswith(ending)), None)


def refuse_read_only(name: str, container: Container, path: str) -> None:
    """Raise UnsupportedError with the path if a container only reads files of this name, as `x.tar.gz`."""
    if (ending := read_only_ending(name, container)) is not None:
        raise UnsupportedError(
            f"{path} cannot be written: a {container.name} dataset in a {ending} "
            f"file can be read only. Write to a {container.suffix} file or a folder"
        )


def registered_here(name: str) -> Container | None:
    """Return the container of this name if only this process has it, by `register_container`; else None."""
    if name in BUILT_IN or name not in _registered or has_plugin(_GROUP, name):
        return None
    return get_container(name)


# Recognising files by their names


def candidates(names: Iterable[str]) -> list[Container]:
    """Return the containers that may own files or folders of these names.

    Containers of packages that have not been needed so far are not among them: see
    `installed_candidates`.
    """
    whole = frozenset(names)
    # the endings, with `#` for each run of digits
    endings = {DIGITS.sub("#", name[max(name.rfind("."), 0) :].lower()) for name in whole}
    shapes, holds_columns = whole | endings, any("=" in name for name in whole)
    return [
        get_container(container)
        for container, facts in _registered.copy().items()  # threads may register others
        if not shapes.isdisjoint(facts.file_names)
        or not endings.isdisjoint(_endings(facts.suffixes))
        or (facts.partitioned and holds_columns)
    ]


def installed_candidates(names: Iterable[str]) -> list[Container]:
    """Return the containers that may own these files, of installed packages that have not been needed so far.

    A container that cannot be used is skipped with a warning that names its package.
    """
    registered = set(_registered)
    for name in plugin_names(_GROUP):
        if name not in registered:
            try:
                get_container(name)
            except UnsupportedError as error:
                warnings.warn(str(error), RuntimeWarning, stacklevel=2)
    if len(_registered) == len(registered):
        return []
    return [container for container in candidates(names) if container.name not in registered]


def containers_with_first_bytes() -> list[Container]:
    """Return the containers whose files are recognised by their first bytes, too."""
    return [get_container(name) for name, facts in _registered.copy().items() if facts.first_bytes]


def last_candidates(file: str = "") -> list[Container]:
    """Return the containers that may own a file of this name, or a folder, that no other container owns."""
    return [
        get_container(name)
        for name, facts in _registered.copy().items()
        if not facts.suffixes + facts.file_names or file.lower().endswith(facts.alone)
    ]


def is_data_file(name: str) -> bool:
    """Return whether a name has a suffix of a container that is read at random."""
    return _ends(DIGITS.sub("#", name), "suffixes")


def is_data_if_named(name: str) -> bool:
    """Return whether a file of this name is data if the caller names it, as lists in `.json` are."""
    return _ends(name, "alone")


def is_forward_only(name: str) -> bool:
    """Return whether a file of this name is read from front to back."""
    return _ends(name, "forward")


def needs_index(name: str) -> bool:
    """Return whether a file of this name is read at random only with an index, and otherwise in a stream."""
    return _ends(name, "slow")


def _ends(name: str, kind: str) -> bool:
    """Return whether a name ends as names of one kind of files of a container do."""
    return name.lower().endswith(_all_endings(kind))


@lru_cache
def _all_endings(kind: str) -> tuple[str, ...]:
    return tuple(chain.from_iterable(getattr(facts, kind) for facts in _registered.values()))


def owners_of(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the containers whose files have one of these names by its ending, and these names, sorted."""
    names_by_owner: dict[str, list[str]] = {}
    for name in sorted(names):
        plain = DIGITS.sub("#", name.lower())
        owners = (owner for owner, facts in _registered.items() if plain.endswith(facts.suffixes))
        owner = next(owners, None)
        if owner is not None and not name.startswith("."):
            names_by_owner.setdefault(owner, []).append(name)
    return names_by_owner


@lru_cache
def _endings(suffixes: tuple[str, ...]) -> frozenset[str]:
    return frozenset(suffix[max(suffix.rfind("."), 0) :] for suffix in suffixes)


# Containers of other packages


def _add(container: Container) -> None:
    _registered[container.name] = Facts(
        suffixes=tuple(container.suffixes),
        file_names=tuple(container.file_names),
        suffix=container.suffix if container.is_written else None,
        first_bytes=container.has_first_bytes,
        container=container,
    )
    get_container.cache_clear()
    _all_endings.cache_clear()


def _loaded(name: str) -> Container:
    container = load_plugin(_GROUP, name)
    try:
        _check(container)
    except TypeError as error:
        raise broken_plugin(_GROUP, name, str(error)) from error
    if container.name != name:
        raise broken_plugin(_GROUP, name, f"its name is {container.name!r}")
    return cast("Container", container)


def _check(container: object) -> None:
    """Raise TypeError if an object is not a container with a name."""
    kind = type(container).__name__
    if not isinstance(container, Container):
        raise TypeError(
            f"{kind} is not a container: its class must inherit from bushel.containers.Container"
        )
    if not hasattr(container, "name"):
        raise TypeError(f"{kind} is not a container: it has no name")
