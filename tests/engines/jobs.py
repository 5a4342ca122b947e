"""Tasks for the tests of engines, in a module, so that worker processes find them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from tests._pack.pack_sources import Numbered


class Doubling:
    """Returns twice the number; some numbers are slow, fail, or kill their worker as long as a file is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, number: int) -> int:
        for way in ("kill", "hang", "refuse", "break"):
            note = self.folder / f"{way}-{number}"
            try:
                note.unlink()
            except FileNotFoundError:
                continue
            if way == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if way == "hang":
                time.sleep(60)
            if way == "refuse":
                raise ValueError(f"number {number}")
            raise OSError(5, "Input/output error", str(note))
        return 2 * number


class KillsOnce(Numbered):
    """A source whose first reader of a sample dies, or hangs."""

    def __init__(self, count: int, note: Path, position: int, *, hang: bool = False) -> None:
        super().__init__(count)
        self.note, self.position, self.hang = note, position, hang

    def __getitem__(self, position: int) -> dict[str, Any]:
        if position == self.position:
            try:
                self.note.unlink()
            except FileNotFoundError:
                return super().__getitem__(position)
            if self.hang:
                time.sleep(60)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(position)
