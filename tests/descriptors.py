"""The open descriptors of this process, without the ones that threads open and close in the meantime.

A count of all descriptors would go down whenever a client drops an idle connection to the server of an earlier test.
"""

from __future__ import annotations

import os
from pathlib import Path


def descriptors() -> set[tuple[int, str]]:
    """Every open descriptor, and what it is of."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add((int(number), os.readlink(f"/proc/self/fd/{number}")))
        except FileNotFoundError:  # closed in the meantime, as that of the list itself
            continue
    return found


def open_files(folder: Path) -> list[str]:
    """The files below a folder that are open, each as often as it is."""
    return [target for _, target in descriptors() if target.startswith(f"{folder}{os.sep}")]
