"""`bushel tarp`: the commands of tarp, for WebDataset archives."""

from __future__ import annotations

import argparse
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from bushel import Dataset
from bushel.compat.batching import in_batches
from bushel.compat.webdataset.gopen import gopen
from bushel.compat.webdataset.tariterators import tarfile_samples
from bushel.compat.webdataset.utils import Sample
from bushel.compat.webdataset.writer import ShardWriter, TarWriter
from bushel.errors import FormatError, UnsupportedError
from bushel.storage import expand_braces

_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
_OPTIONAL = frozenset(("__url__", "__local_path__"))
_BATCH = 256


def tarp(arguments: list[str]) -> int:
    """Run `bushel tarp` with these arguments, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="bushel tarp", description="Make and process WebDataset archives."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_create(commands)
    _add_split(commands)
    _add_shuffle(commands)
    options = parser.parse_args(arguments)
    options.run(options)
    return 0


def _add_create(commands: _Commands) -> None:
    create = _add_command(commands, "create", "make an archive from a recipe")
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


def _add_split(commands: _Commands) -> None:
    split = _add_command(commands, "split", "split archives into shards")
    _add_reading(split)
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


def _add_shuffle(commands: _Commands) -> None:
    shuffle = _add_command(commands, "shuffle", "shuffle all samples on disk")
    _add_reading(shuffle)
    shuffle.add_argument(
        "-o",
        "--outputs",
        "--output",
        dest="output",
        required=True,
        metavar="OUT",
        help="- is standard output",
    )
    shuffle.add_argument(
        "-f",
        "--field",
        metavar="SPEC",
        help='only these fields: "txt image:jpg,png" is txt, and jpg or else png as image',
    )
    shuffle.add_argument("--seed", type=int, help="makes the order repeatable")
    shuffle.add_argument("--tmpdir", metavar="DIR", help="folder for temporary files")
    shuffle.add_argument("--keepdb", action="store_true", help="keep the temporary files")
    shuffle.add_argument("--rekey", choices=["#"], metavar="#", help="replace keys by numbers")
    shuffle.set_defaults(run=_shuffle)


def _add_command(commands: _Commands, name: str, text: str) -> argparse.ArgumentParser:
    """Add a subcommand, with the same text in both helps."""
    added: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.".replace("%", "%%")
    )
    return added


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all commands that read archives."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="archives; braces are expanded, - is standard input",
    )
    parser.add_argument(
        "--slice", type=_parse_slice, metavar="LO:HI:STEP", help="select among all samples"
    )
    parser.add_argument(
        "--maxerr",
        type=int,
        default=0,
        metavar="N",
        help="number of damaged archives to tolerate (0)",
    )
    parser.add_argument(
        "--allow-commands", action="store_true", default=None, help="allow pipe: inputs and outputs"
    )


def _parse_slice(text: str) -> slice:
    """Parse `lo:hi:step`, `lo:hi` or the number of one sample."""
    parts = text.split(":")
    try:
        numbers = [int(part) if part else None for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and numbers[0] is not None:
        return slice(numbers[0], numbers[0] + 1)
    if (
        len(numbers) not in (2, 3)
        or any(number is not None and number < 0 for number in numbers)
        or numbers[2:] == [0]
    ):
        raise argparse.ArgumentTypeError(
            f"invalid slice {text!r}: write lo:hi, lo:hi:step, or one number"
        )
    return slice(*numbers)


def _create(options: argparse.Namespace) -> None:
    with gopen(options.recipe, allow_commands=options.allow_commands) as stream:
        lines = stream.read().decode("utf-8").split("\n")
    with _archive(options.output, options.allow_commands) as writer:
        for number, line in enumerate(lines[: options.count], 1):
            if not line.strip():
                continue
            name, *source = line.strip().split(maxsplit=1)
            if not source:
                raise FormatError(
                    f"line {number} needs a name and a source: {line!r}", file=options.recipe
                )
            writer.write_file(name, _content(source[0], options.allow_commands))


def _content(source: str, allow_commands: bool | None) -> bytes:
    if source.startswith("text:"):
        return source.removeprefix("text:").encode()
    path = source.removeprefix("file:") if not source.startswith("file://") else source
    with gopen(path, allow_commands=allow_commands) as stream:
        data: bytes = stream.read()
    return data


def _split(options: argparse.Namespace) -> None:
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
        for sample in _samples(options):
            writer.write(sample)
    except BaseException:
        writer.discard()
        raise
    writer.close()


def _shuffle(options: argparse.Namespace) -> None:
    """Write all samples into a temporary archive, shuffle its positions, and read it in that order."""
    import bushel

    folder = Path(tempfile.mkdtemp(prefix="tarp-shuffle-", dir=options.tmpdir))
    spool = folder / "samples.tar"
    try:
        with _archive(str(spool)) as writer:
            for number, sample in enumerate(_renamed(_samples(options), options.field)):
                writer.write({**sample, "__key__": f"{number:012d}/{sample['__key__']}"})
        dataset = bushel.open(spool, container="tar", index="memory", on_damage="raise")
        order = list(range(len(dataset)))
        random.Random(options.seed).shuffle(order)
        with _archive(options.output, options.allow_commands) as writer:
            for sample in _rekeyed(_ordered(dataset, order), options.rekey):
                writer.write(sample)
        dataset.close()
    finally:
        if not options.keepdb:
            spool.unlink(missing_ok=True)
            folder.rmdir()
    if options.keepdb:
        print(f"the samples are in {spool}", file=sys.stderr)


def _ordered(dataset: Dataset, order: list[int]) -> Iterator[Sample]:
    for positions in in_batches(order, _BATCH):
        for stored in dataset.read(positions, decode=False):
            key = stored.pop("__key__").partition("/")[2]
            yield {
                "__key__": key,
                **{name: bytes(value) for name, value in stored.items() if value is not None},
            }


def _samples(options: argparse.Namespace) -> Iterator[Sample]:
    """Yield the samples that the arguments of `_add_reading` choose: their keys and fields.

    Raises:
        FormatError: More archives are damaged than `maxerr`.
    """
    left = [options.maxerr]

    def handler(error: Exception) -> bool:
        if left[0] == 0 or isinstance(error, UnsupportedError):
            raise error
        left[0] -= 1
        print(f"WARNING {error}", file=sys.stderr)
        return True

    shards = [{"url": url} for pattern in options.inputs for url in expand_braces(pattern)]
    stream = tarfile_samples(shards, handler, allow_commands=options.allow_commands)
    if options.slice is not None:
        stream = islice(stream, options.slice.start, options.slice.stop, options.slice.step)
    for sample in stream:
        yield {field: value for field, value in sample.items() if field not in _OPTIONAL}


def _renamed(found: Iterable[Sample], spec: str | None) -> Iterator[Sample]:
    """Keep the fields of a specification: `txt image:jpg,png` keeps `txt`, and `jpg`, or else `png`, as `image`.

    Raises:
        FormatError: A sample has none of the fields.
    """
    rules = []
    for rule in (spec or "").split():
        target, colon, old = rule.partition(":")
        rules.append((target if colon else None, (old if colon else target).split(",")))
    for sample in found:
        if not rules:
            yield sample
            continue
        result: Sample = {"__key__": sample["__key__"]}
        for new, names in rules:
            name = next((name for name in names if name in sample), None)
            if name is None:
                raise FormatError(
                    f"sample {sample['__key__']!r} has none of the fields {', '.join(names)}"
                )
            result[new or name] = sample[name]
        yield result


def _rekeyed(found: Iterable[Sample], spec: str | None) -> Iterator[Sample]:
    """Replace keys by numbers, if the specification is `#`."""
    for number, sample in enumerate(found):
        yield sample if spec is None else {**sample, "__key__": f"{number:09d}"}


@contextmanager
def _archive(output: str, allow_commands: bool | None = None) -> Iterator[TarWriter]:
    """Open an archive for writing; a file gets its name when it is complete."""
    writer = TarWriter(
        sys.stdout.buffer if output == "-" else output,
        encoder=False,
        mtime=0,
        allow_commands=allow_commands,
    )
    try:
        yield writer
    except BaseException:
        writer.discard()
        raise
    writer.close()
    if output == "-":
        sys.stdout.buffer.flush()
