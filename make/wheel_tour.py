"""Do with an installed wheel what the README shows, and run the conformance suite on all containers.

    python make/wheel_tour.py

It needs nothing but the wheel and this checkout, whose source it does not import.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def tour(folder: Path) -> int:
    """Run the blocks of the README in a folder, and return how many results were as written there."""
    from tests.docs.pages import blocks, run
    from tests.sources.folders import image_folder

    with contextlib.chdir(folder):
        image_folder(Path("photos"), 4)
        names: dict[str, Any] = {}
        return sum(run("README.md", block, names) for block in blocks("README.md", "python"))


def conformance(folder: Path) -> int:
    """Run the checks of every container, and return how many applied."""
    from tests.conformance.suite import CONTAINER_CHECKS, check_container

    applied = 0
    for container in ("bag", "ffrecord", "gulp", "recordio", "tar"):
        place = folder / container
        place.mkdir()
        applied += len(CONTAINER_CHECKS) - len(check_container(container, place))
    return applied


def main() -> None:
    """Run both, in folders that are removed again."""
    import bushel

    installed = Path(bushel.__file__).resolve()
    if installed.is_relative_to(ROOT / "src"):
        raise SystemExit(f"{installed} is the source, not an installed wheel")
    sys.path.append(str(ROOT))  # for the tests' helpers
    viewer = importlib.resources.files("bushel") / "viewer"
    for part in ("templates/grid.html", "static/view.css"):
        if not (viewer / part).is_file():
            raise SystemExit(f"the viewer has no {part}")
    with tempfile.TemporaryDirectory() as folder:
        print(f"README: {tour(Path(folder))} results are as it says")
    with tempfile.TemporaryDirectory() as folder:
        print(f"conformance: {conformance(Path(folder))} checks passed")


if __name__ == "__main__":
    main()
