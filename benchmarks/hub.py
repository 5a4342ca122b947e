"""Benchmark of Parquet files as on the Hub: epochs of photos, local and from S3, and rows of text in stored order.

    python benchmarks/hub.py --photos FOLDER --out hub.json          1,000 photos, 200,000 texts, S3 with 0, 5 and 50 ms
    python benchmarks/hub.py --photos FOLDER --small --latency       fewer of them, and no S3 server

Every contestant has a process of its own, in turns; its imports are not counted; `datasets`, LitData, webdataset
and polars are in `.interop/parquet`. Photos are cropped at random to 224 × 224: by Bushel, else by Pillow. Local files
have Bushel's index, those on S3 have none, and each epoch begins without what others have learned. Needs pyarrow.
"""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import bushel
from bushel.storage.objects.client import library
from bushel.storage.objects.location import ObjectPath
from measure import SCRATCH, Rate, Timing, how_to_make, in_turns, interpreter, options_parser, save, show
from object_server import BUCKET, delayed, running_server, upload
from served import PEERS

FILES, GROUP = 4, 100
PHOTO_PEERS = ("bushel:blocks", "bushel:exact", "datasets:streaming", "datasets:map", "litdata", "webdataset")
TEXT_PEERS = ("bushel", "datasets", "litdata", "polars")
ON_S3 = ("bushel:blocks", "datasets:streaming", "litdata", "webdataset")


