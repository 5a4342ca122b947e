"""Zip archives, read in place."""

from bushel.containers.zip.container import CONTAINER

__all__ = ["CONTAINER"]
