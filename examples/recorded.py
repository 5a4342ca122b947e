"""Note what a loader gives to each rank, also where a framework has the loop: `bushel audit FOLDER` examines it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import bushel
from bushel.audit import record


class Recorded:
    """A loader that records every epoch.

    Args:
        loader: The loader.
        folder: The folder of the recording; None records nothing.
    """

    def __init__(self, loader: bushel.Loader[Any], folder: str | os.PathLike[str] | None) -> None:
        self.loader, self.folder = loader, folder

    def __iter__(self) -> Iterator[Any]:
        if self.folder is None:
            return iter(self.loader)
        loader = self.loader
        place = loader.state_dict()
        step = len(loader) - loader.steps_left  # not 0 in an epoch that was resumed
        return record(loader, self.folder, epoch=int(place["epoch"]), step=step)

    def __len__(self) -> int:
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loader."""
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the loader continue from a state."""
        self.loader.load_state_dict(state)