def write_photos(photos: Path, folder: Path, count: int) -> None:
    """Write photos as `datasets` writes them: uncompressed, with a page index; and as archives for webdataset."""
    found = sorted(path for path in photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    features = {"image": {"_type": "Image"}, "label": {"_type": "Value", "dtype": "int64"}}
    for file in range(FILES):
        numbers = range(file * count // FILES, (file + 1) * count // FILES)
        photos_of_file = [found[number % len(found)].read_bytes() for number in numbers]
        images = [
            {"bytes": each, "path": f"{number}.jpg"} for number, each in zip(numbers, photos_of_file, strict=True)
        ]
        table = pa.table({"image": images, "label": list(numbers)})
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        name = f"train-{file:05}-of-{FILES:05}.parquet"
        options: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_page_index": True}
        pq.write_table(table, folder / name, row_group_size=GROUP, **options)
        with tarfile.open(folder.with_name("photos-tar") / f"{file:06}.tar", "w") as archive:
            for number, image in zip(numbers, photos_of_file, strict=True):
                info = tarfile.TarInfo(f"{number:06}.jpg")
                info.size = len(image)
                archive.addfile(info, io.BytesIO(image))
    bushel.index(folder, checksums=False).close()


def write_texts(folder: Path, count: int) -> None:
    """Write texts of some 500 bytes as pyarrow does: compressed with Snappy."""
    rng = random.Random(3)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(2, 10))) for _ in range(5000)]
    for file in range(FILES):
        texts = [" ".join(rng.choices(words, k=rng.randrange(40, 120))) for _ in range(count // FILES)]
        table = pa.table({"id": list(range(len(texts))), "text": texts})
        pq.write_table(table, folder / f"train-{file:05}-of-{FILES:05}.parquet", row_group_size=10_000)
    bushel.index(folder, checksums=False).close()


def made(photos: Path, count: int, texts: int) -> Path:
    """Write the datasets, and return their folder."""
    root = SCRATCH / f"hub-{count}"
    if (root / "done").exists():
        return root
    for name in ("photos", "photos-tar", "texts", "photos-litdata", "texts-litdata"):
        (root / name).mkdir(parents=True, exist_ok=True)
    write_photos(photos, root / "photos", count)
    write_texts(root / "texts", texts)
    for name in ("photos", "texts"):
        for path in (root / name).glob("*.parquet"):
            os.link(path, root / f"{name}-litdata" / path.name)
        code = f"from litdata import index_parquet_dataset as i; i({str(root / f'{name}-litdata')!r})"
        subprocess.run([str(interpreter("parquet")), "-c", code], check=True, capture_output=True)
    paths = sorted(map(str, (root / "photos-tar").glob("*.tar")))
    (root / "local.txt").write_text("\n".join(paths), encoding="utf-8")
    (root / "done").touch()
    return root


def epoch(task: str, peer: str, place: str, local: str, number: int) -> Timing:
    """Run one epoch in a process of its own, which knows nothing from earlier ones."""
    python = sys.executable if peer.startswith("bushel") else str(interpreter("parquet"))
    with tempfile.TemporaryDirectory() as cache:
        own = {"BUSHEL_TABLES_DIR": cache, "DATA_OPTIMIZER_CACHE_FOLDER": cache, "HF_HOME": cache}
        command = [python, str(PEERS / "peer_hub.py"), task, peer, place, str(number), local]
        done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stderr[-2000:]}")
    return Timing(**json.loads(done.stdout.splitlines()[-1]))


def place_of(task: str, peer: str, root: str, archives: Path) -> str:
    """Return the samples that a contestant reads."""
    name = peer.partition(":")[0]
    return {"webdataset": str(archives), "litdata": f"{root}/{task}-litdata"}.get(name, f"{root}/{task}")


def contestants(
    task: str, peers: tuple[str, ...], root: Path, where: str, archives: Path
) -> dict[str, Callable[[int], Timing]]:
    """Return the contestants of a task, with the data at `where`."""
    found: dict[str, Callable[[int], Timing]] = {}
    for peer in peers:
        local = place_of(task, peer, str(root), root / "local.txt")
        found[peer] = partial(epoch, task, peer, place_of(task, peer, where, archives), local)
    return found


def on_s3(root: Path, rounds: int, latencies: list[float]) -> dict[str, dict[str, Rate]]:
    """Measure epochs of photos from S3 with latencies."""
    found: dict[str, dict[str, Rate]] = {}
    with running_server():
        for name in ("photos", "photos-litdata", "photos-tar"):
            upload(root / name, name, hidden=False)
        for milliseconds in latencies:
            with delayed(milliseconds):
                store = ObjectPath.parse(f"s3://{BUCKET}").store
                names = [path.name for path in sorted((root / "photos-tar").glob("*.tar"))]
                urls = [library().sign(store, "GET", f"photos-tar/{name}", timedelta(hours=1)) for name in names]
                archives = root / "urls.txt"
                archives.write_text("\n".join(urls), encoding="utf-8")
                own = contestants("photos", ON_S3, root, f"s3://{BUCKET}", archives)
                title = f"photos, S3, {milliseconds:g} ms"
                found[title] = in_turns(own, rounds)
                show(title, "rows", found[title], tuple(own)[:1])
    return found


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser(__doc__, "400 photos, 40,000 texts")
    parser.add_argument("--photos", type=Path, required=True, help="folder of JPEGs")
    parser.add_argument("--count", type=int, help="number of photos")
    parser.add_argument("--only", choices=("photos", "texts", "s3"), help="measure only this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, nargs="*", default=[0, 5, 50], metavar="MS", help="of S3; none: no S3")
    options = parser.parse_args()
    if not interpreter("parquet").exists():
        parser.exit(0, f"the peers are not installed: {how_to_make('parquet')}\n")
    count = options.count or (400 if options.small else 1000)
    root = made(options.photos, count, 40_000 if options.small else 200_000)
    here = partial(contestants, root=root, where=str(root), archives=root / "local.txt")
    groups: dict[str, dict[str, Callable[[int], Timing]]] = {
        "texts, local": here("texts", TEXT_PEERS),
        "photos, local": here("photos", PHOTO_PEERS),
    }
    results: dict[str, dict[str, Rate]] = {}
    for title, own in groups.items():
        if options.only in (None, title.partition(",")[0]):
            results[title] = in_turns(own, options.rounds)
            show(title, "rows", results[title], tuple(own)[:1])
    if options.latency and options.only in (None, "s3"):
        results |= on_s3(root, options.rounds, options.latency)
    save(options.out, results, {})


if __name__ == "__main__":
    main()
