"""Sources: the data that `bushel.pack` packs.

`open_source` makes a source from paths, arrays, dicts and datasets. The protocol `Source` describes
the few methods of a source of your own, and `bushel.testing.check_source` checks one.
"""

from bushel.sources.adapters import Adapter
from bushel.sources.arrays import Arrays
from bushel.sources.base import (
    Fetching,
    Foldered,
    Named,
    Sample,
    Selective,
    Source,
    Traceable,
    extend_labels,
)
from bushel.sources.files import AudioFolder, Files, ImageFolder, LabelledFolder, VideoFolder, walk
from bushel.sources.lists import ListFile, ListLine, format_line, parse_line
from bushel.sources.media import VIDEOS, Audio, Clip, Frames, Image, Media, Pick, decode_video
from bushel.sources.members import Recipe
from bushel.sources.opening import open_source
from bushel.sources.samples import Samples, Stream
from bushel.sources.tables import Row, Table, parse_json, read_list, read_rows

__all__ = [
    "VIDEOS",
    "Adapter",
    "Arrays",
    "Audio",
    "AudioFolder",
    "Clip",
    "Fetching",
    "Files",
    "Foldered",
    "Frames",
    "Image",
    "ImageFolder",
    "LabelledFolder",
    "ListFile",
    "ListLine",
    "Media",
    "Named",
    "Pick",
    "Recipe",
    "Row",
    "Sample",
    "Samples",
    "Selective",
    "Source",
    "Stream",
    "Table",
    "Traceable",
    "VideoFolder",
    "decode_video",
    "extend_labels",
    "format_line",
    "open_source",
    "parse_json",
    "parse_line",
    "read_list",
    "read_rows",
    "walk",
]
