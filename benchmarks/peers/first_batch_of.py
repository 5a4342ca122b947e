"""Make one batch of 64 photos of data that this process has not seen: ``first_batch_of.py PEER PATH``; prints seconds.

The clock starts after the imports. All batches are shuffled as the package does it by default for training, and hold
decoded pixels, cut to 64 x 64; a stream of tars has a buffer of 1,000 samples.
"""

from __future__ import annotations

import io
import itertools
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

BATCH, SIDE = 64, 64


def main() -> None:
    """Print the seconds from the path to the batch."""
    peer, path = sys.argv[1:]
    ready = PEERS[peer]()
    start = time.perf_counter()
    batch = ready(path)
    taken = time.perf_counter() - start
    assert np.asarray(batch).shape[0] == BATCH
    print(taken)


def _bushel() -> Callable[[str], Any]:
    import bushel
    from bushel.transforms import CenterCrop

    def ready(path: str) -> Any:
        spec = {"image": "jpg"} if path.endswith(".parquet") else None
        dataset = bushel.open(path, spec=spec)
        field = next(name for name, codec in dataset.spec.items() if str(codec) in {"jpg", "image"})
        loader = bushel.Loader(dataset, BATCH, shuffle=True, fields=[field], transforms={field: CenterCrop(SIDE)})
        return next(iter(loader))[field]

    return ready


def _bushel_stream() -> Callable[[str], Any]:
    import bushel
    from bushel.transforms import CenterCrop

    def ready(path: str) -> Any:
        samples = bushel.open_stream(path, fields=["jpg"])
        loader = bushel.StreamLoader(samples, BATCH, buffer=1000, transforms={"jpg": CenterCrop(SIDE)})
        return next(iter(loader))["jpg"]

    return ready


def _datasets() -> Callable[[str], Any]:
    from datasets import Image, load_dataset

    def ready(path: str) -> Any:
        if path.endswith(".parquet"):
            dataset = load_dataset("parquet", data_files=path, split="train").cast_column("image", Image())
        else:
            dataset = load_dataset("imagefolder", data_dir=path, split="train")
        return _stacked(sample["image"] for sample in dataset.shuffle(0).select(range(BATCH)))

    return ready


def _torchvision() -> Callable[[str], Any]:
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import CenterCrop, Compose, PILToTensor

    def ready(path: str) -> Any:
        dataset = ImageFolder(path, Compose([CenterCrop(SIDE), PILToTensor()]))
        return next(iter(DataLoader(dataset, BATCH, shuffle=True)))[0]

    return ready


def _webdataset() -> Callable[[str], Any]:
    import webdataset

    def ready(path: str) -> Any:
        samples = webdataset.WebDataset(path, shardshuffle=False).shuffle(1000).decode("pil").to_tuple("jpg")
        return _stacked(image for (image,) in samples)

    return ready


def _stacked(images: Iterable[Any]) -> Any:
    """Stack the middle of each of the first images."""
    middles = []
    for image in itertools.islice(images, BATCH):
        if isinstance(image, bytes):
            from PIL import Image

            image = Image.open(io.BytesIO(image))
        left, top = (image.width - SIDE) // 2, (image.height - SIDE) // 2
        middles.append(np.asarray(image.convert("RGB").crop((left, top, left + SIDE, top + SIDE))))
    return np.stack(middles)


PEERS = {
    "bushel": _bushel,
    "bushel stream": _bushel_stream,
    "datasets": _datasets,
    "torchvision": _torchvision,
    "webdataset": _webdataset,
}

if __name__ == "__main__":
    main()
