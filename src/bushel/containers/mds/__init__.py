"""MDS, read where it lies."""

from bushel.containers.mds.container import CONTAINER

__all__ = ["CONTAINER"]
