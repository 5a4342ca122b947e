"""Sources and helpers for the tests of packing; in a module, so that worker processes find them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.sources.folders import jpeg


class Numbered:
    """Samples of an image, a label and a text; some are missing, and they take different times."""

    spec = {"image": "jpg", "label": "int", "text": "utf8"}

    def __init__(self, count: int, bad: tuple[int, ...] = (), *, uneven: bool = False) -> None:
        self.count, self.bad, self.uneven = count, bad, uneven

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, position: int) -> dict[str, Any]:
        if not 0 <= position < self.count:
            raise IndexError(position)
        if position in self.bad:
            raise FileNotFoundError(2, "No such file or directory", f"photos/{position}.jpg")
        if self.uneven and position % 7 == 0:
            time.sleep(0.002)
        return {"__key__": f"k{position:04d}", "image": jpeg(position), "label": position, "text": "t" * (position % 9)}


class Dying(Numbered):
    """Ends its process when asked for one of its samples."""

    def __init__(self, count: int, at: int, bad: tuple[int, ...] = ()) -> None:
        super().__init__(count, bad)
        self.at = at

    def __getitem__(self, position: int) -> dict[str, Any]:
        if position == self.at:
            os._exit(9)
        return super().__getitem__(position)


def noisy(image: npt.NDArray[np.uint8], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """A random transform."""
    return np.roll(image, int(rng.integers(16)), axis=1)


def inverted(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A transform that draws nothing."""
    return np.asarray(255 - image, np.uint8)


def files_of(path: Path) -> dict[str, bytes]:
    """The files of a dataset without Bushel's own, by name; of a file, it and those that begin with its stem."""
    if path.is_dir():
        found = (file for file in sorted(path.rglob("*")) if file.is_file() and ".bushel" not in file.parts)
        return {file.relative_to(path).as_posix(): file.read_bytes() for file in found}
    return {file.name: file.read_bytes() for file in sorted(path.parent.glob(f"{path.stem}.*")) if file.is_file()}
