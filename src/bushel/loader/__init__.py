"""The loader: order, plan, fetch, decode, collate, state."""

from __future__ import annotations

from bushel.loader.collate import Padded, collate
from bushel.loader.loader import Loader
from bushel.loader.mixture import Mixture, mix
from bushel.loader.order import ORDER_VERSION, Blocks, Exact, Mixed, Sequential
from bushel.loader.report import BadSample
from bushel.loader.state import LoaderState
from bushel.loader.stats import LoaderStats
from bushel.loader.streaming import StreamLoader
from bushel.loader.view import MapView

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
    "mix",
]
