"""Granular datasets (bag files), generations A, B and C."""

from bushel.containers.bag.container import CONTAINER

__all__ = ["CONTAINER"]
