"""What `gulpio2.fileio` has."""

from bushel.compat.gulpio2.chunk import GulpChunk, extract_input_for_getitem
from bushel.compat.gulpio2.directory import GulpDirectory
from bushel.compat.gulpio2.images import img_to_jpeg_bytes, jpeg_bytes_to_img
from bushel.compat.gulpio2.ingest import ChunkWriter, GulpIngestor, calculate_chunk_slices
from bushel.compat.gulpio2.serializers import (
    AbstractSerializer,
    ImgInfo,
    JSONSerializer,
    PickleSerializer,
    json_serializer,
    pickle_serializer,
)

__all__ = [
    "AbstractSerializer",
    "ChunkWriter",
    "GulpChunk",
    "GulpDirectory",
    "GulpIngestor",
    "ImgInfo",
    "JSONSerializer",
    "PickleSerializer",
    "calculate_chunk_slices",
    "extract_input_for_getitem",
    "img_to_jpeg_bytes",
    "jpeg_bytes_to_img",
    "json_serializer",
    "pickle_serializer",
]
