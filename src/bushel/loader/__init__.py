"""Loading for training: `Loader`, `StreamLoader`, `MapView`, mixtures, orders and collation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bushel.loader.collate import Padded, collate  # imported here, or `collate` would be the module

if TYPE_CHECKING:
    from bushel.core.order import ORDER_VERSION, Blocks, Exact, Mixed, Sequential
    from bushel.loader.bad_samples import BadSample
    from bushel.loader.base import LoaderState
    from bushel.loader.iterables import in_batches, shuffle_buffer
    from bushel.loader.loader import Loader
    from bushel.loader.map_view import MapView
    from bushel.loader.mixture import Mixture, mix
    from bushel.loader.stats import LoaderStats
    from bushel.loader.stream_loader import StreamLoader

_HOME = {
    "ORDER_VERSION": "core.order",
    "BadSample": "loader.bad_samples",
    "Blocks": "core.order",
    "Exact": "core.order",
    "Loader": "loader.loader",
    "LoaderState": "loader.base",
    "LoaderStats": "loader.stats",
    "MapView": "loader.map_view",
    "Mixed": "core.order",
    "Mixture": "loader.mixture",
    "Sequential": "core.order",
    "StreamLoader": "loader.stream_loader",
    "in_batches": "loader.iterables",
    "mix": "loader.mixture",
    "shuffle_buffer": "loader.iterables",
}

__all__ = [
    "ORDER_VERSION",
    "BadSample",
    "Blocks",
    "Exact",
    "Loader",
    "LoaderState",
    "LoaderStats",
    "MapView",
    "Mixed",
    "Mixture",
    "Padded",
    "Sequential",
    "StreamLoader",
    "collate",
    "in_batches",
    "mix",
    "shuffle_buffer",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that worker processes start without the modules that they do not need."""
    if name not in _HOME:
        raise AttributeError(f"module 'bushel.loader' has no attribute {name!r}")
    value = getattr(import_module(f"bushel.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
