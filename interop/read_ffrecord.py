"""Read FFRecord files with the original and its checks: ``read_ffrecord.py (DIRECTORY | FILE)… [--folders]``."""

from __future__ import annotations

import argparse

import lines
from ffrecord import FileReader, PackedFolder


def main() -> None:
    """Print one line for each record, whose key is its position among all records, or for each file of a folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+", help="files; a directory stands for its *.ffr by name")
    parser.add_argument("--folders", action="store_true", help="read each file as a packed folder, by paths")
    options = parser.parse_args()
    files = lines.existing(options.paths, "*.ffr")
    if options.folders:
        for file in files:
            folder = PackedFolder(file)
            for path in sorted(folder.list("", recursive=True)):
                lines.show(path, {"data": lines.stored(bytes(folder.read_one(path)))})
        return
    reader = FileReader(files, check_data=True)
    for position in range(reader.n):
        lines.show(str(position), {"data": lines.stored(bytes(reader.read_one(position)))})
    reader.close()


if __name__ == "__main__":
    main()
