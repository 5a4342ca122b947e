"""Write a dataset of 8 KB samples with the package of a format, or read shuffled epochs of it, in batches of 64.

`megatron` and `npy` have rows of 4,096 tokens, uint16, and are read with `numpy.memmap` instead of a loader of their own:
the rows of each batch are indexed.

    python peer_foreign.py write mds FOLDER SAMPLES
    python peer_foreign.py read mds FOLDER            with the format's own loader
    python peer_foreign.py bushel mds FOLDER          with bushel.Loader

Reading prints the samples, seconds and CPU seconds of the second epoch as JSON. A sample has `data` (8,000 bytes),
`label` (an integer) and `tokens` (int32[256]); an ArrayRecord has `data` only.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 64
SIZE, TOKENS = 8_000, 256
ROW = 4_096  # tokens of a row


def samples(count: int) -> Iterator[dict[str, Any]]:
    """Yield the samples."""
    rng = np.random.default_rng(0)
    for number in range(count):
        yield {"data": rng.bytes(SIZE), "label": number, "tokens": rng.integers(0, 60_000, TOKENS).astype(np.int32)}


def write_rows(kind: str, folder: Path, count: int) -> None:
    """Write rows of tokens, as `numpy.save` and `IndexedDatasetBuilder` of megatron-core do."""
    rows = np.random.default_rng(0).integers(0, 60_000, (count, ROW)).astype(np.uint16)
    if kind == "npy":
        np.save(folder / "x.npy", rows)
        return
    rows.tofile(folder / "x.bin")
    sizes, starts = np.full(count, ROW, np.int32), np.arange(count, dtype=np.int64) * rows[0].nbytes
    header = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, count, count + 1)
    documents = np.arange(count + 1, dtype=np.int64)
    (folder / "x.idx").write_bytes(header + sizes.tobytes() + starts.tobytes() + documents.tobytes())


def write(kind: str, folder: Path, count: int) -> None:
    """Write a dataset."""
    folder.mkdir(parents=True)
    if kind in ("megatron", "npy"):
        write_rows(kind, folder, count)
    elif kind == "mds":
        MDSWriter: Any = streaming().MDSWriter
        columns = {"data": "bytes", "label": "int", "tokens": f"ndarray:int32:{TOKENS}"}
        with MDSWriter(out=str(folder), columns=columns) as writer:
            for sample in samples(count):
                writer.write(sample)
    elif kind == "litdata":
        from litdata.streaming import Cache

        cache = Cache(str(folder), chunk_bytes=1 << 26)
        for number, sample in enumerate(samples(count)):
            cache[number] = sample
        cache.done()
        cache.merge()
    elif kind == "tfrecord":
        import tensorflow as tf

        train = tf.train
        with tf.io.TFRecordWriter(str(folder / "x.tfrecord")) as writer:
            for sample in samples(count):
                feature = {
                    "data": train.Feature(bytes_list=train.BytesList(value=[sample["data"]])),
                    "label": train.Feature(int64_list=train.Int64List(value=[sample["label"]])),
                    "tokens": train.Feature(int64_list=train.Int64List(value=sample["tokens"])),
                }
                writer.write(train.Example(features=train.Features(feature=feature)).SerializeToString())
    else:
        from array_record.python.array_record_module import ArrayRecordWriter

        options = "group_size:1,uncompressed" if kind == "arrayrecord-plain" else "group_size:1"
        writer = ArrayRecordWriter(str(folder / "x.array_record"), options)
        for sample in samples(count):
            writer.write(sample["data"])
        writer.close()


def streaming() -> Any:
    """Return mosaicml-streaming, whose import of torchvision is not needed here and fails with some builds of torch."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "interop"))
    from write_foreign import import_streaming

    return import_streaming()


Epoch = Callable[[], Iterator[int]]


def _mds(folder: Path) -> Epoch:
    from torch.utils.data import DataLoader

    dataset = streaming().StreamingDataset(local=str(folder), shuffle=True, batch_size=BATCH)
    loader: Any = DataLoader(dataset, batch_size=BATCH, collate_fn=_columns)
    return lambda: (len(batch["label"]) for batch in loader)


def _litdata(folder: Path) -> Epoch:
    from litdata import StreamingDataLoader, StreamingDataset

    dataset = StreamingDataset(str(folder), shuffle=True)
    loader: Any = StreamingDataLoader(dataset, batch_size=BATCH, num_workers=0, collate_fn=_columns)
    return lambda: (len(batch["label"]) for batch in loader)


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "data": [bytes(row["data"]) for row in rows],  # LitData gives views of its map, whose pages nobody has read
        "label": np.array([row["label"] for row in rows]),
        "tokens": np.stack([np.asarray(row["tokens"]) for row in rows]),
    }


def _tfrecord(folder: Path) -> Epoch:
    import tensorflow as tf

    features = {
        "data": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "tokens": tf.io.FixedLenFeature([TOKENS], tf.int64),
    }
    whole = tf.data.TFRecordDataset(str(folder / "x.tfrecord")).shuffle(10_000).batch(BATCH)
    dataset = whole.map(lambda records: tf.io.parse_example(records, features), num_parallel_calls=2).prefetch(4)
    return lambda: (len(batch["label"]) for batch in dataset.as_numpy_iterator())


def _arrayrecord(folder: Path) -> Epoch:
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    source = ArrayRecordDataSource(str(folder / "x.array_record"))

    def epoch() -> Iterator[int]:
        order = np.random.default_rng(0).permutation(len(source)).tolist()
        for first in range(0, len(order), BATCH):
            yield len(source.__getitems__(order[first : first + BATCH]))

    return epoch


def _rows(folder: Path) -> Epoch:
    [path] = [path for path in folder.iterdir() if path.suffix in (".bin", ".npy")]
    rows = np.load(path, mmap_mode="r") if path.suffix == ".npy" else np.memmap(path, np.uint16, "r").reshape(-1, ROW)

    def epoch() -> Iterator[int]:
        order = np.random.default_rng(0).permutation(len(rows))
        for first in range(0, len(order), BATCH):
            batch = rows[order[first : first + BATCH]]  # kept until the next one is made, as by a loop over a loader
            yield len(batch)

    return epoch


def _bushel(kind: str, folder: Path) -> Epoch:
    import bushel

    spec = {"data": "bytes", "tokens": "array(int64,-1)"} if kind == "tfrecord" else {"data": "bytes"}
    dataset = bushel.open(folder, spec=None if kind in ("megatron", "npy") else spec)
    loader = bushel.Loader(dataset, BATCH, shuffle=True, seed=0)
    first = next(iter(dataset.spec))
    return lambda: (len(batch[first]) for batch in loader)


READ: dict[str, Callable[[Path], Epoch]] = {
    "mds": _mds,
    "litdata": _litdata,
    "tfrecord": _tfrecord,
    "arrayrecord": _arrayrecord,
    "arrayrecord-plain": _arrayrecord,
    "megatron": _rows,
    "npy": _rows,
}


def main() -> None:
    """Write a dataset, or read two epochs of it and print the second."""
    work, kind, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if work == "write":
        write(kind, folder, int(sys.argv[4]))
        return
    epoch = READ[kind](folder) if work == "read" else _bushel(kind, folder)
    for number in range(2):
        wall, cpu = time.perf_counter(), os.times()
        items = sum(epoch())
        if number:
            now = os.times()
            spent = sum(now[:4]) - sum(cpu[:4])
            print(json.dumps({"items": items, "wall": time.perf_counter() - wall, "cpu": spent}))


if __name__ == "__main__":
    main()
