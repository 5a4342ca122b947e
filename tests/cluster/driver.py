"""A driver of a run in a process of its own, which can be killed."""

from __future__ import annotations

import sys
import time
from typing import Any

from tests._pack.pack_sources import Numbered

import bushel

PARTS, SAMPLES = 24, 120


class Slow(Numbered):
    """A source that takes long enough to be killed in between."""

    def __getitem__(self, position: int) -> dict[str, Any]:
        time.sleep(0.004)
        return super().__getitem__(position)


def pack(out: str, engine: Any, progress: Any = None) -> bushel.runs.PackResult:
    """Pack a source with two bad items."""
    source = Slow(SAMPLES, bad=(17, 90))
    options: dict[str, Any] = {"container": "tar", "parts": PARTS, "shard_samples": 3, "max_errors": 2}
    return bushel.pack(source, out, engine=engine, progress=progress, **options)


def engine_of(name: str, address: str) -> Any:
    if name == "local":
        from bushel.engines.local import LocalEngine

        return LocalEngine(2)
    if name == "ray":
        from bushel.engines.ray import RayEngine

        return RayEngine(address)
    from bushel.engines.dask import DaskEngine

    return DaskEngine(address)


if __name__ == "__main__":
    from tests.cluster import driver  # so that workers find the source in a module

    driver.pack(sys.argv[3], engine_of(*sys.argv[1:3]))
