"""The loader: order, plan, fetch, decode, collate, state."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bushel.loader.collate import Padded, collate  # now: `collate` would else be the module

if TYPE_CHECKING:
    from bushel.core.order import ORDER_VERSION, Blocks, Exact, Mixed, Sequential
    from bushel.loader.iterables import in_batches, shuffle_buffer
    from bushel.loader.loader import Loader
    from bushel.loader.mixture import Mixture, mix
    from bushel.loader.report import BadSample
    from bushel.loader.state import LoaderState
    from bushel.loader.stats import LoaderStats
    from bushel.loader.streaming import StreamLoader
    from bushel.loader.view import MapView

_HOME = {
    "ORDER_VERSION": "core.order",
    "BadSample": "loader.report",
    "Blocks": "core.order",
    "Exact": "core.order",
    "Loader": "loader.loader",
    "LoaderState": "loader.state",
    "LoaderStats": "loader.stats",
    "MapView": "loader.view",
    "Mixed": "core.order",
    "Mixture": "loader.mixture",
    "Sequential": "core.order",
    "StreamLoader": "loader.streaming",
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
    """Import names when they are first used: worker processes begin sooner without what only their parent needs."""
    if name not in _HOME:
        raise AttributeError(f"module 'bushel.loader' has no attribute {name!r}")
    value = getattr(import_module(f"bushel.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
