"""Write a dataset with a package whose datasets Bushel reads in place, read it with that package, and print the values.

    python write_foreign.py mds|mds-zstd|…|litdata|litdata-zstd|tfrecord|tfrecord-gzip|…|arrayrecord|… OUT

Each line is a sample: field to its value. Bytes and arrays are given by their digest.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np

SAMPLES = 60


def values(number: int) -> dict[str, Any]:
    """Return one sample: values of all kinds, of various sizes."""
    rng = np.random.default_rng(number)
    return {
        "blob": rng.bytes(int(rng.integers(0, 5000))),
        "caption": "é" * (number % 5) + f" text {number}",
        "embed": rng.normal(size=8).astype(np.float32),
        "label": int(rng.integers(-(1 << 40), 1 << 40)) if number % 3 else number,
        "score": float(rng.normal()),
        "tokens": rng.integers(0, 60_000, int(rng.integers(1, 400))).astype(np.int32),
    }


def shown(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, list):
        return [shown(each) for each in value]
    if hasattr(value, "numpy"):  # a tensor
        value = value.numpy()
    if hasattr(value, "tobytes") and hasattr(value, "mode"):  # an image of Pillow
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"dtype": value.dtype.name, "shape": list(value.shape), "sha256": digest}
    if isinstance(value, bytes | bytearray | memoryview):
        return {"sha256": hashlib.sha256(value).hexdigest(), "length": len(value)}
    if isinstance(value, Decimal):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


def import_streaming() -> Any:
    """Import mosaicml-streaming, which imports torchvision for datasets that are not used here.

    It gets a stand-in where torchvision was built for another torch.
    """
    try:
        import torchvision  # noqa: F401
    except (ImportError, RuntimeError):
        for name in (
            "torchvision",
            "torchvision.transforms",
            "torchvision.transforms.functional",
            "torchvision.datasets",
        ):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__spec__ = ModuleSpec(name, None)
        sys.modules["torchvision.datasets"].VisionDataset = object  # type: ignore[attr-defined]
        sys.modules["torchvision.transforms.functional"].to_tensor = None  # type: ignore[attr-defined]
    import streaming

    return streaming


def mds(out: Path, compression: str) -> Iterator[dict[str, Any]]:
    """Write all encodings of mosaicml-streaming but pickles."""
    from PIL import Image

    streaming = import_streaming()

    columns = {
        **{"blob": "bytes", "caption": "str", "embed": "ndarray:float32:8", "label": "int", "score": "float64"},
        **{"tokens": "ndarray", "half": "float16", "byte": "uint8", "word": "int16", "big": "str_int"},
        **{"text": "str_float", "exact": "str_decimal", "meta": "json", "matrix": "ndarray:int64"},
        **{"raw": "pil", "photo": "png", "photos": "list[png]", "jpegs": "jpeg_array"},
    }
    names = {} if compression in ("", "plain") else {"compression": compression}
    with streaming.MDSWriter(
        out=str(out), columns=columns, hashes=["sha1", "xxh64"], size_limit=1 << 16, **names
    ) as writer:
        for number in range(SAMPLES):
            image = Image.fromarray(np.arange(12, dtype=np.uint8).reshape(2, 2, 3) * (number % 20))
            stored = io.BytesIO()
            image.save(stored, "JPEG")
            own = {"half": number / 4, "byte": number, "word": -number, "big": 10**number, "text": number / 8}
            own |= {
                "exact": Decimal(number) / 10,
                "meta": {"n": [number, None]},
                "matrix": np.ones((number + 1, 2), int),
            }
            own |= {"raw": image, "photo": image, "photos": [image] * (number % 3), "jpegs": [stored.getvalue()] * 2}
            writer.write(values(number) | own)
    with tempfile.TemporaryDirectory() as copy:  # shards are expanded there, and the compressed ones deleted
        local = shutil.copytree(out, Path(copy) / "mds")
        reader = streaming.StreamingDataset if names else streaming.LocalDataset
        dataset = reader(local=str(local), **({"batch_size": 1} if names else {}))
        for number in range(SAMPLES):
            yield dataset[number]


def litdata(out: Path, compression: str) -> Iterator[dict[str, Any]]:
    """Write dicts with litdata."""
    from litdata.streaming import Cache, StreamingDataset

    level = {"zstd": "batch"}.get(compression, compression)
    options = {} if compression in ("", "plain") else {"compression": "zstd", "compression_level": level}
    cache = Cache(str(out), chunk_bytes=1 << 16, **options)
    for number in range(SAMPLES):
        sample = values(number)
        cache[number] = sample | {"flag": bool(number % 2), "matrix": np.full((2, number + 1), number, np.float64)}
    cache.done()
    cache.merge()
    with tempfile.TemporaryDirectory() as copy:  # chunks are expanded there, and the compressed ones deleted
        dataset = StreamingDataset(str(shutil.copytree(out, Path(copy) / "litdata")))
        for number in range(SAMPLES):
            yield dataset[number]


def tfrecord(out: Path, compression: str) -> Iterator[dict[str, Any]]:
    """Write Examples with tensorflow."""
    import tensorflow as tf

    kind = {"": "", "plain": ""}.get(compression, compression.upper())
    parts = [out / f"train.tfrecord-{part:05}-of-00002" for part in range(2)]
    for part, path in enumerate(parts):
        with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type=kind)) as writer:
            for number in range(part * SAMPLES // 2, (part + 1) * SAMPLES // 2):
                sample = values(number)
                feature = {
                    "blob": tf.train.Feature(bytes_list=tf.train.BytesList(value=[sample["blob"]])),
                    "caption": tf.train.Feature(bytes_list=tf.train.BytesList(value=[sample["caption"].encode()])),
                    "embed": tf.train.Feature(float_list=tf.train.FloatList(value=sample["embed"])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[sample["label"]])),
                    "score": tf.train.Feature(float_list=tf.train.FloatList(value=[sample["score"]])),
                    "tokens": tf.train.Feature(int64_list=tf.train.Int64List(value=sample["tokens"])),
                }
                if number % 4 == 0:
                    feature["parts"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"", b"ccc"]))
                features = tf.train.Features(feature=feature)
                writer.write(tf.train.Example(features=features).SerializeToString())
    for record in tf.data.TFRecordDataset([str(path) for path in parts], compression_type=kind):
        example = tf.train.Example.FromString(record.numpy())
        found: dict[str, Any] = {}
        for name, each in example.features.feature.items():
            own = list(getattr(each, each.WhichOneof("kind")).value)
            dtype = {"embed": np.float32, "tokens": np.int64}.get(name)
            found[name] = np.array(own, dtype) if dtype else own if name == "parts" else own[0]
        yield found


def arrayrecord(out: Path, compression: str) -> Iterator[dict[str, Any]]:
    """Write records with array_record."""
    from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

    options = {"": "group_size:1", "plain": "group_size:3,uncompressed"}.get(compression, f"group_size:7,{compression}")
    path = str(out / "train.array_record")
    writer = ArrayRecordWriter(path, options)
    for number in range(SAMPLES):
        writer.write(values(number)["blob"] * (1 + 20 * (number % 7 == 0)))
    writer.close()
    reader = ArrayRecordReader(path)
    for record in reader.read(list(range(SAMPLES))):
        yield {"data": record}


KINDS: dict[str, Callable[[Path, str], Iterator[dict[str, Any]]]] = {
    "mds": mds,
    "litdata": litdata,
    "tfrecord": tfrecord,
    "arrayrecord": arrayrecord,
}


def main() -> None:
    """Write and print."""
    kind, _, compression = sys.argv[1].partition("-")
    out = Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for sample in KINDS[kind](out, compression):
        print(json.dumps({name: shown(value) for name, value in sample.items()}))


if __name__ == "__main__":
    main()
