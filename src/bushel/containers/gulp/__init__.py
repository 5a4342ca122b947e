"""GulpIO chunks: JPEG frames and a table of metadata.

The functions find the chunks in a folder, and the files that belong together; `padding` aligns a
frame.
"""

from .container import CONTAINER
from .reading import chunk_names, chunk_number, padding, pair_chunks

__all__ = ["CONTAINER", "chunk_names", "chunk_number", "padding", "pair_chunks"]
