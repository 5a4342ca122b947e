"""Write small records: ``append_records.py PACKAGE PATH COUNT LENGTH``.

The package is `webdataset`, `mxnet` or `granular` (GulpIO2 appends pixels only), in that package's environment, or
`append:CONTAINER` or `extend:CONTAINER`, which are Bushel's. Records are made before the clock starts, and closing the
file is part of the job. Prints one JSON object: wall and CPU seconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

CONTAINERS = ("bag", "tar", "ffrecord", "recordio")


def webdataset(path: str, records: list[bytes]) -> None:
    """Write members with `TarWriter`."""
    from webdataset import TarWriter

    with TarWriter(path, encoder=False) as writer:
        for number, record in enumerate(records):
            writer.write({"__key__": f"{number:09d}", "data.bin": record})


def mxnet(path: str, records: list[bytes]) -> None:
    """Write records and their index with `MXIndexedRecordIO`."""
    from mxnet.recordio import MXIndexedRecordIO

    writer = MXIndexedRecordIO(path + ".idx", path, "w")
    for number, record in enumerate(records):
        writer.write_idx(number, record)
    writer.close()


def granular(path: str, records: list[bytes]) -> None:
    """Write datapoints of one field with `DatasetWriter`."""
    from granular import DatasetWriter, encoders

    with DatasetWriter(path, {"data": "bytes"}, encoders) as writer:
        for record in records:
            writer.append({"data": record}, flush=False)


def bushel_append(container: str, path: str, records: list[bytes]) -> None:
    """Write samples one by one with `bushel.Writer`."""
    import bushel

    with bushel.Writer(path, {"data": "bytes"}, container=container, sync=False) as writer:
        for record in records:
            writer.append({"data": record})


def bushel_extend(container: str, path: str, records: list[bytes]) -> None:
    """Write samples as one column with `bushel.Writer.extend`."""
    import bushel

    with bushel.Writer(path, {"data": "bytes"}, container=container, sync=False) as writer:
        writer.extend({"data": np.frombuffer(b"".join(records), np.uint8).reshape(len(records), -1)})


PACKAGES: dict[str, Callable[[str, list[bytes]], None]] = {
    "webdataset": webdataset,
    "mxnet": mxnet,
    "granular": granular,
    **{f"append:{container}": partial(bushel_append, container) for container in CONTAINERS},
    **{f"extend:{container}": partial(bushel_extend, container) for container in CONTAINERS},
}


def main() -> None:
    """Append with the options of the command line."""
    package, path, count, length = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    distinct = np.random.default_rng(0).integers(0, 256, (256, length), dtype=np.uint8)
    records = [distinct[number % 256].tobytes() for number in range(256)] * (count // 256)
    PACKAGES[package](path + ".first", records[:2])  # modules are imported on first use
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    wall, cpu = time.perf_counter(), time.process_time()
    PACKAGES[package](path, records)
    done = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    print(json.dumps({"package": package, "records": len(records), **done}))


if __name__ == "__main__":
    main()
