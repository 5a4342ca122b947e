"""Run a public program over an original package, or over its drop-in, and print what it does.

    python interop/run_program.py open_clip FOLDER

`programs/NAME.py` is the driver of a program: it imports the program from FOLDER (fetched by ``public_programs.py``,
unchanged), feeds it a small dataset, and calls `show` for what comes out. `MAPPED_IMPORTS` maps the original's name
to the drop-in (`map_imports`). The program works in the current folder.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import io
import os
import random
import runpy
import site
import sys
import tarfile
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import map_imports  # noqa: F401 it maps the imports
import numpy as np


def plain(value: Any) -> Any:
    """Return a value as text that is equal for equal values; arrays, images and bytes as digests."""
    if isinstance(value, Mapping):
        return {str(key): plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes {hashlib.sha256(value).hexdigest()[:16]}"
    array = np.asarray(value.asnumpy() if hasattr(value, "asnumpy") else value)
    content = np.ascontiguousarray(array).tobytes()
    return f"{array.dtype} {list(array.shape)} {hashlib.sha256(content).hexdigest()[:16]}"


def show(title: str, value: Any) -> None:
    """Print one thing that a program gave."""
    print(f"{title}: {plain(value)}", file=sys.__stdout__, flush=True)


def show_files(folder: str | Path) -> None:
    """Print the files below a folder, each with the digest of its bytes."""
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            show(str(path), path.read_bytes())


def show_members(path: str | Path) -> None:
    """Print the members of a tar, without their times."""
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            show(f"{path} {member.name}", file.read() if file else None)


def picture(number: int, shape: str = "wide") -> bytes:
    """Return one of the JPEGs that ``public_programs.py`` leaves in the current folder: wide or square."""
    pictures = sorted(Path.cwd().glob(f"pictures/*-{shape}.jpg"))
    return pictures[number % len(pictures)].read_bytes()


def write_tar(path: str | Path, members: Iterable[tuple[str, bytes]]) -> str:
    """Write a tar without times and owners, and return its path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if str(path).endswith("gz") else "w") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return str(path)


def packages(folder: Path, *names: str) -> None:
    """Make packages whose `__init__` does not run, as it needs the rest of the program."""
    for name in names:
        module = types.ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = module


def stand_ins(*names: str, **attributes: Any) -> None:
    """Make modules of which a program imports names that the part with the data does not use."""
    for name in names:
        module = MagicMock(name=name, __path__=[], __spec__=ModuleSpec(name, None), **attributes)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)


def run_script(path: Path, *arguments: str | Path) -> None:
    """Run a program as a command."""
    before = sys.argv
    sys.argv = [str(path), *map(str, arguments)]
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = before
        gc.collect()  # programs leave files to be closed at exit


def main() -> None:
    """Run the driver of the command line."""
    name, folder = sys.argv[1:3]
    for place in filter(None, os.environ.get("ORIGINAL_PACKAGES", "").split(os.pathsep)):
        site.addsitedir(place)  # after what this Python has, so that both runs have the same other packages
    sys.stdout = sys.stderr  # what programs say has times and paths, and is not compared
    warnings.simplefilter("ignore")
    random.seed(0)
    np.random.seed(0)
    driver: Callable[[Path], None] = importlib.import_module(f"programs.{name}").run
    driver(Path(folder).resolve())


if __name__ == "__main__":
    sys.modules["run_program"] = sys.modules["__main__"]
    main()
