"""Bushel: training data in five record formats, with one index, one dataset and one loader.

`bushel.open` reads a dataset, `bushel.Writer` writes one, `bushel.Loader` feeds training from one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bushel import jpeg, transforms
    from bushel.codecs import Codec, register_codec
    from bushel.core.dataset.dataset import Dataset, concat
    from bushel.core.dataset.info import Info
    from bushel.core.dataset.open import index, open, open_stream
    from bushel.core.dataset.stream import StreamDataset
    from bushel.core.progress import Progress
    from bushel.core.writer.writer import Writer
    from bushel.errors import (
        BushelError,
        CodecError,
        CorruptError,
        FormatError,
        SpecError,
        StateError,
        TooManyErrors,
        UnsupportedError,
    )
    from bushel.ingest import ConvertResult, PackResult, convert, pack
    from bushel.integrity import repair, verify
    from bushel.loader import BadSample, Loader, LoaderStats, Mixture, StreamLoader, mix

__version__ = "0.1.0"

_HOME = {
    "BadSample": "loader",
    "BushelError": "errors",
    "Codec": "codecs",
    "CodecError": "errors",
    "ConvertResult": "ingest",
    "CorruptError": "errors",
    "Dataset": "core.dataset.dataset",
    "FormatError": "errors",
    "Info": "core.dataset.info",
    "Loader": "loader",
    "LoaderStats": "loader",
    "Mixture": "loader",
    "PackResult": "ingest",
    "Progress": "core.progress",
    "SpecError": "errors",
    "StateError": "errors",
    "StreamDataset": "core.dataset.stream",
    "StreamLoader": "loader",
    "TooManyErrors": "errors",
    "UnsupportedError": "errors",
    "Writer": "core.writer.writer",
    "concat": "core.dataset.dataset",
    "convert": "ingest",
    "index": "core.dataset.open",
    "mix": "loader",
    "open": "core.dataset.open",
    "open_stream": "core.dataset.open",
    "pack": "ingest",
    "register_codec": "codecs",
    "repair": "integrity",
    "verify": "integrity",
}

_MODULES = ("jpeg", "loader", "sources", "testing", "transforms")

__all__ = [
    "BadSample",
    "BushelError",
    "Codec",
    "CodecError",
    "ConvertResult",
    "CorruptError",
    "Dataset",
    "FormatError",
    "Info",
    "Loader",
    "LoaderStats",
    "Mixture",
    "PackResult",
    "Progress",
    "SpecError",
    "StateError",
    "StreamDataset",
    "StreamLoader",
    "TooManyErrors",
    "UnsupportedError",
    "Writer",
    "__version__",
    "concat",
    "convert",
    "index",
    "jpeg",
    "mix",
    "open",
    "open_stream",
    "pack",
    "register_codec",
    "repair",
    "transforms",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: `import bushel` alone costs a few milliseconds."""
    if name in _MODULES:
        return import_module(f"bushel.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'bushel' has no attribute {name!r}")
    value = getattr(import_module(f"bushel.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
