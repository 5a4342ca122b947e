"""Sources: the data that `bushel.pack` packs.

`open_source` makes a source from paths, arrays, dicts and datasets. The protocol `Source` describes
the few methods of a source of your own, and `bushel.testing.check_source` checks one.
"""

from .arrays import Arrays
from .base import Sample, Source, extend_labels
from .files import Files, LabelledFolder, walk
from .foreign import Adapter
from .lists import ListFile, ListLine, format_line, parse_line
from .media import VIDEOS, Audio, Clip, Frames, Image, Media, Pick, decode_video
from .opening import AnyData, open_source
from .samples import Samples, Stream
from .tables import Row, Table, parse_json, read_list, read_rows

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
