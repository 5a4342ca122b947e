"""The originals' own command lines: ``bushel`` in front of the old one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

__all__ = ["ORIGINALS", "Original"]


@dataclass(frozen=True, slots=True)
class Original:
    """An old command.

    Attributes:
        path: `module:function`, below `bushel.compat`; the function takes the arguments and gives the exit code.
        help: What the command does, in a line.
    """

    path: str
    help: str

    def load(self) -> Callable[[list[str]], int]:
        """The function, whose module is imported only now."""
        module, _, function = self.path.partition(":")
        loaded: Callable[[list[str]], int] = getattr(import_module(f"bushel.compat.{module}"), function)
        return loaded


ORIGINALS: dict[str, Original] = {}
"""The old commands by their names, in the order of the help."""
