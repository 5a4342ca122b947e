"""Batches of iterators and datasets: ``mxnet_iterate.py PACKAGE REC IDX LST ROOT``. The same for both packages."""

from __future__ import annotations

import hashlib
import importlib
import random
import sys
from pathlib import Path

import numpy as np


def exact(value) -> str:  # noqa: ANN001
    """Return shape, dtype and digest of an array."""
    array = np.ascontiguousarray(value.asnumpy())
    return f"{array.shape} {array.dtype} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


def epoch(iterator, *, pad: bool = True) -> None:  # noqa: ANN001
    """Print the batches of an epoch."""
    for batch in iterator:
        print("batch", exact(batch.data[0]), batch.label[0].asnumpy().tolist(), batch.pad if pad else "")


def main() -> None:
    """Print a line for each batch and sample."""
    package, rec, idx, lst, root = sys.argv[1:]
    image = importlib.import_module(f"{package}.image")
    gluon = importlib.import_module(f"{package}.gluon")
    mxio = importlib.import_module(f"{package}.io")
    shape = (3, 60, 80)
    for handling in ("pad", "discard", "roll_over"):
        iterator = image.ImageIter(
            4, shape, path_imgrec=rec, path_imgidx=idx, resize=90, inter_method=1, last_batch_handle=handling
        )
        print(handling, [tuple(one) for one in iterator.provide_data], [tuple(one) for one in iterator.provide_label])
        for _ in range(2):
            epoch(iterator, pad=handling != "roll_over")  # the original calls samples that it rolled over padding
            iterator.reset()
    random.seed(3)
    iterator = image.ImageIter(
        3, shape, path_imgrec=rec, path_imgidx=idx, shuffle=True, rand_crop=True, rand_mirror=True, inter_method=1
    )
    epoch(iterator)
    iterator.reset()
    epoch(iterator)
    print("sequential")
    epoch(image.ImageIter(5, shape, path_imgrec=rec, inter_method=1))
    print("list")
    epoch(image.ImageIter(5, shape, path_imglist=lst, path_root=root, inter_method=1))
    print("list and records")
    epoch(image.ImageIter(5, shape, path_imgrec=rec, path_imgidx=idx, path_imglist=lst, inter_method=1))
    name = Path(lst).read_text().splitlines()[0].split("\t")[-1]
    epoch(image.ImageIter(1, shape, imglist=[[7, name], [[8.5], name]], path_root=root, inter_method=1))

    dataset = gluon.data.RecordFileDataset(rec)
    print("RecordFileDataset", len(dataset), [hashlib.sha256(dataset[at]).hexdigest()[:8] for at in (0, 3, -1)])
    for flag in (1, 0):
        images = gluon.data.vision.ImageRecordDataset(rec, flag)
        print("ImageRecordDataset", len(images), [(exact(images[at][0]), float(images[at][1])) for at in (0, 5)])
    images = gluon.data.vision.ImageRecordDataset(rec, transform=lambda data, label: (data.shape, float(label)))
    print("transform", images[2], images.shard(3, 1)[0], len(images.shard(3, 1)), len(images.take(4)))
    print("filter", len(images.filter(lambda sample: sample[1] > 0)), images.transform_first(len)[1])

    small = gluon.data.vision.ImageRecordDataset(rec).transform_first(lambda data: data[:50, :60])
    np.random.seed(4)
    for handling, workers in (("keep", 0), ("discard", 0), ("rollover", 0), ("keep", 2)):
        loader = gluon.data.DataLoader(
            small, 3, shuffle=True, last_batch=handling, num_workers=workers, thread_pool=True
        )
        for _ in range(2):
            print("DataLoader", len(loader), [(exact(data), label.asnumpy().tolist()) for data, label in loader])

    print("ImageRecordIter")
    iterator = mxio.ImageRecordIter(
        path_imgrec=rec, data_shape=(3, 120, 100), batch_size=5, label_width=1, mean_r=120, mean_g=110, mean_b=100
    )
    epoch(iterator)
    iterator = mxio.ImageRecordIter(path_imgrec=rec, data_shape=(3, 120, 100), batch_size=5, mirror=True)
    epoch(iterator)


if __name__ == "__main__":
    main()
