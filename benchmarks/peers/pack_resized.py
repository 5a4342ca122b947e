"""Pack a folder of photos, resized: `pack_resized.py PACKER FOLDER OUT`, in the environment that has PACKER.

Shorter edge of 256 pixels, JPEG quality 95 (GulpIO2 always writes 90 without subsampling), two workers. Prints one
JSON object: images, wall and CPU seconds, bytes. The start of Python is not measured, except for im2rec, which is a
program.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

EDGE, QUALITY, WORKERS = 256, 95, 2


def bushel_into(container: str, quality: int) -> Callable[[Path, Path], None]:
    """Pack with `bushel.pack`, in two threads."""
    import bushel
    from bushel.compat.mxnet.steps import im2rec_steps
    from bushel.sources import LabelledFolder

    def pack(folder: Path, out: Path) -> None:
        bushel.pack(
            LabelledFolder(folder),
            out,
            container=container,
            transforms=im2rec_steps(EDGE, quality=quality),
            threads=WORKERS,
        )

    return pack


def im2rec() -> Callable[[Path, Path], None]:
    """Pack with MXNet's im2rec, in two processes. The list is written before the clock starts."""
    package = importlib.util.find_spec("mxnet")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("mxnet")
    script = Path(package.origin).parent / "tools" / "im2rec.py"

    def pack(folder: Path, out: Path) -> None:
        sizes = ["--resize", str(EDGE), "--quality", str(QUALITY), "--num-thread", str(WORKERS)]
        subprocess.run(
            [sys.executable, str(script), *sizes, str(out / "photos.lst"), str(folder)], check=True, capture_output=True
        )

    return pack


def gulpio2() -> Callable[[Path, Path], None]:
    """Pack with GulpIO2's adapter of image folders, in two processes."""
    from gulpio2.adapters import ImageFolderAdapter
    from gulpio2.fileio import GulpIngestor

    def pack(folder: Path, out: Path) -> None:
        adapter = ImageFolderAdapter(f"{folder}/", str(out), file_extensions=[".jpg"], img_size=EDGE)
        GulpIngestor(adapter, str(out), 200, WORKERS)()

    return pack


PACKERS: dict[str, Callable[[], Callable[[Path, Path], None]]] = {"im2rec": im2rec, "gulpio2": gulpio2}


def _cpu() -> float:
    """Return the CPU seconds of this process and its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Pack with the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("packer", help=f"{', '.join(PACKERS)}, or bushel:CONTAINER:QUALITY")
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    name, *container = options.packer.split(":")
    names = sorted(path.relative_to(options.folder) for path in options.folder.rglob("*.jpg"))
    if name == "im2rec":
        options.out.mkdir()
        lines = (f"{number}\t{number % 100}\t{path}\n" for number, path in enumerate(names))
        (options.out / "photos.lst").write_text("".join(lines))
    pack = bushel_into(container[0], int(container[1])) if container else PACKERS[name]()
    wall, cpu = time.perf_counter(), _cpu()
    pack(options.folder, options.out)
    done = {"images": len(names), "wall": time.perf_counter() - wall, "cpu": _cpu() - cpu}
    data = [path for path in options.out.rglob("*") if path.suffix in (".rec", ".gulp")]
    print(json.dumps({**done, "bytes": sum(path.stat().st_size for path in data)}))


if __name__ == "__main__":
    main()
