"""`bushel tarp`: the commands of tarp, for WebDataset archives."""

from __future__ import annotations

import argparse
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bushel import Dataset
from bushel.compat.webdataset.filters import shuffle
from bushel.compat.webdataset.gopen import gopen
from bushel.compat.webdataset.writer import ShardWriter
from bushel.errors import FormatError
from bushel.loader import in_batches

from .samples import (
    Commands,
    Reading,
    Sample,
    add_command,
    add_reading,
    archive,
    parse_slice,
    rekeyed,
    renamed,
    run_command,
    samples,
)

_RANDOM = "__random__"
_BATCH = 256


def tarp(arguments: list[str]) -> int:
    """Run `bushel tarp` with these arguments, and return the exit status."""
    return run_command("tarp", "Make and process WebDataset archives.", _add_commands, arguments)


def _add_commands(commands: Commands) -> None:
    _add_create(commands)
    _add_cat(commands)
    _add_split(commands)
    _add_sort(commands)


def _add_create(commands: Commands) -> None:
    create = add_command(commands, "create", "make an archive from a recipe")
    create.epilog = (
        "A line of the recipe is a name and a source: a path, file:PATH, text:TEXT or pipe:COMMAND."
    )
    create.add_argument("recipe", help="- is standard input")
    create.add_argument("-o", "--output", required=True, metavar="OUT", help="- is standard output")
    create.add_argument("--count", type=int, metavar="N", help="maximum number of files")
    create.add_argument(
        "--allow-commands", action="store_true", default=None, help="allow pipe: sources"
    )
    create.set_defaults(run=_create)


def _add_cat(commands: Commands) -> None:
    cat = add_command(commands, "cat", "join archives; rename, shuffle or select their samples")
    add_reading(cat)
    _add_field(cat)
    cat.add_argument(
        "-s", "--shuffle", type=int, default=0, metavar="N", help="shuffle in a buffer of N samples"
    )
    cat.add_argument("--seed", type=int, help="makes the shuffle repeatable")
    cat.add_argument(
        "-m", "--mix", type=int, default=0, metavar="N", help="read N archives in turns"
    )
    cat.add_argument(
        "-l", "--load", action="store_true", help="INPUT is a file with the names of archives"
    )
    cat.add_argument(
        "--shardslice",
        type=parse_slice,
        metavar="LO:HI:STEP",
        help="select among the samples of each archive",
    )
    cat.add_argument("-R", "--rekey", choices=["#"], metavar="#", help="replace keys by numbers")
    cat.add_argument(
        "-L", "--logging", type=int, default=0, metavar="N", help="print every N-th key"
    )
    cat.add_argument("-E", "--noeof", action="store_true", help="ignored: ZMQ is not used")
    cat.set_defaults(run=_cat)


def _add_split(commands: Commands) -> None:
    split = add_command(commands, "split", "split archives into shards")
    add_reading(split, output="pattern")
    split.add_argument(
        "-o", "--output", default="split-%06d.tar", metavar="PATTERN", help="split-%%06d.tar"
    )
    split.add_argument(
        "-c", "--count", type=int, default=1000000, metavar="N", help="samples in a shard (1000000)"
    )
    split.add_argument(
        "-s", "--size", type=float, default=1e9, metavar="BYTES", help="bytes in a shard (1e9)"
    )
    split.add_argument(
        "-p", "--post", metavar="COMMAND", help="run after each shard; %%s is its name"
    )
    split.set_defaults(run=_split)


def _add_sort(commands: Commands) -> None:
    for name, text in (
        ("sort", "sort all samples, or shuffle them, on disk"),
        ("shuffle", "shuffle all samples on disk"),
    ):
        sort = add_command(commands, name, text)
        add_reading(sort)
        _add_field(sort)
        if name == "sort":
            sort.add_argument(
                "-s",
                "--sortfield",
                default=_RANDOM,
                metavar="FIELD",
                help="__key__ or another; random if not given",
            )
        sort.add_argument("--seed", type=int, help="makes a random order repeatable")
        sort.add_argument("--tmpdir", metavar="DIR", help="folder for temporary files")
        sort.add_argument("--keepdb", action="store_true", help="keep the temporary files")
        sort.add_argument("--rekey", choices=["#"], metavar="#", help="replace keys by numbers")
        sort.set_defaults(run=_sort, sortfield=_RANDOM)


def _add_field(parser: argparse.ArgumentParser) -> None:
    text = 'only these fields: "txt image:jpg,png" is txt, and jpg or else png as image'
    parser.add_argument("-f", "--field", metavar="SPEC", help=text)


def _create(options: argparse.Namespace) -> int:
    with gopen(options.recipe, allow_commands=options.allow_commands) as stream:
        lines = stream.read().decode("utf-8").split("\n")
    with archive(options.output, options.allow_commands) as writer:
        for number, line in enumerate(lines[: options.count], 1):
            if not line.strip():
                continue
            name, *source = line.strip().split(maxsplit=1)
            if not source:
                raise FormatError(
                    f"line {number} needs a name and a source: {line!r}", file=options.recipe
                )
            writer.write_file(name, _content(source[0], options.allow_commands))
    return 0


