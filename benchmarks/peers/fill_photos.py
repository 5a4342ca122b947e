"""Write photos for a peer: ``fill_photos.py FORM PATH PHOTOS COUNT``, run in the environment that holds it.

The photos of the folder are repeated to COUNT.
"""

from __future__ import annotations

import argparse
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

SHARDS = 8


def _photos(folder: Path, count: int) -> Iterator[tuple[str, bytes]]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    for number in range(count):
        yield f"{number:06d}", paths[number % len(paths)].read_bytes()


def main() -> None:
    """Write the photos with the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("form", choices=("files", "tar", "granular", "array_record", "beton", "bag"))
    parser.add_argument("path", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    photos = _photos(options.photos, options.count)
    path = options.path
    if options.form == "files":
        path.mkdir(parents=True)
        for key, data in photos:
            (path / f"{key}.jpg").write_bytes(data)
    elif options.form == "tar":
        path.mkdir(parents=True)
        size = -(-options.count // SHARDS)
        for shard in range(SHARDS):
            with tarfile.open(path / f"{shard:03d}.tar", "w") as archive:
                for _, (key, data) in zip(range(min(size, options.count - shard * size)), photos, strict=False):
                    member = tarfile.TarInfo(f"{key}.jpg")
                    member.size = len(data)
                    archive.addfile(member, io.BytesIO(data))
    elif options.form == "granular":
        import granular

        with granular.DatasetWriter(str(path), {"image": "bytes"}, granular.encoders) as writer:
            for _, data in photos:
                writer.append({"image": data}, flush=False)
    elif options.form == "array_record":
        from array_record.python.array_record_module import ArrayRecordWriter

        writer = ArrayRecordWriter(str(path), "group_size:1")
        for _, data in photos:
            writer.write(data)
        writer.close()
    elif options.form == "beton":
        import beton

        beton.write(path, (data for _, data in photos))
    else:
        import bushel

        with bushel.Writer(path, {"image": "jpg"}, container="bag") as writer:
            for key, data in photos:
                writer.append({"image": data}, key=key)


if __name__ == "__main__":
    main()
