"""Bringing data into datasets, and from one dataset into another."""

from bushel.ingest.conversion import Conversion, convert
from bushel.ingest.packing import Packed, Progress, pack

__all__ = ["Conversion", "Packed", "Progress", "convert", "pack"]
