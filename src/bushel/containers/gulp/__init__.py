"""GulpIO chunks: JPEG frames and a table of metadata.

The functions tell which files of a folder are chunks, and which belong together; `padding` aligns a frame.
"""

from bushel.containers.gulp.container import CONTAINER
from bushel.containers.gulp.naming import chunk_names, chunk_number, padding, pair_chunks

__all__ = ["CONTAINER", "chunk_names", "chunk_number", "padding", "pair_chunks"]
