"""Feed a Grain pipeline from a dataset of Bushel: decoded and cropped batches by position, read by Grain's processes.

python examples/grain_source.py run
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grain.python as grain
from absl import app
from shapes import open_shapes

from bushel.audit import examine, record
from bushel.loader import MapView
from bushel.transforms import RandomResizedCrop

BATCH = 32


def batches(source: MapView, epoch: int) -> Iterator[dict[str, Any]]:
    """Yield the batches of an epoch."""
    source.epoch = epoch  # of the random crops
    positions = grain.MapDataset.range(len(source)).seed(epoch).shuffle().batch(BATCH)
    read = positions.map(source.batch).to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=2))
    yield from read.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))


def main(arguments: Sequence[str]) -> None:
    """Read two epochs, and examine which samples they had."""
    folder = Path(arguments[1])
    dataset = open_shapes(folder / "shapes")
    source = MapView(dataset, fields=["image", "label"], transforms={"image": [RandomResizedCrop(48)]}, seed=0)
    for epoch in range(2):
        for batch in record(batches(source, epoch), folder / "audit", epoch=epoch):
            print(epoch, batch["image"].shape, batch["label"].mean())
    print(examine(folder / "audit", samples=len(dataset)))


if __name__ == "__main__":
    app.run(main)  # Grain's processes read the flags of absl
