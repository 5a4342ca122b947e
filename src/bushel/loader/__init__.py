"""Loading for training: `Loader`, `StreamLoader`, `MapView`, mixtures, orders and collation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bushel._runtime.public import lazy_names
from bushel.loader.values.collate import Padded, Ragged, collate  # imported here, or `collate` would be the module

if TYPE_CHECKING:
    from bushel._runtime.order import ORDER_VERSION, Blocks, Exact, Mixed, Sequential
    from bushel._runtime.parallel import map_all, parallel_map
    from bushel._runtime.threads import Threads, cpu_count
    from bushel.loader.device.device import DeviceDecoder, EncodedImages
    from bushel.loader.device.nvidia import NvidiaDecoder
    from bushel.loader.iterables import in_batches, shuffle_buffer
    from bushel.loader.loader import Loader
    from bushel.loader.map_view import MapView
    from bushel.loader.order.megatron import Megatron
    from bushel.loader.order.mixture import Mixture, mix
    from bushel.loader.read.random_window import RandomWindow
    from bushel.loader.run.stats import LoaderStats
    from bushel.loader.state import LoaderState
    from bushel.loader.stream_loader import StreamLoader
    from bushel.loader.values.bad_samples import BadSample

__all__ = [
    "ORDER_VERSION",
    "BadSample",
    "Blocks",
    "DeviceDecoder",
    "EncodedImages",
    "Exact",
    "Loader",
    "LoaderState",
    "LoaderStats",
    "MapView",
    "Megatron",
    "Mixed",
    "Mixture",
    "NvidiaDecoder",
    "Padded",
    "Ragged",
    "RandomWindow",
    "Sequential",
    "StreamLoader",
    "Threads",
    "collate",
    "cpu_count",
    "in_batches",
    "map_all",
    "mix",
    "parallel_map",
    "shuffle_buffer",
]

__getattr__ = lazy_names(
    __name__,
    {
        "ORDER_VERSION": "_runtime.order",
        "BadSample": "loader.values.bad_samples",
        "Blocks": "_runtime.order",
        "DeviceDecoder": "loader.device.device",
        "EncodedImages": "loader.device.device",
        "Exact": "_runtime.order",
        "Loader": "loader.loader",
        "LoaderState": "loader.state",
        "LoaderStats": "loader.run.stats",
        "MapView": "loader.map_view",
        "Megatron": "loader.order.megatron",
        "Mixed": "_runtime.order",
        "Mixture": "loader.order.mixture",
        "NvidiaDecoder": "loader.device.nvidia",
        "RandomWindow": "loader.read.random_window",
        "Sequential": "_runtime.order",
        "StreamLoader": "loader.stream_loader",
        "Threads": "_runtime.threads",
        "cpu_count": "_runtime.threads",
        "in_batches": "loader.iterables",
        "map_all": "_runtime.parallel",
        "mix": "loader.order.mixture",
        "parallel_map": "_runtime.parallel",
        "shuffle_buffer": "loader.iterables",
    },
)
"""Modules that only the parent process needs: worker processes start sooner without them."""


def __dir__() -> list[str]:
    return sorted(__all__)
