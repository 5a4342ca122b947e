"""Read RecordIO files with MXNet: ``read_mxnet.py (DIRECTORY | FILE)… [--unpack] [--key-type str] [--no-index]``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import lines
from mxnet import recordio


def records(path: str, key_type: type, indexed: bool) -> Iterator[tuple[str | None, bytes]]:
    """Yield the records of a file: in the order of its index, or from front to back if it has none."""
    if indexed:
        reader = recordio.MXIndexedRecordIO(str(Path(path).with_suffix(".idx")), path, "r", key_type=key_type)
        for key in reader.keys:
            yield str(key), reader.read_idx(key)
    else:
        reader = recordio.MXRecordIO(path, "r")
        while (content := reader.read()) is not None:
            yield None, content
    reader.close()


def main() -> None:
    """Print one line for each record; a record without a key is named by its position."""
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+", help="files; a directory stands for its *.rec by name")
    parser.add_argument("--unpack", action="store_true", help="take image records apart")
    parser.add_argument("--key-type", choices=["int", "str"], default="int")
    parser.add_argument("--no-index", action="store_true", help="read from front to back although there is an index")
    options = parser.parse_args()
    key_type = {"int": int, "str": str}[options.key_type]
    position = 0
    for path in lines.existing(options.paths, "*.rec"):
        indexed = Path(path).with_suffix(".idx").exists() and not options.no_index
        for key, content in records(path, key_type, indexed):
            fields = {"data": lines.stored(content)}
            if options.unpack:
                header, image = recordio.unpack(content)
                label = header.label if isinstance(header.label, float) else header.label.tolist()
                named = {"label": label, "id": header.id, "id2": header.id2}
                fields = {"image": lines.stored(image), **{name: {"value": value} for name, value in named.items()}}
            lines.show(str(position) if key is None else key, fields)
            position += 1


if __name__ == "__main__":
    main()
