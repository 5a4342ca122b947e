"""The main job, on real photos: pack, verify, read at random, iterate in shuffled batches.

`make demo` runs it. The photos are packed into each of the five containers, with unchanged JPEG bytes. Samples
that are read are compared with the photos and between containers. The exit code is 0 if all are equal, else 1.

    python examples/demo.py                          sample photos beside the repository, or generated ones
    python examples/demo.py --photos ~/Pictures      the JPEG files of a folder
    python examples/demo.py --keep packed            leave the five datasets in the folder `packed`
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from rich.console import Console
from rich.table import Table

import bushel

CONTAINERS = ("bag", "tar", "ffrecord", "gulp", "recordio")
SPEC = {"image": "jpg", "label": "int"}
SAMPLE_PHOTOS = Path(__file__).resolve().parents[2] / "shared" / "data" / "photos"
GENERATED = 64
READS, READ_BATCH = 4096, 256
EPOCHS, BATCH = 2, 32
SIDE = 64

console = Console(highlight=False)


class MismatchError(Exception):
    """The samples read from a container differ from the ones written."""


@dataclass(frozen=True, slots=True)
class Photo:
    """A JPEG file with its key and the number of its folder."""

    path: Path
    key: str
    label: int


@dataclass(frozen=True, slots=True)
class Result:
    """The measurements of one container."""

    info: bushel.datasets.Info
    packed: float
    read: float
    iterated: float


def find_photos(folder: Path) -> list[Photo]:
    """Return the JPEG files of a folder, sorted. Keys have no dots, because a dot ends the key in a tar."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    if not paths:
        raise FileNotFoundError(f"no JPEG files in {folder}")
    labels = {parent: number for number, parent in enumerate(sorted({path.parent for path in paths}))}
    keys = [path.relative_to(folder).with_suffix("").as_posix().replace(".", "_") for path in paths]
    return [Photo(path, key, labels[path.parent]) for path, key in zip(paths, keys, strict=True)]


def generate_photos(folder: Path, count: int) -> list[Photo]:
    """Generate JPEG files of colour gradients with noise, for a machine without photos."""
    generator = np.random.default_rng(0)
    for number in range(count):
        height, width = generator.integers(120, 400, 2).tolist()
        across, down = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
        corners = generator.uniform(0, 200, (2, 3))
        pixels = across[..., None] * corners[0] + down[..., None] * corners[1]
        pixels += generator.normal(0, 12, pixels.shape)
        path = folder / f"class{number % 4}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return find_photos(folder)


def choose_photos(folder: Path | None, scratch: Path, limit: int | None) -> list[Photo]:
    """Return the photos to pack: from the given folder, else the sample photos, else generated ones."""
    if folder is None and SAMPLE_PHOTOS.is_dir():
        folder = SAMPLE_PHOTOS
    if folder is None:
        photos = generate_photos(scratch / "photos", min(GENERATED, limit or GENERATED))
        console.print(f"{len(photos)} generated photos (none were named with --photos)")
        return photos
    photos = find_photos(folder)[:limit]
    console.print(f"{len(photos)} photos of {folder}")
    return photos


