"""Benchmark of the time to a first shuffled batch of data that no package has seen, and of the second process's.

    sudo python benchmarks/first_sight.py --photos FOLDER --python VENV/bin/python [--out results.json]
    python benchmarks/first_sight.py --photos FOLDER --python VENV/bin/python --small

A folder of 1,000,000 small photos in 1,000 classes, a Parquet file and a tar, without an index, of 10 GB of photos each
(--small: 2,000 photos, 20 MB), one after the other: each is deleted before the next. Every batch is made by a process
of its own. Cold: the kernel's caches are dropped (as root; else the run says that they were not), and all that packages
keep is deleted: Bushel's index, the cache of `datasets`. Warm: the same once more, with both. `--python` has datasets,
torchvision and webdataset.
"""

from __future__ import annotations

import io
import os
import resource
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from measure import SCRATCH, console, options_parser, save
from served import PEERS

FOLDER = SCRATCH / "first-sight"
CACHE = FOLDER / "cache"
DROP = Path("/proc/sys/vm/drop_caches")


def main() -> None:
    """Write each kind of data, measure all peers on it, delete it."""
    parser = options_parser(__doc__, "a few seconds, for a look")
    parser.add_argument("--photos", type=Path, required=True, help="a folder of JPEGs, also in folders")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter that has the peers")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), metavar="NAME", help="these kinds")
    options = parser.parse_args()
    photos = [path.read_bytes() for path in sorted(options.photos.rglob("*.jpg"))]
    count, size = (2_000, 20_000_000) if options.small else (1_000_000, 10_000_000_000)
    if not os.access(DROP, os.W_OK):
        console.print("not root: files stay in the page cache, so nothing is cold")
    results: dict[str, dict[str, float]] = {}
    for kind in options.only:
        write, peers = KINDS[kind]
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        path = write(photos, count, size)
        for peer in peers:
            python = Path(sys.executable) if peer.startswith("bushel") else options.python
            times = _cold_and_warm(python, peer, path)
            results[f"{kind}, {peer}"] = times
            console.print(f"{kind}, {peer}: " + ", ".join(f"{name} {number:.3f}" for name, number in times.items()))
    shutil.rmtree(FOLDER, ignore_errors=True)
    save(options.out, results, {})


def _cold_and_warm(python: Path, peer: str, path: Path) -> dict[str, float]:
    """Return seconds and CPU seconds of a process that has nothing, and of the next one."""
    for index in (path / ".bushel", path.parent / ".bushel", CACHE):
        shutil.rmtree(index, ignore_errors=True)
    os.sync()
    if os.access(DROP, os.W_OK):
        DROP.write_text("3")
    environment = {**os.environ, "HF_HOME": str(CACHE), "HF_HUB_OFFLINE": "1", "XDG_CACHE_HOME": str(CACHE)}
    times: dict[str, float] = {}
    for state in ("cold", "warm"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [str(python), str(PEERS / "first_batch_of.py"), peer, str(path)]
        printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times[f"{state} s"] = float(printed.split()[-1])
        times[f"{state} CPU s, with imports"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return times


def _folder(photos: list[bytes], count: int, size: int) -> Path:
    root = FOLDER / "photos"
    small = [_reduced(photo) for photo in photos[:200]]
    for number in range(count):
        folder = root / f"class{number % 1000:03}"
        if number < 1000:
            folder.mkdir(parents=True)
        (folder / f"{number:07}.jpg").write_bytes(small[number % len(small)])
    return root


def _reduced(photo: bytes) -> bytes:
    """Return a photo of 96 pixels' height, of some 3 KB, so that a million fit on a disk."""
    stream = io.BytesIO()
    with Image.open(io.BytesIO(photo)) as image:
        image.convert("RGB").resize((128, 96)).save(stream, "JPEG", quality=75)
    return stream.getvalue()


def _parquet(photos: list[bytes], count: int, size: int) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = FOLDER / "photos.parquet"
    group = pa.table({"image": pa.array(photos, pa.binary())})
    length = sum(map(len, photos))
    with pq.ParquetWriter(path, group.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(max(1, size // length)):
            writer.write_table(group)
    return path


def _tar(photos: list[bytes], count: int, size: int) -> Path:
    path = FOLDER / "photos.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for number in range(max(1, size // sum(map(len, photos)))):
            for position, photo in enumerate(photos):
                info = tarfile.TarInfo(f"{number:05}{position:03}.jpg")
                info.size = len(photo)
                archive.addfile(info, io.BytesIO(photo))
    return path


KINDS: dict[str, tuple[Callable[[list[bytes], int, int], Path], tuple[str, ...]]] = {
    "folder": (_folder, ("bushel", "torchvision", "datasets")),
    "parquet": (_parquet, ("bushel", "datasets")),
    "tar": (_tar, ("bushel", "bushel stream", "webdataset")),
}

if __name__ == "__main__":
    main()
