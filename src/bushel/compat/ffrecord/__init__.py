"""Drop-in for FFRecord: change `import ffrecord` into `from bushel.compat import ffrecord`.

`docs/compat-ffrecord.md` lists the covered functions and the differences.
"""

from importlib import import_module
from typing import Any

from bushel.compat.ffrecord import utils

from .errors import (
    DamagedFileError,
    DamagedRecordError,
    MissingPathError,
    NoFileError,
    NoFolderError,
    RecordIndexError,
)
from .fileio import FileReader, FileWriter, checkFsAlign
from .package import PackedFolder, pack_folder

__all__ = [
    "DamagedFileError",
    "DamagedRecordError",
    "FileReader",
    "FileWriter",
    "MissingPathError",
    "NoFileError",
    "NoFolderError",
    "PackedFolder",
    "RecordIndexError",
    "checkFsAlign",
    "pack_folder",
    "utils",
]

__version__ = "1.4.0"  # the version of the original


def __getattr__(name: str) -> Any:
    """Import `ffrecord.torch` when it is first used, because PyTorch is optional."""
    if name == "torch":
        return import_module(f"{__name__}.torch")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
