"""Check the content of a wheel: `check_wheel.py WHEEL`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LARGEST = 5 << 20
"""Bytes that the wheel may have."""

VIEWER = ("templates/grid.html", "static/view.css", "static/grid.js")

LICENCES = ("LICENSE", "libjpeg-turbo.md", "libjpeg-turbo-ijg.txt", "nanobind.txt")


def problems_of(wheel: Path) -> list[str]:
    """Return the problems of a wheel: its size, missing files, or the symbols of its module."""
    found = []
    if wheel.stat().st_size > LARGEST:
        found.append(f"{wheel.stat().st_size} bytes, for at most {LARGEST}")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        ends = tuple(name.rpartition("/")[2] for name in names if ".dist-info/licenses/" in name)
        found += [f"the licence {name} is missing" for name in LICENCES if name not in ends]
        found += [f"{name} of the viewer is missing" for name in VIEWER if f"bushel/viewer/{name}" not in names]
        found += [f"{name} is a source file" for name in names if name.endswith((".cpp", ".hpp"))]
        modules = [name for name in names if name.endswith(".so")]
        if len(modules) != 1:
            found.append(f"{modules} instead of one module")
        for name in modules:
            with tempfile.TemporaryDirectory() as folder:
                path = archive.extract(name, folder)
                done = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True)
            symbols = [line.split()[-1] for line in done.stdout.splitlines()]
            found += [f"{name} exports {symbol}" for symbol in symbols if not symbol.startswith("PyInit_")]
    return found


if __name__ == "__main__":
    found = problems_of(Path(sys.argv[1]))
    for problem in found:
        print(f"{sys.argv[1]}: {problem}", file=sys.stderr)
    sys.exit(bool(found))
