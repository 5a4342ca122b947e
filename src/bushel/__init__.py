"""Bushel: training data in five record formats, with one index, one dataset and one loader.

`bushel.open` reads a dataset, `bushel.Writer` writes one, `bushel.Loader` feeds training from one.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def _modules_of_names() -> dict[str, str]:
    """Return the module of each public name, from the lines `from MODULE import NAME as NAME` of the stub."""
    with open(__file__.rpartition(".")[0] + ".pyi", encoding="utf-8") as stub:
        words = [line.split() for line in stub if line.startswith("from ")]
    return {name: module for _, module, _, name, *_ in words}


_MODULE_OF = _modules_of_names()
_SHOWN_MODULES = ("jpeg", "transforms")
_INSTEAD = {
    "Loader": "DataLoader",
    "Writer": "ShardWriter TarWriter MDSWriter DatasetWriter write",
    "concat": "concatenate concatenate_datasets ConcatDataset ChainDataset",
    "mix": "interleave interleave_datasets",
    "open": "load load_dataset load_from_disk open_dataset dataset read info "
    "from_folder from_parquet from_json from_csv ImageFolder WebDataset StreamingDataset",
    "open_stream": "IterableDataset",
    "pack": "save from_pandas from_dict from_list from_generator",
    "split": "random_split train_test_split",
}
"""Public names, and the names that other libraries have for the same."""
_HOMES_OF_RARE_NAMES = ("datasets", "runs", "errors", "integrity", "loader")

__all__ = sorted(
    {"__version__", *_SHOWN_MODULES}.union(
        name for name, module in _MODULE_OF.items() if module != __name__
    )
)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import bushel` alone takes a few milliseconds."""
    if name not in _MODULE_OF:
        homes = [f"bushel.{home}" for home in _HOMES_OF_RARE_NAMES if name[:1].isupper()]
        hints = [f"; it is {home}.{name}" for home in homes if name in import_module(home).__all__]
        hints += [
            f": write bushel.{ours}" for ours, names in _INSTEAD.items() if name in names.split()
        ]
        raise AttributeError(f"module 'bushel' has no attribute {name!r}{''.join(hints)}")
    if _MODULE_OF[name] == __name__:
        return import_module(f"bushel.{name}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__


_SETTINGS = frozenset(
    f"BUSHEL_{name}"
    for name in (
        *(
            "BLOCK_CACHE",
            "CACHE_DIR",
            "CACHE_SIZE",
            "NETWORK_CA",
            "NETWORK_PATIENCE",
            "NETWORK_TIMEOUT",
        ),
        *("INDEX", "SLURM_RETRIES", "TABLES_DIR", "TABLES_SIZE"),
    )
)
"""Environment variables whose values are checked where they are used."""

if any(name.startswith("BUSHEL_") and name not in _SETTINGS for name in os.environ):
    import_module("bushel._runtime.messages").warn_of_mistakes(_SETTINGS)

if hasattr(sys, "ps1") or sys.flags.interactive or "IPython" in sys.modules:
    import_module("bushel._pictures.terminal").install()
