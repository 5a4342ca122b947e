"""Benchmark of loading random crops of JPEGs, plain, tiled and with seek tables: photos, 1920-pixel photos, clips.

    python benchmarks/crops.py --out crops.json    5,000 photos, 600 large ones, 160 clips
    python benchmarks/crops.py --small             a tenth of them, fewer rounds

Every image becomes 224 x 224 uint8 by a random resized crop and a flip, in shuffled batches of 128; the frames of a
clip of 16 share one crop, in batches of 8 clips. The photos, chosen as in images.py, are repeated. Each contestant has
its own process, and Bushel's a Loader that serves all epochs. They run in turns, and their first epoch is not counted,
so files are in the page cache. "the kernel alone" is the upper limit: a C++ loop in two threads with bytes and boxes in
memory (`make ceiling` builds it). It has the boxes of the Loader.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

import bushel
import plot
from images import enlarged
from images import photos as read_photos
from measure import SCRATCH, console, machine, options_parser, save
from photos import Contestant, Epoch, Result, Serving, median

FRAMES = 16


@dataclass(frozen=True, slots=True)
class Case:
    """The images to load.

    Attributes:
        name: Name in tables.
        images: Number of images, or of frames of clips.
        large: Whether images are enlarged to 1920 pixels.
        clips: Whether images are frames of clips.
    """

    name: str
    images: int
    large: bool = False
    clips: bool = False

    @property
    def contestants(self) -> list[Contestant]:
        """Return the contestants that load them."""
        variant = "clips" if self.clips else "-"
        ours = [
            Contestant(f"{name}, {'seek tables' if form == 'seek' else form}", peer, form, variant, None)
            for form in ("plain", "tiled", "seek")
            for name, peer in (("bushel.Loader", "bushel"), ("the kernel alone", "kernel"))
        ]
        theirs = [
            Contestant("torch + Pillow", "clips" if self.clips else "torch", "files", "Pillow"),
            Contestant("torch + simplejpeg + cv2", "clips" if self.clips else "torch", "files", "cv2"),
        ]
        return ours + theirs + ([] if self.clips else [Contestant("SPDL + simplejpeg + cv2", "spdl", "files")])


CASES = (
    Case("photos", 5000),
    Case("1920 pixels", 600, large=True),
    Case("clips of 16", 160 * FRAMES, clips=True),
)


def fill(case: Case, images: int, folder: Path | None) -> Path:
    """Write the images of a case as files and as bags, plain, tiled and with seek tables, if they do not exist."""
    root = SCRATCH / f"crops-4-{case.name.replace(' ', '-')}-{images}"
    if (root / "done").exists():
        return root
    console.print(f"writing {root.name}")
    shutil.rmtree(root, ignore_errors=True)
    given = read_photos(folder, 100_000)
    pictures = [enlarged(data) for data in given[:: max(1, len(given) // 240)]] if case.large else given
    if case.clips:  # a clip's frames have one size: one photo, as often as it has frames
        clips = itertools.islice(itertools.cycle(pictures), images // FRAMES)
        samples: Iterator[dict[str, Any]] = ({"frames": [data] * FRAMES} for data in clips)
    else:
        samples = ({"image": data} for data in itertools.islice(itertools.cycle(pictures), images))
    spec = {"frames": "jpg[]"} if case.clips else {"image": "jpg"}
    with bushel.Writer(root / "plain", spec, container="bag") as writer:
        for number, sample in enumerate(samples):
            writer.append(sample, key=f"{number:06d}")
            at = root / "files" / f"{number:06d}" if case.clips else root / "files"
            at.mkdir(parents=True, exist_ok=True)
            for frame, data in enumerate(sample["frames"] if case.clips else [sample["image"]]):
                (at / (f"{frame:02d}.jpg" if case.clips else f"{number:06d}.jpg")).write_bytes(data)
    bushel.convert(root / "plain", root / "tiled", container="bag", images="tile")
    shutil.copytree(root / "plain", root / "seek")
    bushel.index(root / "seek", seek=True)
    (root / "done").touch()
    return root


def contest(case: Case, root: Path, rounds: int, skipped: dict[str, str]) -> dict[str, Result]:
    """Measure all contestants in turns."""
    running: dict[str, Serving] = {}
    for one in case.contestants:
        if one.missing is not None:
            skipped[one.name] = one.missing
            continue
        try:
            running[one.name] = Serving(one, root / one.form)
        except RuntimeError as error:
            skipped[one.name] = str(error)
    epochs: dict[str, list[Epoch]] = {name: [] for name in running}
    try:
        for number in range(rounds + 1):
            for name, serving in running.items():
                epoch = serving.epoch(number)
                epochs[name] += [epoch] if number else []
    finally:
        for serving in running.values():
            serving.close()
    return {name: median(measured) for name, measured in epochs.items()}


def show(case: Case, images: int, results: dict[str, Result]) -> None:
    """Print a case and its ratios of CPU time per image."""
    table = Table("", title=f"{case.name}: {images:,} images", title_justify="left")
    for heading in ("images/s", "CPU ms/image"):
        table.add_column(heading, justify="right")
    for name, result in results.items():
        table.add_row(name, f"{result.images_per_second:,.0f}", f"{result.cpu_ms:.3f}")
    console.print(table)
    cpu = {name: result.cpu_ms for name, result in results.items()}
    for better, worse in (
        ("bushel.Loader, plain", "torch + Pillow"),
        ("bushel.Loader, plain", "torch + simplejpeg + cv2"),
        ("bushel.Loader, plain", "SPDL + simplejpeg + cv2"),
        ("bushel.Loader, tiled", "bushel.Loader, plain"),
        ("bushel.Loader, seek tables", "bushel.Loader, plain"),
        ("bushel.Loader, tiled", "bushel.Loader, seek tables"),
        ("the kernel alone, plain", "bushel.Loader, plain"),
        ("the kernel alone, tiled", "bushel.Loader, tiled"),
        ("the kernel alone, seek tables", "bushel.Loader, seek tables"),
    ):
        if better in cpu and worse in cpu:
            console.print(f"{better}: {cpu[worse] / cpu[better]:.2f}x {worse}")


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser(
        "Loading of crops of JPEGs, plain, tiled and with seek tables.", "a tenth of the images, fewer rounds"
    )
    parser.add_argument("--photos", type=Path, help="a folder of JPEG files")
    parser.add_argument("--plot", type=Path, help="SVG file for a drawing of them")
    options = parser.parse_args()
    skipped: dict[str, str] = {}
    results: dict[str, Any] = {}
    for case in CASES:
        images = case.images // 10 if options.small else case.images
        found = contest(case, fill(case, images, options.photos), 2 if options.small else 3, skipped)
        show(case, images, found)
        results[case.name] = {name: asdict(result) for name, result in found.items()}
    save(options.out, results, skipped)
    if options.plot is not None:
        plot.write(options.plot, results, machine())


if __name__ == "__main__":
    main()
