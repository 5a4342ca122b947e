"""Imports of an original package get its drop-in, by `MAPPED_IMPORTS` in the environment.

MAPPED_IMPORTS     JSON, {"webdataset": "bushel.compat.webdataset", …}; submodules are mapped too
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from types import ModuleType

MAPPED: dict[str, str] = json.loads(os.environ.get("MAPPED_IMPORTS", "{}"))


class MappedImports(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a module of an original in the drop-in. The module is the drop-in's own, not a copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec if ``fullname`` is of a mapped package and the drop-in has such a module."""
        there = self._there(fullname)
        if there is None or importlib.util.find_spec(there) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Put the drop-in's module where the import looks for the result."""
        there = self._there(module.__name__)
        if there is not None:
            sys.modules[module.__name__] = importlib.import_module(there)

    def _there(self, fullname: str) -> str | None:
        for name in (fullname, fullname.partition(".")[0]):
            if name in MAPPED:
                return MAPPED[name] + fullname[len(name) :]
        return None


sys.meta_path.insert(0, MappedImports())