def thumbnail(image: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Scale an image to SIDE × SIDE × 3, so that images of any size fit into one batch."""
    return np.asarray(Image.fromarray(image).convert("RGB").resize((SIDE, SIDE), reducing_gap=2.0))


def pack(photos: list[Photo], out: Path, container: str) -> None:
    """Write the photos into a dataset without encoding them again."""
    with bushel.Writer(out, SPEC, container=container) as writer:
        for photo in photos:
            writer.append({"image": photo.path.read_bytes(), "label": photo.label}, key=photo.key)


def check_content(dataset: bushel.Dataset, photos: list[Photo]) -> None:
    """Compare every key, label and byte with the photos."""
    if list(dataset.keys) != [photo.key for photo in photos]:
        raise MismatchError(f"{dataset}: the keys differ from the photos' keys, or their order does")
    for photo, stored in zip(photos, dataset.read(range(len(dataset)), ["image"], decode=False), strict=True):
        if stored["image"] != photo.path.read_bytes():
            raise MismatchError(f"{dataset}: the bytes of {photo.key} differ from {photo.path}")
    labels = [sample["label"] for sample in dataset.read(range(len(dataset)), ["label"])]
    if labels != [photo.label for photo in photos]:
        raise MismatchError(f"{dataset}: the labels differ from the photos' labels")


def read_at_random(dataset: bushel.Dataset) -> None:
    """Read the stored bytes of READS photos, READ_BATCH per call."""
    positions = np.random.default_rng(0).integers(0, len(dataset), (READS // READ_BATCH, READ_BATCH))
    for batch in positions:
        dataset.read(batch, decode=False)


def iterate(dataset: bushel.Dataset) -> list[tuple[list[str], int]]:
    """Iterate over shuffled epochs. Return for each the keys in order and a CRC-32 of all pixels."""
    loader = bushel.Loader(dataset, BATCH, shuffle=True, seed=0, transforms={"image": [thumbnail]})
    epochs = []
    for _ in range(EPOCHS):
        keys: list[str] = []
        pixels = 0
        for batch in loader:
            keys += batch["__key__"]
            pixels = zlib.crc32(batch["image"], pixels)
        epochs.append((keys, pixels))
    return epochs


def check_epochs(epochs: list[tuple[list[str], int]], photos: list[Photo]) -> None:
    """Check that every epoch has every photo once, and that all orders differ."""
    if any(sorted(keys) != sorted(photo.key for photo in photos) for keys, _ in epochs):
        raise MismatchError("an epoch does not hold every photo exactly once")
    if len(photos) > BATCH and len({tuple(keys) for keys, _ in epochs}) != EPOCHS:
        raise MismatchError("two epochs came in the same order")


@contextmanager
def step(what: str) -> Iterator[list[float]]:
    """Print a step and its duration, and append the seconds to the list."""
    seconds: list[float] = []
    start = time.perf_counter()
    yield seconds
    seconds.append(time.perf_counter() - start)
    console.print(f"  {what:<36}{seconds[0]:8.2f} s")


def run(photos: list[Photo], root: Path) -> dict[str, Result]:
    """Run all steps with every container."""
    results: dict[str, Result] = {}
    first_epochs: list[tuple[list[str], int]] = []
    for container in CONTAINERS:
        console.print(f"[bold]{container}[/bold]")
        with step("packed") as packed:
            pack(photos, root / container, container)
        with step("verified"):
            report = bushel.verify(root / container)
            if not report.ok:
                raise MismatchError(f"{container}: {report.problems[0]}")
        dataset = bushel.open(root / container)
        with step("keys, labels and bytes compared"):
            check_content(dataset, photos)
        with step(f"{READS} photos read at random") as read:
            read_at_random(dataset)
        with step(f"{EPOCHS} shuffled epochs iterated") as iterated:
            epochs = iterate(dataset)
        check_epochs(epochs, photos)
        first_epochs = first_epochs or epochs
        if epochs != first_epochs:
            raise MismatchError(f"{container}: its epochs differ from {CONTAINERS[0]}")
        count = len(photos)
        results[container] = Result(dataset.info, count / packed[0], READS / read[0], EPOCHS * count / iterated[0])
    return results


def compare(photos: list[Photo], root: Path) -> None:
    """Check that a key gives the same bytes and pixels in all containers."""
    key = photos[len(photos) // 2].key
    datasets = [bushel.open(root / container) for container in CONTAINERS]
    images = [dataset.read([dataset.position(key)], ["image"], decode=False)[0]["image"] for dataset in datasets]
    if len(set(images)) != 1:
        raise MismatchError(f"the containers do not agree on {key}")
    height, width = np.asarray(Image.open(io.BytesIO(images[0]))).shape[:2]
    if any(dataset[key]["image"].shape[:2] != (height, width) for dataset in datasets):
        raise MismatchError(f"{key} does not decode to {height} × {width} pixels")
    console.print(f"{key} is the same {len(images[0]):,} bytes, {width} × {height} pixels, in all five", end="\n\n")


def print_table(results: dict[str, Result]) -> None:
    """Print the measurements."""
    table = Table("container")
    for heading in ("files", "bytes", "pack samples/s", "random reads/s", "epoch img/s"):
        table.add_column(heading, justify="right")
    for container, result in results.items():
        info = result.info
        numbers = (info.files, info.bytes, round(result.packed), round(result.read), round(result.iterated))
        table.add_row(container, *(f"{number:,}" for number in numbers))
    console.print(table)
    console.print(
        f"Reads are of stored bytes, {READ_BATCH} in a call, from memory; epochs decode, scale to {SIDE} × {SIDE} and "
        f"batch by {BATCH}."
    )


def main() -> int:
    """Run the demo with the options of the command line."""
    parser = argparse.ArgumentParser(description="Pack photos into all five containers, and use them.")
    parser.add_argument("--photos", type=Path, metavar="FOLDER", help="pack the JPEG files of this folder")
    parser.add_argument("--keep", type=Path, metavar="OUT", help="leave the five datasets in this folder")
    parser.add_argument("--quick", action="store_true", help="with 32 photos only")
    options = parser.parse_args()
    if options.keep is not None and any((options.keep / container).exists() for container in CONTAINERS):
        parser.error(f"{options.keep} holds datasets already: name another folder")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="bushel-demo-") as scratch:
        try:
            photos = choose_photos(options.photos, Path(scratch), 32 if options.quick else None)
            root = options.keep or Path(scratch)
            results = run(photos, root)
            compare(photos, root)
        except (bushel.BushelError, MismatchError, OSError) as error:
            console.print(f"[bold red]{type(error).__name__}:[/bold red] ", end="")
            console.print(str(error), markup=False)
            return 1
        except KeyboardInterrupt:
            console.print("stopped")
            return 130
    print_table(results)
    console.print(f"All of it matched, in {time.perf_counter() - start:.1f} s.")
    if options.keep is not None:
        console.print(f"The datasets are in {options.keep}: try `bushel info {options.keep / 'tar'}`.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
