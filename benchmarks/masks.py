"""Benchmark of images and masks that are cropped and mirrored together, against torchvision and Albumentations.

    python benchmarks/masks.py --photos FOLDER --python PYTHON --out masks.json
    python benchmarks/masks.py --photos FOLDER --small

PYTHON is the interpreter of an environment with torch, torchvision and albumentations; without it, these are skipped.
Photos and PNG masks of 21 classes become crops of 224 pixels, in batches of 16, with two threads or workers of a
DataLoader. Readers use the same crops, which the order of Bushel draws; Albumentations draws its own. They take turns.
Files are in memory, and times are CPU times of the process and its workers.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import bushel
from bushel.loader.decode.sample_transforms import generator
from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop
from bushel.transforms.fused import plan_decode
from measure import SCRATCH, Serving, console, in_turns, options_parser, save, show

READER = Path(__file__).resolve().parent / "peers" / "peer_masks.py"
SIDE, CLASSES, ROUNDS = 224, 21, 5

READERS = {
    "bushel": "bushel",
    "torchvision v2, tensors": "tensors",
    "torchvision v2, Pillow": "pillow",
    "Albumentations, OpenCV": "albumentations",
}


def fill(photos: list[Path], rounds: int) -> Path:
    """Return a folder with the samples and the crops of each round, which is made if it is not there."""
    folder = SCRATCH / f"masks-{len(photos)}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        random = np.random.default_rng(0)
        with bushel.Writer(folder / "packed", {"image": "jpg", "mask": "png"}, container="tar") as writer:
            for number, path in enumerate(photos):
                width, height = Image.open(path).size
                small = random.integers(0, CLASSES, (7, 7), np.uint8)
                whole = Image.fromarray(small).resize((width, height), Image.Resampling.NEAREST)
                mask = folder / f"{number:04d}.png"
                whole.save(mask)
                shutil.copy(path, mask.with_suffix(".jpg"))
                writer.append({"image": path.read_bytes(), "mask": mask.read_bytes()}, key=f"{number:04d}")
        (folder / "done").touch()
    plan = plan_decode([RandomResizedCrop(SIDE), RandomHorizontalFlip()])
    for seed in range(rounds):
        boxes = np.zeros((len(photos), 5), np.int64)
        for number in range(len(photos)):
            width, height = Image.open(folder / f"{number:04d}.jpg").size
            drawn = plan.geometry(width, height, generator(seed, 0, number))
            left, top, right, bottom = drawn.box
            boxes[number] = left, top, right - left, bottom - top, drawn.flip_horizontal
        np.save(folder / f"boxes-{seed}.npy", boxes)
    return folder


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Images and masks that are cropped together.", "fewer photos and rounds")
    parser.add_argument("--photos", type=Path, required=True, help="a folder of JPEGs, also in folders")
    parser.add_argument("--python", type=Path, help="an interpreter with torch, torchvision and albumentations")
    options = parser.parse_args()
    photos = sorted(options.photos.rglob("*.jpg"))[: 48 if options.small else None]
    rounds = 2 if options.small else ROUNDS
    folder, skipped = fill(photos, rounds), dict[str, str]()
    with ExitStack() as stack:
        serving: dict[str, Any] = {}
        for name, reader in READERS.items():
            own = Path(sys.executable) if reader == "bushel" else options.python
            if own is None:
                skipped[name] = "no interpreter was given"
                continue
            try:
                serving[name] = stack.enter_context(Serving([str(own), str(READER), reader, str(folder)]))
            except RuntimeError as error:
                skipped[name] = str(error)
        results = {"crops": in_turns(serving, rounds)}
        for name, one in serving.items():  # the same crops of the same masks, except for ties between two pixels
            console.print(f"{name}: the mean of the first masks is {one.answer['mask']:.3f}")
    show(f"{len(photos)} photos and masks", "samples", results["crops"], ["bushel"])
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()
