"""Shared parts of the commands of tarp: reading samples from archives, writing samples into an archive."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeAlias

from bushel.compat.webdataset.mix import round_robin_longest
from bushel.compat.webdataset.tariterators import tarfile_samples
from bushel.compat.webdataset.writer import TarWriter
from bushel.errors import FormatError, UnsupportedError
from bushel.loader import in_batches
from bushel.storage import expand_braces

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Sample = dict[str, Any]
_OPTIONAL = frozenset(("__url__", "__local_path__"))


def parse_slice(text: str) -> slice:
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


def run_command(
    program: str, text: str, add: Callable[[Commands], None], arguments: list[str]
) -> int:
    """Run the subcommand that the arguments name, and return the exit status."""
    parser = argparse.ArgumentParser(prog=f"bushel {program}", description=text)
    add(parser.add_subparsers(required=True, metavar="COMMAND"))
    options = parser.parse_args(arguments)
    return int(options.run(options))


def add_command(commands: Commands, name: str, text: str) -> argparse.ArgumentParser:
    """Add a subcommand, with the same text in both helps."""
    added: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.".replace("%", "%%")
    )
    return added


def add_reading(parser: argparse.ArgumentParser, *, output: str | None = None) -> None:
    """Add the arguments of all commands that read archives."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="archives; braces are expanded, - is standard input",
    )
    if output is None:
        parser.add_argument(
            "-o",
            "--outputs",
            "--output",
            dest="output",
            required=True,
            metavar="OUT",
            help="- is standard output",
        )
    parser.add_argument(
        "--slice", type=parse_slice, metavar="LO:HI:STEP", help="select among all samples"
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


@dataclass(frozen=True)
class Reading:
    """Options for reading archives: `mix` archives in turns, and at most `maxerr` damaged ones.

    `chosen` selects among all samples, and `chosen_of_each` among the samples of each archive.
    """

    urls: Sequence[str]
    chosen: slice | None = None
    chosen_of_each: slice | None = None
    mix: int = 0
    maxerr: int = 0
    allow_commands: bool | None = None

    @classmethod
    def of(cls, arguments: argparse.Namespace, **more: Any) -> Reading:
        """Return the options from the arguments of `add_reading`."""
        urls = [url for pattern in arguments.inputs for url in expand_braces(pattern)]
        return cls(
            urls,
            arguments.slice,
            maxerr=arguments.maxerr,
            allow_commands=arguments.allow_commands,
            **more,
        )


def samples(reading: Reading) -> Iterator[Sample]:
    """Yield the samples: their keys and fields. Raise FormatError if more archives are damaged than tolerated."""
    left = [reading.maxerr]

    def handler(error: Exception) -> bool:
        if left[0] == 0 or isinstance(error, UnsupportedError):
            raise error
        left[0] -= 1
        print(f"WARNING {error}", file=sys.stderr)
        return True

    def one(url: str) -> Iterator[Sample]:
        stream = tarfile_samples([{"url": url}], handler, allow_commands=reading.allow_commands)
        return _sliced(stream, reading.chosen_of_each)

    groups = in_batches(map(one, reading.urls), max(reading.mix, 1))
    mixed = chain.from_iterable(round_robin_longest(*group) for group in groups)
    for sample in _sliced(mixed, reading.chosen):
        yield {field: value for field, value in sample.items() if field not in _OPTIONAL}


def _sliced(found: Iterator[Sample], chosen: slice | None) -> Iterator[Sample]:
    return found if chosen is None else islice(found, chosen.start, chosen.stop, chosen.step)


def renamed(found: Iterable[Sample], spec: str | None) -> Iterator[Sample]:
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


def rekeyed(found: Iterable[Sample], spec: str | None) -> Iterator[Sample]:
    """Replace keys by numbers, if the specification is `#`."""
    for number, sample in enumerate(found):
        yield sample if spec is None else {**sample, "__key__": f"{number:09d}"}


@contextmanager
def archive(output: str, allow_commands: bool | None = None) -> Iterator[TarWriter]:
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
