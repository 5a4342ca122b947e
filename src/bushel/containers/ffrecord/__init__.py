"""FFRecord files and packed folders."""

from bushel.containers.ffrecord.container import CONTAINER, empty_folders

__all__ = ["CONTAINER", "empty_folders"]
