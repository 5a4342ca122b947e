"""Write a dataset of 8 KB samples with the package of a format, or read shuffled epochs of it, in batches of 64.

`megatron` and `npy` have rows of 4,096 tokens, uint16, and are read with `numpy.memmap`, which indexes the rows of each
batch. `folder` has files of 3,000 bytes, which are opened and read one by one instead of by a loader of its own. `tar`,
`zip`, `parquet`, `arrow` and `tfrecord-short` are only written, for `indexing.py`.

    python peer_foreign.py write mds FOLDER SAMPLES
    python peer_foreign.py read mds FOLDER            with the format's own loader
    python peer_foreign.py bushel mds FOLDER          with bushel.Loader
    python peer_foreign.py bushel-0 npy FOLDER        with bushel.Loader in the consumer's thread, threads=0
    python peer_foreign.py limit folder FOLDER        with the system calls, or the decompressor, alone

Reading prints the samples, seconds and CPU seconds of the second epoch as JSON. A sample has `data` (8,000 bytes),
`label` (an integer) and `tokens` (int32[256]); an ArrayRecord has `data` only.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import resource
import struct
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 64
SIZE, TOKENS = 8_000, 256
ROW, FILE = 4_096, 3_000  # tokens of a row, bytes of a file


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


def write_files(folder: Path, count: int) -> None:
    """Write a tree of classes. The files are read as stored bytes, so they need not be images."""
    rng = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class{number % 20:02}" / f"{number:06}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(rng.bytes(FILE))


def write_archive(kind: str, folder: Path, count: int) -> None:
    """Write a tar, as webdataset does, or a zip that stores its members: bytes and a class."""
    members = (
        (f"{number:08}.{name}", value)
        for number, sample in enumerate(samples(count))
        for name, value in (("bin", sample["data"]), ("cls", str(sample["label"]).encode()))
    )
    if kind == "zip":
        with zipfile.ZipFile(folder / "x.zip", "w") as archive:
            for name, value in members:
                archive.writestr(name, value)
        return
    with tarfile.open(folder / "x.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, value in members:
            member = tarfile.TarInfo(name)
            member.size = len(value)
            tar.addfile(member, io.BytesIO(value))


def write_columns(kind: str, folder: Path, count: int) -> None:
    """Write an uncompressed Parquet file, or an Arrow stream as `datasets` does, by 10,000 or 1,000 rows."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema({"data": pa.binary(), "label": pa.int64(), "tokens": pa.list_(pa.int32())})
    rows, own = 10_000 if kind == "parquet" else 1_000, samples(count)
    batches = (
        pa.RecordBatch.from_pylist([{**row, "tokens": row["tokens"].tolist()} for row in taken], schema)
        for taken in iter(lambda: list(itertools.islice(own, rows)), [])
    )
    if kind == "parquet":
        options = {"compression": "none", "use_dictionary": False}
        with parquet.ParquetWriter(folder / "x.parquet", schema, **options) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return
    with pa.OSFile(str(folder / "x.arrow"), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)


def write_short_examples(folder: Path, count: int) -> None:
    """Write a TFRecord file of Examples of some 180 bytes: a text, a class, a number, an id and a name."""
    import tensorflow as tf

    train, rng = tf.train, random.Random(0)
    with tf.io.TFRecordWriter(str(folder / "x.tfrecord")) as writer:
        for number in range(count):
            text = "".join(rng.choices("abcdefgh ", k=rng.randrange(30, 90))).encode()
            feature = {
                "text": train.Feature(bytes_list=train.BytesList(value=[text])),
                "label": train.Feature(int64_list=train.Int64List(value=[number % 10])),
                "score": train.Feature(float_list=train.FloatList(value=[rng.random()])),
                "id": train.Feature(int64_list=train.Int64List(value=[number])),
                "name": train.Feature(bytes_list=train.BytesList(value=[b"name-%08d" % number])),
            }
            writer.write(train.Example(features=train.Features(feature=feature)).SerializeToString())


def write(kind: str, folder: Path, count: int) -> None:
    """Write a dataset."""
    folder.mkdir(parents=True)
    if kind in ("megatron", "npy"):
        write_rows(kind, folder, count)
    elif kind in ("tar", "zip"):
        write_archive(kind, folder, count)
    elif kind in ("parquet", "arrow"):
        write_columns(kind, folder, count)
    elif kind == "tfrecord-short":
        write_short_examples(folder, count)
    elif kind == "folder":
        write_files(folder, count)
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


def _files(folder: Path) -> Epoch:
    paths = sorted(str(path) for path in folder.rglob("*.jpg"))

    def epoch() -> Iterator[int]:
        order = np.random.default_rng(0).permutation(len(paths)).tolist()
        for first in range(0, len(order), BATCH):
            batch = []
            for number in order[first : first + BATCH]:
                with open(paths[number], "rb") as file:
                    batch.append(file.read())
            yield len(batch)

    return epoch


def _system_calls(folder: Path) -> Epoch:
    """Open, look at, read and close each file, in a kernel."""
    from bushel.kernels import read_small_files

    paths = np.array(sorted(str(path) for path in folder.rglob("*.jpg")))
    stats = [os.stat(path) for path in paths]
    size, time_ns = np.array([one.st_size for one in stats]), np.array([one.st_mtime_ns for one in stats])

    def epoch() -> Iterator[int]:
        order = np.random.default_rng(0).permutation(len(paths))
        for first in range(0, len(order), BATCH):
            own = order[first : first + BATCH]
            yield len(read_small_files(paths[own].tolist(), size[own], time_ns[own], np.zeros_like(own), size[own]))

    return epoch


def _decompressor(folder: Path) -> Epoch:
    """Expand the bytes of each sample, which are in memory."""
    from cramjam import zstd

    stored, room = [bytes(zstd.compress(sample["data"])) for sample in samples(1000)], bytearray(SIZE)

    def epoch() -> Iterator[int]:
        for _ in range(20):
            for one in stored:
                zstd.decompress_into(one, room)
            yield len(stored)

    return epoch


LIMITS: dict[str, Callable[[Path], Epoch]] = {"folder": _system_calls, "arrayrecord": _decompressor}


def _bushel(kind: str, folder: Path, threads: int | None = None) -> Epoch:
    import bushel

    if kind == "folder":
        files = bushel.Loader(bushel.open(folder), BATCH, shuffle=True, seed=0, fields=["image"], decode=False)
        return lambda: (len(batch["image"]) for batch in files)

    spec = {"data": "bytes", "tokens": "array(int64,-1)"} if kind == "tfrecord" else {"data": "bytes"}
    rows = kind in ("megatron", "npy")  # whose other reader has no keys
    dataset = bushel.open(folder, spec=None if rows else spec)
    loader = bushel.Loader(dataset, BATCH, shuffle=True, seed=0, keys=not rows, threads=threads)
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
    "folder": _files,
}


def spent() -> float:
    """Return the CPU seconds of this process and its children; `os.times` counts hundredths."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def main() -> None:
    """Write a dataset, or read two epochs of it and print the second."""
    work, kind, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if work == "write":
        write(kind, folder, int(sys.argv[4]))
        return
    if work.startswith("bushel"):
        epoch = _bushel(kind, folder, 0 if work == "bushel-0" else None)
    else:
        epoch = (READ if work == "read" else LIMITS)[kind](folder)
    for number in range(2):
        wall, cpu = time.perf_counter(), spent()
        items = sum(epoch())
        if number:
            print(json.dumps({"items": items, "wall": time.perf_counter() - wall, "cpu": spent() - cpu}))


if __name__ == "__main__":
    main()
