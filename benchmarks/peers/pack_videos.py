"""Pack a folder of videos as JPEG frames: `pack_videos.py PACKER FOLDER OUT`, in the environment that has PACKER.

12 frames per second, shorter edge of 256 pixels, quality 90 (fixed in GulpIO2), two workers, gulp chunks.
Prints one JSON object: frames, wall and CPU seconds, bytes. The start of Python is not measured.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from functools import partial
from pathlib import Path

RATE, EDGE, QUALITY, WORKERS, PER_CHUNK = 12, 256, 90, 2, 8


def with_bushel(folder: Path, out: Path) -> None:
    """Pack with Bushel: PyAV in two threads."""
    import bushel
    from bushel.sources import Frames, LabelledFolder

    source = LabelledFolder(folder, Frames(rate=RATE, short_edge=EDGE, quality=QUALITY))
    bushel.pack(source, out, container="gulp", threads=WORKERS, shard_samples=PER_CHUNK)


def with_gulpio2(folder: Path, out: Path) -> None:
    """Pack with GulpIO2's adapter of video folders, extended by a frame rate, which its other adapters have."""
    from gulpio2 import adapters
    from gulpio2.fileio import GulpIngestor

    adapters.burst_video_into_frames = partial(adapters.burst_video_into_frames, frame_rate=RATE)
    out.mkdir()
    adapter = adapters.VideoFolderAdapter(f"{folder}/", str(out), file_extensions=[".mp4"], frame_size=EDGE)
    GulpIngestor(adapter, str(out), PER_CHUNK, WORKERS)()


def _cpu() -> float:
    """Return the CPU seconds of this process and its ended children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Pack with the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("packer", choices=["bushel", "gulpio2"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    wall, cpu = time.perf_counter(), _cpu()
    (with_bushel if options.packer == "bushel" else with_gulpio2)(options.folder, options.out)
    done = {"wall": time.perf_counter() - wall, "cpu": _cpu() - cpu}
    metas = [json.loads(path.read_text()) for path in options.out.glob("*.gmeta")]
    frames = sum(len(item["frame_info"]) for meta in metas for item in meta.values())
    print(json.dumps({**done, "frames": frames, "bytes": sum(p.stat().st_size for p in options.out.glob("*.gulp"))}))


if __name__ == "__main__":
    main()
