"""Write chunks with GulpIO2: ``write_gulpio2.py PLAN DIRECTORY [--shard-samples N]``; adds to chunks that exist.

GulpIO2 encodes every frame itself: frames are given as arrays (``dtype`` in the plan), or as JPEG files that its own
decoder turns into arrays first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import lines
from gulpio2 import GulpDirectory
from gulpio2.utils import jpeg_bytes_to_img


def main() -> None:
    """Write the samples of a plan: ``frames`` and ``meta``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("plan")
    parser.add_argument("directory")
    parser.add_argument("--shard-samples", type=int)
    options = parser.parse_args()
    Path(options.directory).mkdir(parents=True, exist_ok=True)
    parts = list(lines.chunked(lines.read_plan(options.plan)["samples"], options.shard_samples))
    directory = GulpDirectory(options.directory)
    for part, chunk in zip(parts, directory.new_chunks(len(parts)), strict=True):
        with chunk.open("wb"):
            for sample in part:
                frames = [jpeg_bytes_to_img(f) if isinstance(f, bytes) else f for f in sample["fields"]["frames"]]
                chunk.append(sample["key"], sample["fields"]["meta"], frames)


if __name__ == "__main__":
    main()
