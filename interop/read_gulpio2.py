"""Read a gulp directory with GulpIO2: ``read_gulpio2.py DIRECTORY [--decode]``.

Samples come chunk by chunk, as GulpIO2 iterates over them.
"""

from __future__ import annotations

import argparse

import lines
from gulpio2 import GulpDirectory


def main() -> None:
    """Print one line for each item: its frames and its meta."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--decode", action="store_true", help="also decode every frame as GulpIO2 does")
    options = parser.parse_args()
    directory = GulpDirectory(options.directory, jpeg_decoder=lambda content: content)
    pixels = GulpDirectory(options.directory) if options.decode else None
    for chunk in directory.chunks():
        with chunk.open():
            for key, (frames, meta) in zip(chunk.meta_dict, chunk, strict=True):
                fields = [lines.stored(frame) for frame in frames]
                if pixels is not None:
                    for field, image in zip(fields, pixels[key][0], strict=True):
                        field.update(lines.decoded(image))
                lines.show(key, {"frames": fields, "meta": {"value": meta}})


if __name__ == "__main__":
    main()
