"""Benchmark of packing photos unchanged: all containers, `tar cf` and the original tools, on the same files.

    python benchmarks/packing.py --out packing.json        2,400 photos or more
    python benchmarks/packing.py --small                   480, fewer rounds
    python benchmarks/packing.py --photos FOLDER
    python benchmarks/packing.py --commands        commands with their start, and the least that packing needs

The photos are those beside the repository, or generated ones, copied under other names until there are enough.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
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
    parser.add_argument("--commands", action="store_true", help="measure commands, 12,000 photos")
    parser.add_argument("--photos", type=Path, metavar="FOLDER", help="where to take photos from")
    options = parser.parse_args()
    source = options.photos or (SAMPLE_PHOTOS if SAMPLE_PHOTOS.is_dir() else generated())
    return options, copies(source, 480 if options.small else 12_000 if options.commands else 2400)


def _packing(packer: str, python: Path, folder: Path, sync: bool) -> Callable[[int], Timing]:
    def measure(number: int) -> Timing:
        out = SCRATCH / "packed"
        command = [str(python), str(PACKERS), packer, str(folder), str(out), *(["--sync"] if sync else [])]
        done = run_packer(command, out)
        return Timing(done["images"], done["wall"], done["cpu"])

    return measure


def _command(words: Sequence[str], images: int) -> Callable[[int], Timing]:
    """Return a measurement of a command that writes into `SCRATCH / "packed"`: the CPU time of its whole process."""

    def measure(number: int) -> Timing:
        out = SCRATCH / "packed"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(words, check=True, capture_output=True)
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        shutil.rmtree(out)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Timing(images, wall, cpu)

    return measure


_FLOOR = """
import os, sys
from bushel.kernels import read_files
import numpy as np
folder, out = sys.argv[1:]
names, room = sorted(os.listdir(folder)), np.zeros(1 << 20, np.uint8)
with open(out, "wb", buffering=0) as file:
    while names:
        offsets, _ = read_files(names[:64], room, folder=folder)
        file.write(room[: offsets[-1]])
        del names[: len(offsets) - 1]
"""
"""Reads every file, computes its CRC-32, and writes it: what packing cannot do without."""


def _commands(folder: Path) -> dict[str, Callable[[int], Timing]]:
    out, images = SCRATCH / "packed", len(list(folder.iterdir()))
    names = {"tar": "x.tar", "bag": "x", "ffrecord": "x.ffr", "recordio": "x.rec", "gulp": "x"}
    words = {
        f"bushel pack, {container}": (
            [sys.executable, "-m", "bushel", "pack", folder, out / name, "--container", container]
        )
        for container, name in names.items()
    }
    words["tar cf"] = ["tar", "cf", out / "x.tar", "-C", folder, "."]
    words["floor: read, CRC-32, write"] = [sys.executable, "-c", _FLOOR, folder, out / "x"]
    return {name: _command(list(map(str, own)), images) for name, own in words.items()}


def main() -> None:
    """Run the benchmark with the options of the command line."""
    options, folder = options_and_photos("Packing photos as they are.")
    rounds = 3 if options.small else 5
    if options.commands:
        rates = in_turns(_commands(folder), rounds)
        show(f"packing {folder.name} by commands", "images", rates, ["tar cf"])
        save(options.out, {"commands": rates}, {})
        return
    packers = {f"bushel {container}": (f"bushel:{container}", Path(sys.executable)) for container in CONTAINERS}
    packers["tar cf"] = ("tar", Path(sys.executable))
    pythons, skipped = installed(ENVIRONMENTS)
    packers |= {name: (name, python) for name, python in pythons.items()}
    results: dict[str, dict[str, Rate]] = {}
    for title, sync in (("in memory", False), ("on disk", True)):
        contestants = {name: _packing(packer, python, folder, sync) for name, (packer, python) in packers.items()}
        results[title] = in_turns(contestants, rounds)
        show(f"packing {folder.name}, done when {title}", "images", results[title], ["tar cf", "webdataset"])
    console.print("im2rec and tar include the start of their process, and tar has no labels to write.")
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()
