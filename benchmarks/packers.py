"""Pack a folder of JPEG files unchanged: `packers.py PACKER FOLDER OUT [--sync]`, in the environment of PACKER.

Prints one JSON object: images, wall and CPU seconds, and bytes of the output. Reading the files is part of the
job, starting Python is not. With `--sync`, the output is on disk before the clock stops.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path


def photos(folder: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yield key, content and label of every photo, sorted by name."""
    for number, path in enumerate(sorted(folder.glob("*.jpg"))):
        yield path.stem, path.read_bytes(), number % 100


def sync(out: Path) -> None:
    """Flush written data to the disk."""
    for path in [out, *out.rglob("*")] if out.is_dir() else [out]:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def bushel_into(container: str) -> Callable[[Path, Path, bool], None]:
    """Pack with Bushel's writer, which syncs itself."""
    from bushel._writer.writer import Writer

    def pack(folder: Path, out: Path, sync: bool) -> None:
        spec, expected = {"image": "jpg", "label": "int"}, len(list(folder.iterdir()))
        with Writer(out, spec, container=container, expected=expected, sync=sync) as writer:
            for key, content, label in photos(folder):
                writer.append({"image": content, "label": label}, key=key)

    with tempfile.TemporaryDirectory() as folder:  # modules are imported on first use, which is part of starting Python
        one = Path(folder) / "one"
        one.mkdir()
        (one / "a.jpg").write_bytes(b"\xff\xd8\xff\xd9")
        pack(one, Path(folder) / "out", False)
    return pack


def tar() -> Callable[[Path, Path, bool], None]:
    """Pack with `tar cf`: the photos without labels."""

    def pack(folder: Path, out: Path, to_disk: bool) -> None:
        subprocess.run(["tar", "--sort=name", "-cf", out, "-C", folder, "."], check=True)
        if to_disk:
            sync(out)

    return pack


def webdataset() -> Callable[[Path, Path, bool], None]:
    """Pack with WebDataset's ShardWriter."""
    from webdataset import ShardWriter

    def pack(folder: Path, out: Path, to_disk: bool) -> None:
        out.mkdir()
        with ShardWriter(str(out / "%06d.tar"), maxcount=10**9, maxsize=10**12, verbose=0) as writer:
            for key, content, label in photos(folder):
                writer.write({"__key__": key, "jpg": content, "cls": label})
        if to_disk:
            sync(out)

    return pack


def granular() -> Callable[[Path, Path, bool], None]:
    """Pack with Granular's DatasetWriter, without shards."""
    import granular as original

    def pack(folder: Path, out: Path, to_disk: bool) -> None:
        spec = {"key": "utf8", "image": "jpg", "label": "int"}
        encoders = {**original.encoders, "jpg": bytes}
        with original.DatasetWriter(str(out), spec, encoders) as writer:
            for key, content, label in photos(folder):
                writer.append({"key": key, "image": content, "label": label}, flush=False)
        if to_disk:
            sync(out)

    return pack


def im2rec() -> Callable[[Path, Path, bool], None]:
    """Pack with MXNet's im2rec. A process writes the list before the clock starts."""
    package = importlib.util.find_spec("mxnet")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("mxnet")
    script = Path(package.origin).parent / "tools" / "im2rec.py"

    def pack(folder: Path, out: Path, to_disk: bool) -> None:
        out.mkdir()
        names = sorted(path.name for path in folder.glob("*.jpg"))
        lines = (f"{number}\t{number % 100}\t{name}\n" for number, name in enumerate(names))
        (out / "photos.lst").write_text("".join(lines))
        command = [sys.executable, str(script), "--pass-through", str(out / "photos.lst"), str(folder)]
        subprocess.run(command, check=True, capture_output=True)
        if to_disk:
            sync(out)

    return pack


PACKERS: dict[str, Callable[[], Callable[[Path, Path, bool], None]]] = {
    "tar": tar,
    "webdataset": webdataset,
    "granular": granular,
    "im2rec": im2rec,
}


def main() -> None:
    """Pack with the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("packer", help=f"{', '.join(PACKERS)}, or bushel:CONTAINER")
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sync", action="store_true")
    options = parser.parse_args()
    name, _, container = options.packer.partition(":")
    pack = bushel_into(container) if container else PACKERS[name]()
    images = sum(1 for _ in options.folder.glob("*.jpg"))
    wall, cpu = time.perf_counter(), _cpu()
    pack(options.folder, options.out, options.sync)
    done = {"images": images, "wall": time.perf_counter() - wall, "cpu": _cpu() - cpu}
    files = [options.out] if options.out.is_file() else [path for path in options.out.rglob("*") if path.is_file()]
    print(json.dumps({**done, "bytes": sum(path.stat().st_size for path in files)}))


def _cpu() -> float:
    """Return the CPU seconds of this process and its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
