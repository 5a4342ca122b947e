"""How an original is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Setup"]


@dataclass(frozen=True, slots=True)
class Setup:
    """How an original is called.

    Attributes:
        package: Its import name.
        environment: Its environment in `.interop`.
        mapped: The modules of the drop-in, by the modules of the original.
        prelude: Statements before each call, on both sides.
        page: The page of the drop-in in `docs/`.
        modules: The modules whose public names are compared; all if empty.
        commands: Scripts of the command lines, relative to the environment.
    """

    package: str
    environment: str
    mapped: Mapping[str, str]
    prelude: str
    page: str
    modules: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
