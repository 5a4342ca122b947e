"""Entry points by which other packages extend Bushel: found when one is needed, and imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from bushel.errors import UnsupportedError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@cache
def _entry_points(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name. The first package on the search path wins.

    Looking through the installed packages takes tens of milliseconds, so nothing calls this before
    it must.
    """
    from importlib.metadata import entry_points

    by_name: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        by_name.setdefault(entry.name, entry)
    return by_name


def plugin_names(group: str) -> tuple[str, ...]:
    """Return the names that installed packages add to a group, such as `bushel.containers`. Nothing is imported."""
    return tuple(_entry_points(group))


def has_plugin(group: str, name: str) -> bool:
    """Return whether an installed package adds this name."""
    return name in _entry_points(group)


def load_plugin(group: str, name: str) -> Any:
    """Import the object that an installed package adds under a name.

    Raises:
        KeyError: No package adds it.
        UnsupportedError: Importing it fails; the message names the package.
    """
    entry = _entry_points(group)[name]
    try:
        return entry.load()
    except Exception as error:  # the module of another package may raise anything
        raise _broken(group, entry, f"{type(error).__name__}: {error}") from error


def broken_plugin(group: str, name: str, problem: str) -> UnsupportedError:
    """Return the error about an imported plugin that cannot be used."""
    return _broken(group, _entry_points(group)[name], problem)


def _broken(group: str, entry: EntryPoint, problem: str) -> UnsupportedError:
    package = "another package"
    if entry.dist is not None:
        package = f"{entry.dist.name} {entry.dist.version}"
    update = ""
    if entry.dist is not None:
        update = f": update it (`pip install -U {entry.dist.name}`) or uninstall it"
    return UnsupportedError(
        f"{package} adds {entry.name!r} to {group} ({entry.value}), which cannot be used"
        f" ({problem}){update}"
    )
