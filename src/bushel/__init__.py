"""Bushel: training data in five record formats, with one index, one dataset and one loader.

`bushel.open` reads a dataset, `bushel.Writer` writes one, `bushel.Loader` feeds training from one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bushel import jpeg, transforms
    from bushel.codecs import Codec, register_codec
    from bushel.core.dataset.concat import concat
    from bushel.core.dataset.dataset import Dataset
    from bushel.core.dataset.indexing import index
    from bushel.core.dataset.info import Info
    from bushel.core.dataset.open import open, open_stream
    from bushel.core.dataset.stream import StreamDataset
    from bushel.core.progress import Progress
    from bushel.core.writer.writer import Writer
    from bushel.errors import (
        BushelError,
        CodecError,
        CorruptError,
        DamagedWarning,
        FormatError,
        IncompleteWarning,
        SpecError,
        StateError,
        TooManyErrors,
        UnsupportedError,
    )
    from bushel.ingest import ConvertResult, PackResult, convert, pack
    from bushel.integrations.huggingface import from_hf, to_hf
    from bushel.integrity import Problem, RepairResult, VerifyResult, repair, verify
    from bushel.loader import BadSample, Loader, LoaderStats, Mixture, StreamLoader, mix
    from bushel.viewer import Viewer, view

__version__ = "0.1.0"

__all__ = [
    "BadSample",
    "BushelError",
    "Codec",
    "CodecError",
    "ConvertResult",
    "CorruptError",
    "DamagedWarning",
    "Dataset",
    "FormatError",
    "IncompleteWarning",
    "Info",
    "Loader",
    "LoaderStats",
    "Mixture",
    "PackResult",
    "Problem",
    "Progress",
    "RepairResult",
    "SpecError",
    "StateError",
    "StreamDataset",
    "StreamLoader",
    "TooManyErrors",
    "UnsupportedError",
    "VerifyResult",
    "Viewer",
    "Writer",
    "__version__",
    "concat",
    "convert",
    "from_hf",
    "index",
    "jpeg",
    "mix",
    "open",
    "open_stream",
    "pack",
    "register_codec",
    "repair",
    "to_hf",
    "transforms",
    "verify",
    "view",
]

_HOME = {
    "BadSample": "loader",
    "BushelError": "errors",
    "Codec": "codecs",
    "CodecError": "errors",
    "ConvertResult": "ingest",
    "CorruptError": "errors",
    "DamagedWarning": "errors",
    "Dataset": "core.dataset.dataset",
    "FormatError": "errors",
    "IncompleteWarning": "errors",
    "Info": "core.dataset.info",
    "Loader": "loader",
    "LoaderStats": "loader",
    "Mixture": "loader",
    "PackResult": "ingest",
    "Problem": "integrity",
    "Progress": "core.progress",
    "RepairResult": "integrity",
    "SpecError": "errors",
    "StateError": "errors",
    "StreamDataset": "core.dataset.stream",
    "StreamLoader": "loader",
    "TooManyErrors": "errors",
    "UnsupportedError": "errors",
    "VerifyResult": "integrity",
    "Viewer": "viewer",
    "Writer": "core.writer.writer",
    "concat": "core.dataset.concat",
    "convert": "ingest",
    "from_hf": "integrations.huggingface",
    "index": "core.dataset.indexing",
    "mix": "loader",
    "open": "core.dataset.open",
    "open_stream": "core.dataset.open",
    "pack": "ingest",
    "register_codec": "codecs",
    "repair": "integrity",
    "to_hf": "integrations.huggingface",
    "verify": "integrity",
    "view": "viewer",
}

_MODULES = ("engines", "integrations", "jpeg", "loader", "sources", "testing", "transforms")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import bushel` alone takes a few milliseconds."""
    if name in _MODULES:
        return import_module(f"bushel.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'bushel' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"bushel.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
