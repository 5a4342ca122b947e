"""GulpIO chunks: JPEG frames and a table of metadata.

The functions find the chunks in a folder, and the files that belong together; `padding` aligns a
frame.
"""

from bushel.containers.gulp.container import CONTAINER
from bushel.containers.gulp.reading import chunk_names, chunk_number, padding, pair_chunks

__all__ = ["CONTAINER", "chunk_names", "chunk_number", "padding", "pair_chunks"]
