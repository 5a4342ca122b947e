"""Sources: what `bushel.pack` packs.

`open_source` makes one of whatever can be one: paths, arrays, dicts, datasets. `Source` says what a source of your own
has to offer, which is little, and `bushel.testing.check_source` checks one.
"""

from bushel.sources.adapters import Adapter
from bushel.sources.arrays import Arrays
from bushel.sources.base import Fetching, Foldered, Labelled, Source, Traceable
from bushel.sources.files import Files, ImageFolder, LabelledFolder, VideoFolder
from bushel.sources.layouts import (
    activitynet,
    kinetics,
    kinetics_id,
    read_annotations,
    read_twentybn,
    twentybn_csv_jpeg,
    twentybn_csv_webm,
    twentybn_json,
)
from bushel.sources.lists import ListFile
from bushel.sources.media import Clip, Frames, Image, Media
from bushel.sources.members import Recipe, SampleFolder
from bushel.sources.opening import open_source
from bushel.sources.samples import Samples, Stream
from bushel.sources.stored import Stored
from bushel.sources.tables import Table

__all__ = [
    "Adapter",
    "Arrays",
    "Clip",
    "Fetching",
    "Files",
    "Foldered",
    "Frames",
    "Image",
    "ImageFolder",
    "Labelled",
    "LabelledFolder",
    "ListFile",
    "Media",
    "Recipe",
    "SampleFolder",
    "Samples",
    "Source",
    "Stored",
    "Stream",
    "Table",
    "Traceable",
    "VideoFolder",
    "activitynet",
    "kinetics",
    "kinetics_id",
    "open_source",
    "read_annotations",
    "read_twentybn",
    "twentybn_csv_jpeg",
    "twentybn_csv_webm",
    "twentybn_json",
]
