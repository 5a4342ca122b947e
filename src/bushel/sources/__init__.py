"""Sources: the data that `bushel.pack` packs.

`open_source` makes a source from paths, arrays, dicts and datasets. The protocol `Source` describes
the few methods of a source of your own, and `bushel.testing.check_source` checks one.
"""

from bushel.sources.arrays import Arrays
from bushel.sources.base import Sample, Source, extend_labels
from bushel.sources.files import Files, LabelledFolder, walk
from bushel.sources.foreign import Adapter
from bushel.sources.lists import ListFile, ListLine, format_line, parse_line
from bushel.sources.media import VIDEOS, Audio, Clip, Frames, Image, Media, Pick, decode_video
from bushel.sources.opening import AnyData, open_source
from bushel.sources.samples import Samples, Stream
from bushel.sources.tables import Row, Table, parse_json, read_list, read_rows

__all__ = [
    "VIDEOS",
    "Adapter",
    "AnyData",
    "Arrays",
    "Audio",
    "Clip",
    "Files",
    "Frames",
    "Image",
    "LabelledFolder",
    "ListFile",
    "ListLine",
    "Media",
    "Pick",
    "Row",
    "Sample",
    "Samples",
    "Source",
    "Stream",
    "Table",
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
