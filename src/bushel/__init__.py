"""Bushel: training data in five record formats, with one index, one dataset and one loader.

`bushel.open` reads a dataset, `bushel.Writer` writes one, `bushel.Loader` feeds training from one.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bushel import jpeg, transforms
    from bushel._dataset.open.indexing import index
    from bushel._dataset.open.open import open
    from bushel._dataset.read.sides import Joined
    from bushel._dataset.views.concat import concat
    from bushel._dataset.views.dataset import Dataset
    from bushel._dataset.views.info import Info
    from bushel._dataset.views.join import join
    from bushel._dataset.views.mapped import Mapped
    from bushel._dataset.views.saved_views import SavedView
    from bushel._dataset.views.stream import StreamDataset, open_stream
    from bushel._dataset.views.views import list_views
    from bushel._pack import PackResult, convert, error_log_path, load_labels, merge, pack, part_path, split
    from bushel._runtime.progress import Progress
    from bushel._writer.writer import Writer
    from bushel.cards.describing import card
    from bushel.codecs import Codec, register_codec
    from bushel.containers import register_container
    from bushel.errors import (
        BushelError,
        CodecError,
        CorruptError,
        DamagedWarning,
        FormatError,
        IncompleteWarning,
        InUseError,
        MissingPackageError,
        SpecError,
        StateError,
        TooManyErrors,
        UnsupportedError,
        UntrustedWarning,
    )
    from bushel.integrations.huggingface import from_hf, to_hf
    from bushel.integrity import (
        Diff,
        Erasure,
        FieldDiff,
        Problem,
        Removal,
        RepairResult,
        VerifyResult,
        diff,
        erase,
        removals,
        remove,
        removed_positions,
        repair,
        restore,
        verify,
    )
    from bushel.loader import BadSample, Loader, LoaderStats, Mixture, StreamLoader, mix
    from bushel.viewer import Viewer, view

__version__ = "0.1.0"

__all__ = [
    "BadSample",
    "BushelError",
    "Codec",
    "CodecError",
    "CorruptError",
    "DamagedWarning",
    "Dataset",
    "Diff",
    "Erasure",
    "FieldDiff",
    "FormatError",
    "InUseError",
    "IncompleteWarning",
    "Info",
    "Joined",
    "Loader",
    "LoaderStats",
    "Mapped",
    "MissingPackageError",
    "Mixture",
    "PackResult",
    "Problem",
    "Progress",
    "Removal",
    "RepairResult",
    "SavedView",
    "SpecError",
    "StateError",
    "StreamDataset",
    "StreamLoader",
    "TooManyErrors",
    "UnsupportedError",
    "UntrustedWarning",
    "VerifyResult",
    "Viewer",
    "Writer",
    "__version__",
    "card",
    "concat",
    "convert",
    "diff",
    "erase",
    "error_log_path",
    "from_hf",
    "index",
    "join",
    "jpeg",
    "list_views",
    "load_labels",
    "merge",
    "mix",
    "open",
    "open_stream",
    "pack",
    "part_path",
    "register_codec",
    "register_container",
    "removals",
    "remove",
    "removed_positions",
    "repair",
    "restore",
    "split",
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
    "CorruptError": "errors",
    "DamagedWarning": "errors",
    "Dataset": "_dataset.views.dataset",
    "Diff": "integrity",
    "Erasure": "integrity",
    "FieldDiff": "integrity",
    "FormatError": "errors",
    "InUseError": "errors",
    "IncompleteWarning": "errors",
    "Info": "_dataset.views.info",
    "Joined": "_dataset.read.sides",
    "Loader": "loader",
    "LoaderStats": "loader",
    "Mapped": "_dataset.views.mapped",
    "MissingPackageError": "errors",
    "Mixture": "loader",
    "PackResult": "_pack",
    "Problem": "integrity",
    "Progress": "_runtime.progress",
    "Removal": "integrity",
    "RepairResult": "integrity",
    "SavedView": "_dataset.views.saved_views",
    "SpecError": "errors",
    "StateError": "errors",
    "StreamDataset": "_dataset.views.stream",
    "StreamLoader": "loader",
    "TooManyErrors": "errors",
    "UnsupportedError": "errors",
    "UntrustedWarning": "errors",
    "VerifyResult": "integrity",
    "Viewer": "viewer",
    "Writer": "_writer.writer",
    "card": "cards.describing",
    "concat": "_dataset.views.concat",
    "convert": "_pack",
    "diff": "integrity",
    "erase": "integrity",
    "error_log_path": "_pack",
    "from_hf": "integrations.huggingface",
    "index": "_dataset.open.indexing",
    "join": "_dataset.views.join",
    "load_labels": "_pack",
    "merge": "_pack",
    "mix": "loader",
    "open": "_dataset.open.open",
    "open_stream": "_dataset.views.stream",
    "pack": "_pack",
    "part_path": "_pack",
    "register_codec": "codecs",
    "register_container": "containers",
    "removals": "integrity",
    "remove": "integrity",
    "removed_positions": "integrity",
    "repair": "integrity",
    "restore": "integrity",
    "split": "_pack",
    "to_hf": "integrations.huggingface",
    "verify": "integrity",
    "view": "viewer",
    "list_views": "_dataset.views.views",
}

_MODULES = ("codecs", "containers", "engines", "integrations", "jpeg", "loader", "sources", "testing", "transforms")


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


_SETTINGS = frozenset(
    f"BUSHEL_{name}"
    for name in (
        *("BLOCK_CACHE", "CACHE_DIR", "CACHE_SIZE", "NETWORK_CA", "NETWORK_PATIENCE", "NETWORK_TIMEOUT"),
        *("TABLES_DIR", "TABLES_SIZE"),
    )
)
"""Environment variables whose values are checked where they are used."""

if any(name.startswith("BUSHEL_") and name not in _SETTINGS for name in os.environ):
    import_module("bushel._runtime.environment").warn_of_mistakes(_SETTINGS)
