"""Zip archives, read where they lie."""

from bushel.containers.zip.container import CONTAINER

__all__ = ["CONTAINER"]
