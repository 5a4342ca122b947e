"""`bushel widsindex create`: make an index of wids."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from bushel.compat.webdataset.cache import download
from bushel.compat.webdataset.tariterators import local_path_of
from bushel.compat.webdataset.wids.index import describe_shard, index_of
from bushel.storage import as_path, expand_braces, write_whole


def widsindex(arguments: list[str]) -> int:
    """Run `bushel widsindex` with these arguments, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="bushel widsindex", description="Indexes for random access by wids."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    create = commands.add_parser(
        "create", help="make an index of shards", description="Make an index of shards."
    )
    create.add_argument(
        "files",
        nargs="+",
        help="shards; braces are expanded, - reads their names from standard input",
    )
    create.add_argument(
        "-o", "--output", default="shardindex.json", help="the index (shardindex.json)"
    )
    create.add_argument(
        "-n", "--name", help="name of the dataset (from the first shard by default)"
    )
    create.add_argument(
        "-i", "--info", metavar="FILE", help="file with a description of the dataset"
    )
    create.add_argument("-b", "--base", help="base of relative URLs")
    create.add_argument(
        "--allow-commands", action="store_true", default=None, help="allow pipe: shards"
    )
    _create(parser.parse_args(arguments))
    return 0


def _create(options: argparse.Namespace) -> None:
    names = [line.strip() for line in sys.stdin] if options.files == ["-"] else options.files
    name = options.name
    if name is None:
        name = _short(os.path.splitext(names[0])[0])
        print("setting name to", name)
    info = None if options.info is None else Path(options.info).read_text(encoding="utf-8")
    shards = []
    for url in (url for pattern in names for url in expand_braces(pattern)):
        print(url)
        shards.append(_describe(url, options.allow_commands))
    index = index_of(shards, name, options.base, info)
    # the file gets its name when it is complete
    write_whole(as_path(options.output), json.dumps(index, indent=2).encode())


def _describe(url: str, allow_commands: bool | None) -> dict[str, Any]:
    path = local_path_of(url)
    if path is not None:
        return describe_shard(url, path)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "shard.tar")
        download(url, path, allow_commands=allow_commands)
        return describe_shard(url, path)


def _short(text: str) -> str:
    """Return the different words of a name, without numbers."""
    words = re.split(r"[^a-zA-Z0-9_]+", text)
    return "-".join(dict.fromkeys(word for word in words if not re.fullmatch("[0-9]*", word)))
