"""Files of Granular 0.20, written and read by any package with its names: ``granular_datasets.py PACKAGE``.

Works in a temporary folder and prints what comes out, files by their digests, so that two packages can be compared.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

granular: Any = importlib.import_module(sys.argv[1])

SPEC = {
    "foo": "int",
    "bar": "utf8[]",
    "baz": "msgpack",
    "abc": "jpg",
    "mask": "png",
    "xyz": "array",
    "nest": "tree",
    "big": "i64",
    "un": "u64",
    "raw": "bytes",
    "times": "int[]",
}


def datapoint(number: int) -> dict[str, Any]:
    """Return values of every type."""
    rng = np.random.default_rng(number)
    return {
        "foo": number * 5,
        "bar": (f"wört {i}" for i in range(number % 4)),
        "baz": {"a": [number, None, "x"], "b": 1.5},
        "abc": rng.integers(0, 256, (20, 30, 3), dtype=np.uint8),
        "mask": rng.integers(0, 256, (7, 5), dtype=np.uint8),
        "xyz": rng.standard_normal((2, number)).astype(np.float32),
        "nest": {"k": [np.arange(number), {"z": "text"}]},
        "big": -(7**number),
        "un": 3**number,
        "raw": bytes([number, 1, 2]),
        "times": list(range(number % 3)),
    }


def plain(value: Any) -> Any:
    """Return a value as text that is equal for equal values."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()[:12]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def show_files(folder: Path) -> None:
    """Print the files of a folder."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        print("   ", path.relative_to(folder).as_posix(), len(content), hashlib.sha256(content).hexdigest())


def refused(what: Any) -> str:
    """Return whether a call fails with an error of Granular."""
    try:
        what()
    except (AssertionError, AttributeError, ValueError, KeyError, TypeError):
        return "refused"
    return "taken"


def bags(folder: Path) -> None:
    """Test single bag files."""
    for version in (1, 2):
        path = folder / f"version{version}.bag"
        with granular.BagWriter(path, version=version) as writer:
            print([writer.append(record) for record in (b"hello", b"abc", b"x" * 300)], len(writer), writer.size)
        print(path.read_bytes().hex()[:80])
        for options in ({}, {"cache_index": False}, {"cache_data": True}):
            with granular.BagReader(path, **options) as reader:
                print(len(reader), reader.size, reader[0], reader[1], reader[0:2], reader[range(1, 9)][1][:4])
                print(refused(lambda reader=reader: reader[-1]), refused(lambda reader=reader: reader[3]))
                print(refused(lambda reader=reader: reader["0"]), reader.copy()[1])
        print(granular.BagReader(path.read_bytes())[1], refused(lambda path=path: granular.BagWriter(path)))
    with granular.BagWriter(str(folder / "none.bag")):
        pass
    print((folder / "none.bag").read_bytes(), len(granular.BagReader(str(folder / "none.bag"))))


def dataset(folder: Path) -> None:
    """Test one dataset."""
    path = folder / "dataset"
    with granular.DatasetWriter(path, SPEC, granular.encoders) as writer:
        print(writer.spec)
        for number in range(12):
            index = writer.append(datapoint(number))
            print(index, len(writer), writer.size)
        print(refused(lambda: writer.append({"foo": 1})))
    show_files(path)
    print(refused(lambda: granular.DatasetWriter(path, SPEC, granular.encoders)))
    keyed = ("refs", "foo", "bar")
    for options in ({}, {"cache_index": False}, {"cache_keys": keyed}, {"parallel": True}):
        reader = granular.DatasetReader(str(path), granular.decoders, **options)
        print(reader.spec, reader.size, len(reader))
        for number in range(len(reader)):
            print(plain(reader[number]), reader.available(number))
        reads(reader)
        reader.close()
    with granular.DatasetReader(path, None) as reader:
        print(reader[3, {"foo": True, "bar": True, "xyz": True}])


def reads(reader: Any) -> None:
    """Test masks and ranges of a dataset of SPEC."""
    print(reader[7, {"foo": True, "abc": False, "bar": range(1, 2)}])
    print(reader[7, {"bar": slice(0, 2), "times": range(0, 9)}], reader[4, {"bar": True, "times": range(3)}])
    print(reader[2:5, {"foo": True, "big": True}], reader[range(1, 3), {"un": True, "foo": False}], reader[0, {}])
    for wrong in (-1, len(reader), "0", (0, {"no": True}), (0, {"foo": range(1)}), (0, {"bar": range(-1, 2)})):
        print(wrong, refused(lambda wrong=wrong: reader[wrong]))
    print(refused(lambda: reader[0:2, {"bar": True}]), refused(lambda: reader[0:99, {"foo": True}]))


def sharded(folder: Path) -> None:
    """Test shards of one writer and of two."""
    spec = {"foo": "int", "bar": "utf8[]"}
    point = [{"foo": number, "bar": ["a"] * (number % 3)} for number in range(11)]
    one = folder / "one"
    with granular.ShardedDatasetWriter(one, spec, granular.encoders, shardlen=4) as writer:
        for each in point:
            print(writer.append(each), len(writer), writer.size, writer.shards)
    show_files(one)
    two = folder / "two"
    for worker in range(2):
        with granular.ShardedDatasetWriter(two, spec, granular.encoders, 2, worker, 2) as writer:
            for each in point[worker::2]:
                writer.append(each)
    show_files(two)
    for path in (one, two):
        for options in ({}, {"parallel": True}, {"shardstart": 1, "shardstep": 2}, {"cache_keys": ("foo",)}):
            with granular.ShardedDatasetReader(path, granular.decoders, **options) as reader:
                print(reader.spec, reader.size, reader.shards, [reader[i]["foo"] for i in range(len(reader))])
                print(reader[1:4, {"foo": True}], reader[2, {"bar": range(1)}], reader.available(2))
                print(refused(lambda reader=reader: reader[len(reader)]), refused(lambda reader=reader: reader[-1]))
    with granular.DatasetReader(one / "000001", granular.decoders) as reader:
        print([reader[i] for i in range(len(reader))])


def main() -> None:
    """Run all tests."""
    with tempfile.TemporaryDirectory() as folder:
        bags(Path(folder))
        dataset(Path(folder))
        sharded(Path(folder))


if __name__ == "__main__":
    main()
