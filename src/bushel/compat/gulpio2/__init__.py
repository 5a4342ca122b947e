"""GulpIO2 and the first GulpIO's datasets on Bushel: `docs/compat-gulpio2.md`."""

from .fileio import ChunkWriter, GulpChunk, GulpDirectory, GulpIngestor

__all__ = ["ChunkWriter", "GulpChunk", "GulpDirectory", "GulpIngestor", "__version__"]

__version__ = "0.0.4"  # the release of GulpIO2 whose names these are
