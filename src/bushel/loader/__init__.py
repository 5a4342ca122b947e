"""Loading for training: `Loader`, `StreamLoader`, `MapView`, mixtures, orders and collation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bushel.core.lazy_names import lazy_names
from bushel.loader.collate import Padded, Ragged, collate  # imported here, or `collate` would be the module

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
    "Ragged",
    "Sequential",
    "StreamLoader",
    "collate",
    "in_batches",
    "mix",
    "shuffle_buffer",
]

__getattr__ = lazy_names(
    __name__,
    {
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
    },
)
"""Worker processes start sooner without the modules that only their parent needs."""


def __dir__() -> list[str]:
    return sorted(__all__)