def _content(source: str, allow_commands: bool | None) -> bytes:
    if source.startswith("text:"):
        return source.removeprefix("text:").encode()
    path = source.removeprefix("file:") if not source.startswith("file://") else source
    with gopen(path, allow_commands=allow_commands) as stream:
        data: bytes = stream.read()
    return data


def _cat(options: argparse.Namespace) -> int:
    if options.load:
        if len(options.inputs) != 1:
            raise ValueError("--load takes one file with the names of archives")
        options.inputs = Path(options.inputs[0]).read_text(encoding="utf-8").split()
    stream = samples(Reading.of(options, chosen_of_each=options.shardslice, mix=options.mix))
    stream = renamed(_logged(stream, options.logging), options.field)
    if options.shuffle > 0:
        stream = shuffle(options.shuffle, options.shuffle // 2 + 1, seed=options.seed)(stream)
    with archive(options.output, options.allow_commands) as writer:
        for sample in rekeyed(stream, options.rekey):
            writer.write(sample)
    return 0


def _logged(found: Iterator[Sample], every: int) -> Iterator[Sample]:
    for number, sample in enumerate(found):
        if every and number % every == 0:
            print(f"cat {number} {sample['__key__']}", file=sys.stderr)
        yield sample


def _split(options: argparse.Namespace) -> int:
    if not re.search(r"%0?\d*d", options.output):
        raise ValueError(
            f"--output {options.output!r} has no place for the number of a shard, such as %06d"
        )
    if options.count < 1 or options.size < 1:
        raise ValueError("--count and --size are at least 1")

    def post(name: str) -> None:
        result = subprocess.run(
            ["/bin/bash", "-c", options.post.replace("%s", shlex.quote(name))], check=False
        )
        if result.returncode:
            raise FormatError(
                f"the command failed for the shard with exit status {result.returncode}", file=name
            )

    writer = ShardWriter(
        options.output,
        options.count,
        options.size,
        post=post if options.post else None,
        verbose=0,
        encoder=False,
        mtime=0,
        allow_commands=options.allow_commands,
    )
    try:
        for sample in samples(Reading.of(options)):
            writer.write(sample)
    except BaseException:
        writer.discard()
        raise
    writer.close()
    return 0


def _sort(options: argparse.Namespace) -> int:
    """Write all samples into a temporary archive, sort its positions, and read it in that order."""
    import bushel

    folder = Path(tempfile.mkdtemp(prefix="tarp-sort-", dir=options.tmpdir))
    spool = folder / "samples.tar"
    try:
        with archive(str(spool)) as writer:
            for number, sample in enumerate(renamed(samples(Reading.of(options)), options.field)):
                writer.write({**sample, "__key__": f"{number:012d}/{sample['__key__']}"})
        dataset = bushel.open(spool, container="tar", index="memory", on_damage="raise")
        with archive(options.output, options.allow_commands) as writer:
            for sample in rekeyed(
                _ordered(dataset, options.sortfield, options.seed), options.rekey
            ):
                writer.write(sample)
        dataset.close()
    finally:
        if not options.keepdb:
            spool.unlink(missing_ok=True)
            folder.rmdir()
    if options.keepdb:
        print(f"the samples are in {spool}", file=sys.stderr)
    return 0


def _ordered(dataset: Dataset, field: str, seed: int | None) -> Iterator[Sample]:
    for positions in in_batches(_order(dataset, field, seed), _BATCH):
        for stored in dataset.read(positions, decode=False):
            key = stored.pop("__key__").partition("/")[2]
            yield {
                "__key__": key,
                **{name: bytes(value) for name, value in stored.items() if value is not None},
            }


def _order(dataset: Dataset, field: str, seed: int | None) -> list[int]:
    order = list(range(len(dataset)))
    if field == _RANDOM:
        random.Random(seed).shuffle(order)
        return order
    if field == "__key__":
        keys = [
            dataset.keys[position].partition("/")[2].encode("utf-8", "surrogateescape")
            for position in order
        ]
        return sorted(order, key=keys.__getitem__)
    if field not in dataset.spec:
        raise FormatError(
            f"no sample has the field {field!r} to sort by; there are {', '.join(dataset.spec)}"
        )
    keys = []
    for positions in in_batches(order, _BATCH):
        for stored in dataset.read(positions, [field], decode=False):
            if stored.get(field) is None:
                raise FormatError(
                    f"sample {stored['__key__'].partition('/')[2]!r} "
                    f"has no field {field!r} to sort by"
                )
            keys.append(bytes(stored[field]))
    return sorted(order, key=keys.__getitem__)
