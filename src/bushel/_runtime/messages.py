"""What Bushel says to people: log records, amounts as text, and a warning of environment variables without effect.

`logging` and `difflib` are imported when there is something to say: `logging` takes 3 ms.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Collection, Sequence

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
_OWN = "BUSHEL_"

_VALUES = {
    "BUSHEL_ALLOW_COMMANDS": ("1", "0", ""),
    "BUSHEL_ALLOW_PICKLE": ("1", "0", ""),
    "BUSHEL_PORTABLE": ("1", "0", ""),
    "BUSHEL_SIMD": ("scalar", ""),
}
"""Variables with a fixed set of values, and that set. Other values are checked where they are used."""

_OF_KUBERNETES = ("BUSHEL_SERVICE_", "BUSHEL_PORT_")
"""Prefixes of variables that Kubernetes sets in pods if a service is called `bushel`; it also sets `BUSHEL_PORT`."""


def log_info(message: str, *arguments: object) -> None:
    """Log details for finding the cause of a problem."""
    from logging import getLogger

    getLogger("bushel").info(message, *arguments, stacklevel=2)


def log_warning(message: str, *arguments: object) -> None:
    """Log what the user should know."""
    from logging import getLogger

    getLogger("bushel").warning(message, *arguments, stacklevel=2)


def day(seconds: float) -> str:
    """Return the day of a time in seconds since 1970, in UTC: `2026-11-28`."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn of the line that called Bushel, however many of its functions are between."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "bushel":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def size(number: float) -> str:
    """Return a number of bytes as text: `1 byte`, `999 bytes`, `12.3 MB`, `2 GB`."""
    if number == 1:
        return "1 byte"
    unit = 0
    # what would be rounded to 1000 has the next unit
    while number >= 999.5 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    if unit == 0 or number >= 999.5:
        return f"{number:.0f} {_UNITS[unit]}"
    return f"{number:.3g} {_UNITS[unit]}"


def few(texts: Sequence[str], most: int = 3, separator: str = ", ") -> str:
    """Return the first of some texts, and how many more there are: `a, b, c and 7 more`."""
    shown = separator.join(texts[:most])
    if len(texts) > most:
        return f"{shown} and {len(texts) - most:,} more"
    return shown


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 shard`, `2 shards`."""
    if number == 1:
        return f"{number:,} {noun}"
    return f"{number:,} {noun}s"


def warn_of_mistakes(settings: Collection[str]) -> None:
    """Warn of each variable whose name begins with `BUSHEL_`, but is unknown, or whose value has no meaning.

    Worker processes inherit the variables and do not repeat the warnings.

    Args:
        settings: Names of variables with other values.
    """
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        return
    names = sorted((*settings, *_VALUES))
    for name in [variable for variable in os.environ if variable.startswith(_OWN)]:
        text, allowed = os.environ.get(name, ""), _VALUES.get(name)
        if allowed is not None and text not in allowed:
            meant = " or ".join(filter(None, allowed))
            warn(
                f"the environment variable {name} is {text!r}, "
                f"which has no effect: expected {meant}",
                RuntimeWarning,
            )
        elif name not in names and not (name == "BUSHEL_PORT" or name.startswith(_OF_KUBERNETES)):
            import difflib  # for mistakes only

            near = difflib.get_close_matches(
                name.removeprefix(_OWN), [setting.removeprefix(_OWN) for setting in names], 1
            )
            if near:
                hint = f"did you mean {_OWN}{near[0]}?"
            else:
                hint = f"Bushel knows {', '.join(names)}"
            warn(f"the environment variable {name} has no effect: {hint}", RuntimeWarning)
