"""Write records of random bytes: ``append_records.py PACKAGE FORM PATH COUNT LENGTH``.

PACKAGE is `webdataset`, `mxnet`, `granular`, `ffrecord`, `gulpio2` or `bagz`, in that package's environment, or
`append:CONTAINER` or `extend:CONTAINER`, which are Bushel's. FORM is `records`, of one field, or `photos`, with a label
and a key where the package has them. GulpIO2 appends pixels only, so its JPEG encoder is replaced here by one that
returns its argument. Records are made before the clock starts, and closing the file is part of the job. Prints one JSON
object: wall and CPU seconds.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

CONTAINERS = ("bag", "tar", "ffrecord", "gulp", "recordio")


def webdataset(path: str, records: list[bytes], photos: bool) -> None:
    """Write members with `TarWriter`."""
    from webdataset import TarWriter

    with TarWriter(path, encoder=False) as writer:
        for number, record in enumerate(records):
            if photos:
                writer.write({"__key__": f"k{number:08d}", "jpg": record, "cls": b"%d" % (number % 100)})
            else:
                writer.write({"__key__": f"{number:09d}", "data.bin": record})


def mxnet(path: str, records: list[bytes], photos: bool) -> None:
    """Write records and their index with `MXIndexedRecordIO`."""
    from mxnet.recordio import IRHeader, MXIndexedRecordIO, pack

    writer = MXIndexedRecordIO(path + ".idx", path, "w")
    for number, record in enumerate(records):
        writer.write_idx(number, pack(IRHeader(0, number % 100, number, 0), record) if photos else record)
    writer.close()


def granular(path: str, records: list[bytes], photos: bool) -> None:
    """Write datapoints with `DatasetWriter`."""
    from granular import DatasetWriter, encoders

    spec = {"image": "bytes", "label": "int", "key": "utf8"} if photos else {"data": "bytes"}
    with DatasetWriter(path, spec, encoders) as writer:
        for number, record in enumerate(records):
            point = {"image": record, "label": number % 100, "key": f"k{number:08d}"} if photos else {"data": record}
            writer.append(point, flush=False)


def ffrecord(path: str, records: list[bytes], photos: bool) -> None:
    """Write records with `FileWriter`, which has neither keys nor fields."""
    from ffrecord import FileWriter

    with FileWriter(path + ".ffr", len(records)) as writer:
        for record in records:
            writer.write_one(record)


def gulpio2(path: str, records: list[bytes], photos: bool) -> None:
    """Write items of one frame with `GulpChunk`, without encoding them."""
    from gulpio2 import fileio

    fileio.img_to_jpeg_bytes = lambda image: image
    chunk = fileio.GulpChunk(path + ".gulp", path + ".gmeta")
    with chunk.open("wb"):
        for number, record in enumerate(records):
            chunk.append(f"k{number:08d}", {"label": number % 100} if photos else {}, [record])


def bagz(path: str, records: list[bytes], photos: bool) -> None:
    """Write records with Bagz, without compression."""
    from bagz import CompressionNone, Writer

    with Writer(path + ".bag", Writer.Options(compression=CompressionNone())) as writer:
        for record in records:
            writer.write(record)


def spec_of(container: str, photos: bool) -> dict[str, str]:
    """Return the fields that Bushel writes: the same as the original."""
    if container == "gulp":
        return {"frames": "jpg", "label": "int"} if photos else {"frames": "jpg"}
    return {"image": "jpg", "label": "int"} if photos and container != "ffrecord" else {"data": "bytes"}


def bushel_append(container: str, path: str, records: list[bytes], photos: bool) -> None:
    """Write samples one by one with `bushel.Writer`."""
    import bushel

    spec = spec_of(container, photos)
    field, keyed = next(iter(spec)), container == "gulp" or (photos and container in ("bag", "tar"))
    with bushel.Writer(path, spec, container=container, sync=False, expected=len(records)) as writer:
        for number, record in enumerate(records):
            sample = {field: record, "label": number % 100} if "label" in spec else {field: record}
            writer.append(sample, key=f"k{number:08d}" if keyed else None)


def bushel_extend(container: str, path: str, records: list[bytes], photos: bool) -> None:
    """Write samples as one column with `bushel.Writer.extend`."""
    import bushel

    with bushel.Writer(path, {"data": "bytes"}, container=container, sync=False, expected=len(records)) as writer:
        writer.extend({"data": records})


HEADER = bytes.fromhex("ffd8 ffc00011 08 0177 01f4 03 012200 021101 031101 ffda000c 03 010002110311 003f00")
"""The beginning of a JPEG of 500 x 375 pixels. A writer may look at it, as Bushel does for its columns."""

PACKAGES: dict[str, Callable[[str, list[bytes], bool], None]] = {
    "webdataset": webdataset,
    "mxnet": mxnet,
    "granular": granular,
    "ffrecord": ffrecord,
    "gulpio2": gulpio2,
    "bagz": bagz,
    **{f"append:{container}": partial(bushel_append, container) for container in CONTAINERS},
    **{f"extend:{container}": partial(bushel_extend, container) for container in CONTAINERS if container != "gulp"},
}


def main() -> None:
    """Append with the options of the command line."""
    package, form, path, count, length = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
    distinct = np.random.default_rng(0).integers(0, 256, (64, length), dtype=np.uint8)
    if form == "photos":
        distinct[:, : len(HEADER)] = np.frombuffer(HEADER, np.uint8)
    records = ([each.tobytes() for each in distinct] * (count // 64 + 1))[:count]
    folder = Path(path)
    folder.mkdir(parents=True)
    PACKAGES[package](str(folder / "first"), records[:2], form == "photos")  # modules are imported on first use
    wall, cpu = time.perf_counter(), time.process_time()
    PACKAGES[package](str(folder / "all"), records, form == "photos")
    done = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    shutil.rmtree(folder)
    print(json.dumps({"package": package, "records": len(records), **done}))


if __name__ == "__main__":
    main()
