"""MDS, read in place."""

from bushel.containers.mds.container import CONTAINER

__all__ = ["CONTAINER"]
