"""Crop images and their masks together: `peer_masks.py READER FOLDER`, in the environment that has READER.

FOLDER has the same samples as JPEGs and PNGs (`NNNN.jpg`, `NNNN.png`) and as a tar (`packed`), and for each round a
file `boxes-ROUND.npy`: int64[samples, 5], left, top, width and height of the crop of each sample, and if it is flipped.
Every reader gives batches of `BATCH` crops of `SIDE` pixels. For each line on standard input, the number of a round, an
epoch is loaded, and one JSON object is printed: samples, wall and CPU seconds of the process and its workers, and the
mean of the masks of the first batch.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH, SIDE, WORKERS = 16, 224, 2

Batches = Iterator[tuple[Any, Any]]
"""Batches of images and masks."""


def by_bushel(folder: Path, number: int) -> Batches:
    """Load with threads of a Loader. Its crops equal the file's, since the file was made in its order."""
    import bushel
    from bushel.transforms import Mask, RandomHorizontalFlip, RandomResizedCrop

    moved: Any = {("image", Mask("mask")): [RandomResizedCrop(SIDE), RandomHorizontalFlip()]}
    loader = bushel.Loader(bushel.open(folder / "packed"), BATCH, seed=number, transforms=moved, threads=WORKERS)
    return ((batch["image"], batch["mask"]) for batch in loader)


def by_torch(folder: Path, load: Callable[[Path, Path, list[int]], tuple[Any, Any]], number: int) -> Batches:
    """Load with a DataLoader whose samples a function makes of two files and a box."""
    import torch

    class Samples(torch.utils.data.Dataset[Any]):
        """The usual map-style dataset."""

        def __init__(self) -> None:
            self.images = sorted(folder.glob("*.jpg"))
            self.boxes = np.load(folder / f"boxes-{number}.npy").tolist()

        def __len__(self) -> int:
            return len(self.images)

        def __getitem__(self, place: int) -> Any:
            path = self.images[place]
            return load(path, path.with_suffix(".png"), self.boxes[place])

    torch.set_num_threads(1)
    yield from torch.utils.data.DataLoader(Samples(), BATCH, num_workers=WORKERS)


def tensors(image: Path, mask: Path, box: list[int]) -> tuple[Any, Any]:
    """Use the decoders and `transforms.v2` of torchvision, with tensors."""
    from torchvision import io, tv_tensors
    from torchvision.transforms.v2 import functional

    left, top, width, height, flip = box
    pixels = tv_tensors.Image(io.decode_image(str(image), io.ImageReadMode.RGB))
    labels = tv_tensors.Mask(io.decode_image(str(mask), io.ImageReadMode.UNCHANGED))
    both = [functional.resized_crop(one, top, left, height, width, [SIDE, SIDE]) for one in (pixels, labels)]
    return tuple(functional.horizontal_flip(one) if flip else one for one in both)  # type: ignore[return-value]


def pillow(image: Path, mask: Path, box: list[int]) -> tuple[Any, Any]:
    """Use Pillow for the image, as torchvision's datasets do, and `transforms.v2`."""
    from PIL import Image
    from torchvision import tv_tensors
    from torchvision.transforms.v2 import functional

    left, top, width, height, flip = box
    pixels = Image.open(image).convert("RGB")
    labels = tv_tensors.Mask(functional.pil_to_tensor(Image.open(mask)))
    both = [functional.resized_crop(one, top, left, height, width, [SIDE, SIDE]) for one in (pixels, labels)]
    both = [functional.horizontal_flip(one) if flip else one for one in both]
    return functional.pil_to_tensor(both[0]), both[1]


_COMPOSED: list[Any] = []


def albumentations(image: Path, mask: Path, box: list[int]) -> tuple[Any, Any]:
    """Use OpenCV and Albumentations, which draws crops of its own with the same distribution.

    Its resizing is plain bilinear, without a filter against aliasing.
    """
    import cv2

    if not _COMPOSED:
        import albumentations as library

        cv2.setNumThreads(1)
        _COMPOSED.append(library.Compose([library.RandomResizedCrop(size=(SIDE, SIDE)), library.HorizontalFlip(p=0.5)]))
    pixels = cv2.cvtColor(cv2.imread(str(image)), cv2.COLOR_BGR2RGB)
    found = _COMPOSED[0](image=pixels, mask=cv2.imread(str(mask), cv2.IMREAD_UNCHANGED))
    return np.ascontiguousarray(found["image"]), np.ascontiguousarray(found["mask"])  # a flip is a view


READERS: dict[str, Callable[[Path, int], Batches]] = {
    "bushel": by_bushel,
    "tensors": lambda folder, number: by_torch(folder, tensors, number),
    "pillow": lambda folder, number: by_torch(folder, pillow, number),
    "albumentations": lambda folder, number: by_torch(folder, albumentations, number),
}


def cpu() -> float:
    """Return the CPU seconds of this process and of those that it started and that have ended."""
    both = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in both)


def main() -> None:
    """Serve rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    read = READERS[options.reader]
    if options.reader != "bushel":  # what a DataLoader's workers need is imported before they are forked
        for path in sorted(options.folder.glob("*.jpg"))[:1]:
            own = {"tensors": tensors, "pillow": pillow, "albumentations": albumentations}[options.reader]
            own(path, path.with_suffix(".png"), [0, 0, 64, 64, 0])
    list(read(options.folder, 0))
    print("ready", flush=True)
    for line in sys.stdin:
        samples, means = 0, list[float]()
        wall, before = time.perf_counter(), cpu()
        for images, masks in read(options.folder, int(line)):
            samples += len(images)
            if not means:
                means.append(float(np.asarray(masks, np.float64).mean()))
        done = {"wall": time.perf_counter() - wall, "cpu": cpu() - before}
        print(json.dumps({**done, "items": samples, "mask": means[0]}), flush=True)


if __name__ == "__main__":
    main()
