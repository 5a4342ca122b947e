"""Benchmark of packing photos resized to a shorter edge of 256: Bushel, im2rec and GulpIO2, two workers each.

python benchmarks/resizing.py --out resizing.json        2,400 photos or more
python benchmarks/resizing.py --small                    480, fewer rounds
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from measure import SCRATCH, Timing, in_turns, installed, run_packer, save, show
from packing import options_and_photos

PEER = Path(__file__).resolve().parent / "peers" / "pack_resized.py"
ENVIRONMENTS = {"im2rec": "mxnet", "gulpio2": "gulpio2"}
CLASSES = 10


def classes(photos: Path) -> Path:
    """Link the files into one folder per class."""
    folder = SCRATCH / f"{photos.name}-classes"
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        for number, photo in enumerate(sorted(photos.iterdir())):
            one = part / f"class{number % CLASSES}"
            one.mkdir(parents=True, exist_ok=True)
            os.link(photo, one / photo.name)
        part.rename(folder)
    return folder


def _packing(packer: str, python: Path, folder: Path, written: dict[str, int]) -> Callable[[int], Timing]:
    def measure(number: int) -> Timing:
        out = SCRATCH / "resized"
        done = run_packer([str(python), str(PEER), packer, str(folder), str(out)], out)
        written[packer] = done["bytes"]
        return Timing(done["images"], done["wall"], done["cpu"])

    return measure


def main() -> None:
    """Run the benchmark with the options of the command line."""
    options, folder = options_and_photos("Packing photos resized.")
    folder = classes(folder)
    forms = {"bushel, recordio": "recordio:95", "bushel, gulp": "gulp:95", "bushel, gulp of quality 90": "gulp:90"}
    packers = {name: (f"bushel:{form}", Path(sys.executable)) for name, form in forms.items()}
    pythons, skipped = installed(ENVIRONMENTS)
    packers |= {name: (name, python) for name, python in pythons.items()}
    written: dict[str, int] = {}
    contestants = {name: _packing(packer, python, folder, written) for name, (packer, python) in packers.items()}
    rates = in_turns(contestants, 3 if options.small else 5)
    show(f"packing {folder.name}, resized to 256", "images", rates, list(ENVIRONMENTS))
    save(options.out, {"rates": rates, "bytes": written}, skipped)


if __name__ == "__main__":
    main()
