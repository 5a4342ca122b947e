"""Shrink photos in tasks and write them in shards: `distribute.py PACKER FOLDER OUT NOTES`.

Every packer does the same work, in its environment: each photo is decoded, shrunk to a shorter edge of 256 pixels and
encoded by Pillow, in 24 shards of equal size, by two workers. A worker adds a byte to the file NOTES/PID with every
photo, so that one can be killed in the middle. Prints the seconds of the job, without the start of Python and of the
cluster. `--check` reads the dataset with the packer's own reader, and prints its contents.
"""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import os
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SHARDS, WORKERS, EDGE = 24, 2, 256
Job = Callable[[list[Path], Path], None]


def shrunk(photo: Path, notes: Path) -> dict[str, Any]:
    """Return a sample: key, JPEG bytes and label."""
    from PIL import Image

    with open(notes / str(os.getpid()), "ab") as note:
        note.write(b".")
    with Image.open(photo) as image:
        width, height = image.size
        scale = EDGE / min(width, height)
        small = image.convert("RGB").resize((round(width * scale), round(height * scale)), Image.Resampling.BILINEAR)
    out = io.BytesIO()
    small.save(out, "JPEG", quality=90)
    return {"__key__": photo.stem, "jpg": out.getvalue(), "cls": len(photo.stem)}


class Shrinking:
    """The photos as a source of Bushel."""

    spec = {"jpg": "jpg", "cls": "int"}

    def __init__(self, photos: list[Path], notes: Path) -> None:
        self.photos, self.notes = photos, notes

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return shrunk(self.photos[position], self.notes)


def bushel_on(engine: str, notes: Path) -> Job:
    """Pack with Bushel, in parts on an engine; `none` is one dataset in two worker processes, without parts."""
    import bushel
    from bushel.engines.local import LocalEngine

    if engine == "ray":
        _start_ray()

    def pack(photos: list[Path], out: Path) -> None:
        source = Shrinking(photos, notes)
        if engine == "none":
            mode: Any = "resume" if out.exists() else "create"
            size = len(photos) // SHARDS
            bushel.pack(source, out, container="tar", processes=WORKERS, shard_samples=size, mode=mode)
            return
        where: Any = LocalEngine(WORKERS) if engine == "local" else engine
        bushel.pack(source, out, container="tar", parts=SHARDS, engine=where)

    return pack


def _start_ray() -> None:
    import ray

    ray.init("local", num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, configure_logging=False)


def ray_tasks(notes: Path) -> Job:
    """Write a shard of WebDataset in each task of Ray, as img2dataset does, which notes shards that are complete."""
    import ray
    import webdataset

    _start_ray()

    def write(number: int, photos: list[Path], out: Path) -> None:
        totals = out / f"{number:05d}_stats.json"
        if totals.exists():
            return
        with webdataset.TarWriter(str(out / f"{number:05d}.tar")) as writer:
            for photo in photos:
                writer.write(shrunk(photo, notes))
        totals.write_text(json.dumps({"count": len(photos)}))

    def pack(photos: list[Path], out: Path) -> None:
        out.mkdir(exist_ok=True)
        task = ray.remote(num_cpus=1)(write)
        ray.get([task.remote(number, photos[number::SHARDS], out) for number in range(SHARDS)])

    return pack


def ray_data(notes: Path) -> Job:
    """Write with Ray Data."""
    import ray

    _start_ray()
    ray.data.DataContext.get_current().enable_progress_bars = False

    def pack(photos: list[Path], out: Path) -> None:
        rows = [{"path": str(photo)} for photo in photos]
        dataset = ray.data.from_items(rows, override_num_blocks=SHARDS)
        dataset.map(lambda row: _as_text(shrunk(Path(row["path"]), notes))).write_webdataset(str(out), encoder=None)

    return pack


def _as_text(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "cls": str(sample["cls"])}


class _Optimized:
    """What LitData calls in its workers, which must be able to import it."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def __call__(self, photo: str) -> dict[str, Any]:
        return shrunk(Path(photo), self.notes)


def litdata(notes: Path) -> Job:
    """Write with LitData's optimiser."""
    from litdata import optimize

    def pack(photos: list[Path], out: Path) -> None:
        inputs = [str(photo) for photo in photos]
        size = len(photos) // SHARDS
        optimize(_Optimized(notes), inputs, str(out), chunk_size=size, num_workers=WORKERS, verbose=False)

    return pack


def _mds_part(arguments: tuple[int, list[Path], Path, Path]) -> None:
    from streaming import MDSWriter

    number, photos, out, notes = arguments
    columns = {"__key__": "str", "jpg": "bytes", "cls": "int"}
    with MDSWriter(out=str(out / f"{number:05d}"), columns=columns, exist_ok=True) as writer:
        for photo in photos:
            writer.write(shrunk(photo, notes))


def mds(notes: Path) -> Job:
    """Write with MosaicML Streaming: a folder for each task of a pool of processes, joined by `merge_index`."""
    from streaming.base.util import merge_index

    def pack(photos: list[Path], out: Path) -> None:
        out.mkdir(exist_ok=True)
        with multiprocessing.Pool(WORKERS) as pool:
            tasks = [(number, photos[number::SHARDS], out, notes) for number in range(SHARDS)]
            for _ in pool.imap_unordered(_mds_part, tasks):
                pass
        merge_index(str(out), keep_local=True)

    return pack


def keys_in(packer: str, out: Path) -> Iterator[str]:
    """Yield the keys of the output, as the packer's own reader gives them."""
    if packer.startswith("bushel"):
        import bushel

        yield from bushel.open(out, verify=True).keys
    elif packer.startswith("ray"):
        for path in sorted(out.glob("*.tar")):
            with tarfile.open(path) as tar:
                yield from (name.removesuffix(".jpg") for name in tar.getnames() if name.endswith(".jpg"))
    elif packer == "litdata":
        from litdata import StreamingDataset

        yield from (sample["__key__"] for sample in StreamingDataset(str(out)))
    else:
        from streaming import StreamingDataset

        yield from (sample["__key__"] for sample in StreamingDataset(local=str(out), shuffle=False, batch_size=1))


def main() -> None:
    """Run one packer, or check what it has written."""
    parser = argparse.ArgumentParser(description="Shrink photos in tasks and write them in shards.")
    parser.add_argument("packer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("notes", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    photos = sorted(options.folder.glob("*.jpg"))
    if options.check:
        keys: list[str] = []
        problem = None
        try:
            keys.extend(keys_in(options.packer, options.out))
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        print(json.dumps({"samples": len(keys), "distinct": len(set(keys)), "of": len(photos), "problem": problem}))
        return
    kind, _, engine = options.packer.partition("-")
    jobs: dict[str, Callable[[Path], Job]] = {
        "ray-tasks": ray_tasks,
        "ray-data": ray_data,
        "litdata": litdata,
        "mds": mds,
    }
    job = bushel_on(engine, options.notes) if kind == "bushel" else jobs[options.packer](options.notes)
    started = time.monotonic()
    job(photos, options.out)
    print(json.dumps({"seconds": time.monotonic() - started}), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import distribute  # so that workers can import what they unpickle

    os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")])
    distribute.main()
