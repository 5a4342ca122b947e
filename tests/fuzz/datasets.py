"""The small undamaged datasets that are damaged: written here, and by the original packages."""

from __future__ import annotations

from pathlib import Path

from tests.conformance.samples import make_samples
from tests.conformance.target import Target, numbered
from tests.formats import FORMATS
from tests.paths import GOLDEN

ORIGINALS = {
    "bag": [
        "bags-0.5.1/plain/data",
        "granular-A-0.16.4/sharded/data",
        "granular-B-0.20.3/plain/data",
        "granular-C-0.24.2/plain/data",
    ],
    "tar": [
        "webdataset-1.0.2/shards/data",
        "webdataset-1.0.2/encoders/data",
        "webdataset-1.0.2/float-mtime/data",
        "webdataset-1.0.2/pax-long/data",
        "gnu-tar-1.34/gnu-longname/data",
        "gnu-tar-1.34/ustar-prefix/data",
        "gnu-tar-1.34/posix/data",
    ],
    "ffrecord": [
        "ffrecord-1.4.0/plain/data",
        "ffrecord-1.4.0/golden-56-bytes/data",
        "ffrecord-1.4.0/packed-folder/data",
        "ffrecord-1.4.0/several-files/data",
    ],
    "gulp": ["gulpio2-0.0.4/videos/data", "gulpio2-0.0.4/appended/data"],
    "recordio": [
        "recordio-mxnet-1.9.1/magic/data",
        "recordio-mxnet-1.9.1/no-index/data",
        "recordio-mxnet-1.9.1/images/data",
        "recordio-mxnet-1.9.1/string-keys/data",
    ],
}
FOREIGN = {
    "parquet": ["parquet-none-v1-plain", "parquet-snappy-v1-dictionary", "parquet-zstd-v2-dictionary", "hf-parquet"],
    "lerobot": ["lerobot"],
    "mds": ["mds-plain", "mds-zstd", "mds-hashes"],
    "litdata": ["litdata-plain", "litdata-zstd"],
    "arrayrecord": ["arrayrecord-plain", "arrayrecord-default", "arrayrecord-groups", "arrayrecord-brotli"],
    "zip": ["zip-stored", "zip-deflated"],
    "folder": ["folder/photos"],
    "npy": ["npy"],
    "megatron": ["megatron-uint16", "megatron-int32"],
    "tfrecord": ["tfrecord-plain", "tfrecord-gzip", "tfrecord-records"],
    "jsonl": ["jsonl", "jsonl-gz", "jsonl-no-last-newline"],
    "csv": ["csv"],
    "arrow": ["hf-arrow"],
}
"""Datasets in `tests/golden/foreign` of the containers that are only read, by container. A new one gets a line here."""
STREAMS = ["gnu-tar-1.34/gz/data", "webdataset-1.0.2/compressed/data", "gnu-tar-1.34/sort-name/data"]


def written(folder: Path, container: str) -> list[Path]:
    """Write small datasets of a container, with keys and without."""
    paths = []
    for name, generation in FORMATS:
        target = Target(name, folder, generation)
        for keyed in (True, False) if name == container else ():
            spec = target.fit(limit=4 if keyed else 1)
            samples = make_samples(spec, 0, 6)
            place = f"{name}{generation or ''}{'-keys' if keyed else ''}"
            paths.append(target.write(place, spec, samples, numbered(6) if keyed else None, shard_samples=3))
    return paths


def originals(names: list[str]) -> list[Path]:
    return [GOLDEN / name for name in names]
