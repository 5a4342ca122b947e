"""Adapters: what GulpIO calls a source. The abstract class, and the eight that ship with GulpIO2."""

from bushel.compat.gulpio2.adapters.abstract import AbstractDatasetAdapter
from bushel.compat.gulpio2.adapters.folders import ImageFolderAdapter, ImageListAdapter, VideoFolderAdapter
from bushel.compat.gulpio2.adapters.published import ActivitynetAdapter, KineticsAdapter
from bushel.compat.gulpio2.adapters.twentybn import (
    Custom20BNAdapterMixin,
    Custom20BNCsvJpegAdapter,
    Custom20BNCsvWebmAdapter,
    Custom20BNJsonVideoAdapter,
)

__all__ = [
    "AbstractDatasetAdapter",
    "ActivitynetAdapter",
    "Custom20BNAdapterMixin",
    "Custom20BNCsvJpegAdapter",
    "Custom20BNCsvWebmAdapter",
    "Custom20BNJsonVideoAdapter",
    "ImageFolderAdapter",
    "ImageListAdapter",
    "KineticsAdapter",
    "VideoFolderAdapter",
]
