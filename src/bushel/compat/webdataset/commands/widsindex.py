"""`bushel widsindex`: make, change and show the indexes of wids."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse, urlunparse

from bushel.compat.webdataset.cache import download
from bushel.compat.webdataset.tariterators import local_path_of
from bushel.compat.webdataset.wids.dataset import ShardListDataset
from bushel.compat.webdataset.wids.index import describe_shard, index_of, load, urldir
from bushel.storage import as_path, expand_braces, write_whole

from .samples import Commands, add_command, run_command


def widsindex(arguments: list[str]) -> int:
    """Run `bushel widsindex` with these arguments, and return the exit status."""
    return run_command("widsindex", "Indexes for random access by wids.", _add_commands, arguments)


def _add_commands(commands: Commands) -> None:
    create = add_command(commands, "create", "make an index of shards")
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
    create.set_defaults(run=_create)

    update = add_command(commands, "update", "change an index; the old one is kept as FILE.bak")
    update.add_argument("filename")
    update.add_argument("-n", "--name", default="", help="set the name")
    keep = update.add_mutually_exclusive_group()
    keep.add_argument("-k", "--keep", action="store_true", default=None, help="set the keep flag")
    keep.add_argument(
        "-K", "--nokeep", action="store_false", dest="keep", help="clear the keep flag"
    )
    update.add_argument("-i", "--info", default="", help="set the description")
    update.add_argument(
        "-D", "--nodir", action="store_true", help="reduce URLs to the names of the shards"
    )
    update.add_argument("-d", "--dir", default="", help="set the folder of the shards")
    update.add_argument("-b", "--base", default="", help="set the base")
    update.add_argument(
        "-B", "--rebase", action="store_true", help="make the folder of the shards the base"
    )
    update.set_defaults(run=_update)

    info = add_command(commands, "info", "show an index")
    info.add_argument("filenames", nargs="+")
    info.add_argument(
        "-t", "--table", action="store_true", help="print a table, values separated by tabs"
    )
    info.set_defaults(run=_info)

    sample = add_command(commands, "sample", "show a sample")
    sample.add_argument("filename")
    sample.add_argument("index", type=int)
    sample.add_argument("-p", "--python", action="store_true", help="ignored")
    sample.add_argument("-r", "--raw", action="store_true", help="do not decode")
    sample.add_argument(
        "-c", "--cat", metavar="KEY", help="write the bytes of this field to standard output"
    )
    sample.add_argument("-w", "--width", type=int, default=250, help="width of a line (250)")
    sample.set_defaults(run=_sample)


def _create(options: argparse.Namespace) -> int:
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
    _write(options.output, index_of(shards, name, options.base, info))
    return 0


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


def _write(path: str, index: Mapping[str, Any]) -> None:
    """Write an index, whose file gets its name when it is complete."""
    write_whole(as_path(path), json.dumps(index, indent=2).encode())


def _update(options: argparse.Namespace) -> int:
    index = load(options.filename)
    for key in ("name", "info", "base"):
        if getattr(options, key):
            index[key] = getattr(options, key)
    if options.keep is not None:
        index["keep"] = options.keep
    if options.rebase:
        bases = {_base(shard["url"]) for shard in index["shardlist"]}
        if len(bases) != 1:
            raise ValueError(f"the shards are in several folders: {', '.join(sorted(bases))}")
        index["base"] = bases.pop()
        print(f"rebasing to {index['base']}")
    if options.dir or options.nodir or options.rebase:
        for shard in index["shardlist"]:
            file = os.path.basename(urlparse(shard["url"]).path)
            shard["url"] = file if options.nodir else os.path.join(options.dir, file)
        index["shardlist"] = sorted(index["shardlist"], key=lambda shard: str(shard["url"]))
    index.setdefault("name", os.path.splitext(os.path.basename(options.filename))[0])
    shutil.copyfile(options.filename, f"{options.filename}.bak")
    _write(options.filename, index)
    return 0


def _base(url: str) -> str:
    parsed = urlparse(url)
    local = (parsed.scheme or "file") == "file" and not parsed.netloc
    folder = os.path.dirname(os.path.abspath(parsed.path) if local else parsed.path)
    return urlunparse((parsed.scheme or "file", parsed.netloc, folder, "", "", ""))


def _info(options: argparse.Namespace) -> int:
    if options.table:
        print("file\tname\tnbytes\tnsamples\tbase\tlast\tdatasets")
    for filename in options.filenames:
        index = load(filename)
        shards = index.get("shardlist", [])
        nbytes, nsamples = (
            sum(shard.get(key) or 0 for shard in shards) for key in ("filesize", "nsamples")
        )
        if options.table:
            last, datasets = shards[-1]["url"] if shards else None, len(index.get("datasets", []))
            print(
                filename,
                index.get("name"),
                nbytes,
                nsamples,
                index.get("base"),
                last,
                datasets,
                sep="\t",
            )
            continue
        print("filename:", filename)
        print("            name:", index.get("name"))
        print("            info:", index.get("info"))
        print("            base:", index.get("base"), f"(assumed: {urldir(filename)})")
        print("      total size:", _suffixed(nbytes))
        print("   total samples:", _suffixed(nsamples))
        print(" avg sample size:", _suffixed(nbytes // max(nsamples, 1)))
        print("  avg shard size:", _suffixed(nbytes // max(len(shards), 1)))
        if shards:
            print("     first shard:", shards[0]["url"])
            print("      last shard:", shards[-1]["url"])
        if index.get("datasets"):
            print("        datasets:")
        for dataset in index.get("datasets", []):
            print("    dataset name:", dataset.get("name"))
            print("     dataset url:", dataset.get("source_url", len(shards)))
        print()
    return 0


def _suffixed(number: float) -> str:
    for suffix in ("", "k", "M", "G", "T"):
        if number < 1000:
            return f"{number:.1f}{suffix}"
        number /= 1000
    return f"{number:.1f}E"


def _sample(options: argparse.Namespace) -> int:
    raw = options.raw or options.cat is not None
    dataset = ShardListDataset(options.filename, transformations=[_read] if raw else "PIL")
    print("dataset size:", len(dataset), file=sys.stderr)
    sample = dataset[options.index]
    dataset.close()
    if options.cat is not None:
        if options.cat not in sample:
            raise KeyError(
                f"the sample has no field {options.cat!r}; it has {', '.join(sorted(sample))}"
            )
        value = sample[options.cat]
        sys.stdout.buffer.write(value if isinstance(value, bytes) else str(value).encode())
        sys.stdout.buffer.flush()
        return 0
    longest = max(map(len, sample))
    for key, value in sorted(sample.items()):
        print(key.ljust(longest), repr(value)[: options.width - longest - 1])
    return 0


def _read(sample: dict[str, Any]) -> dict[str, Any]:
    return {key: value.read() if hasattr(value, "read") else value for key, value in sample.items()}
