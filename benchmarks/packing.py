"""Benchmark of packing photos unchanged: all containers, `tar cf` and the original tools, on the same files.

    python benchmarks/packing.py --out packing.json        2,400 photos or more
    python benchmarks/packing.py --small                   480, fewer rounds
    python benchmarks/packing.py --photos FOLDER

The photos are those beside the repository, or generated ones, copied under other names until there are enough.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from measure import ROOT, SCRATCH, Rate, Timing, console, in_turns, installed, options_parser, run_packer, save, show
from served import CONTAINERS

SAMPLE_PHOTOS = ROOT.parent / "shared" / "data" / "photos"
PACKERS = Path(__file__).resolve().parent / "packers.py"
ENVIRONMENTS = {"webdataset": "webdataset", "granular": "peers", "im2rec": "mxnet"}


def copies(source: Path, count: int) -> Path:
    """Return a flat folder of at least `count` JPEG files, copies of the photos under `source`."""
    photos = sorted(path for path in source.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not photos:
        raise SystemExit(f"no JPEG files in {source}")
    folder = SCRATCH / f"photos-{count}"
    if not folder.exists():
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        rounds = -(-count // len(photos))
        for number, photo in itertools.product(range(rounds), photos):
            shutil.copyfile(photo, part / f"{number:04d}_{photo.stem.replace('.', '_')}.jpg")
        part.rename(folder)
    return folder


def generated() -> Path:
    """Generate photos as the demo does."""
    sys.path.insert(0, str(ROOT / "examples"))
    from demo import generate_photos

    folder = SCRATCH / "generated"
    if not folder.exists():
        generate_photos(folder, 240)
    return folder


def options_and_photos(description: str) -> tuple[argparse.Namespace, Path]:
    """Return the options of the command line, and a folder of photos."""
    parser = options_parser(description, "480 photos, fewer rounds")
    parser.add_argument("--photos", type=Path, metavar="FOLDER", help="where to take photos from")
    options = parser.parse_args()
    source = options.photos or (SAMPLE_PHOTOS if SAMPLE_PHOTOS.is_dir() else generated())
    return options, copies(source, 480 if options.small else 2400)


def _packing(packer: str, python: Path, folder: Path, sync: bool) -> Callable[[int], Timing]:
    def measure(number: int) -> Timing:
        out = SCRATCH / "packed"
        command = [str(python), str(PACKERS), packer, str(folder), str(out), *(["--sync"] if sync else [])]
        done = run_packer(command, out)
        return Timing(done["images"], done["wall"], done["cpu"])

    return measure


def main() -> None:
    """Run the benchmark with the options of the command line."""
    options, folder = options_and_photos("Packing photos as they are.")
    packers = {f"bushel {container}": (f"bushel:{container}", Path(sys.executable)) for container in CONTAINERS}
    packers["tar cf"] = ("tar", Path(sys.executable))
    pythons, skipped = installed(ENVIRONMENTS)
    packers |= {name: (name, python) for name, python in pythons.items()}
    results: dict[str, dict[str, Rate]] = {}
    for title, sync in (("in memory", False), ("on disk", True)):
        contestants = {name: _packing(packer, python, folder, sync) for name, (packer, python) in packers.items()}
        results[title] = in_turns(contestants, 3 if options.small else 5)
        show(f"packing {folder.name}, done when {title}", "images", results[title], ["tar cf", "webdataset"])
    console.print("im2rec and tar include the start of their process, and tar has no labels to write.")
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()
