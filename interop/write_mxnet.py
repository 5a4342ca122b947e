"""Write RecordIO files with MXNet: ``write_mxnet.py PLAN FILE [--shard-samples N] [--key-type str] [--no-index]``.

A sample with a ``label`` becomes an image record (``image``, ``label``, ``id``, ``id2``), another one its ``data``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import lines
from mxnet import recordio


def content(fields: dict[str, Any]) -> bytes:
    """Return the record of one sample."""
    if "label" not in fields:
        raw: bytes = fields["data"]
        return raw
    header = recordio.IRHeader(0, fields["label"], fields.get("id", 0), fields.get("id2", 0))
    packed: bytes = recordio.pack(header, fields["image"])
    return packed


def main() -> None:
    """Write the samples of a plan to FILE, or to FILE with ``_0``, ``_1`` … before its suffix when sharded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("plan")
    parser.add_argument("file")
    parser.add_argument("--shard-samples", type=int)
    parser.add_argument("--key-type", choices=["int", "str"], default="int")
    parser.add_argument("--no-index", action="store_true")
    options = parser.parse_args()
    key_type = {"int": int, "str": str}[options.key_type]
    file = Path(options.file)
    samples = lines.read_plan(options.plan)["samples"]
    for number, part in enumerate(lines.chunked(samples, options.shard_samples)):
        path = file if options.shard_samples is None else file.with_stem(f"{file.stem}_{number}")
        if options.no_index:
            writer = recordio.MXRecordIO(str(path), "w")
            for sample in part:
                writer.write(content(sample["fields"]))
        else:
            writer = recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w", key_type=key_type)
            for sample in part:
                writer.write_idx(key_type(sample["key"]), content(sample["fields"]))
        writer.close()


if __name__ == "__main__":
    main()
