"""`bushel remove`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any

import click

from bushel.cli.command import Option
from bushel.cli.options import OnePath, OutputOptions

if TYPE_CHECKING:
    from bushel.integrity.removing import Removal

__all__ = ["command"]


def command(
    path: OnePath,
    *,
    keys: Annotated[
        str | None, Option("--keys", help="Remove samples with the keys in a file, one per line; - for standard input.")
    ] = None,
    where: Annotated[
        str | None, Option("--where", help="Remove samples for which this is true, such as \"label == 'dog'\".")
    ] = None,
    position: Annotated[
        list[int] | None, Option("--position", help="Remove the sample at this position; may be repeated.")
    ] = None,
    reason: Annotated[str | None, Option("--reason", help="Why: kept in the list, and shown in errors.")] = None,
    ignore_missing: Annotated[bool, Option("--ignore-missing", help="Leave out keys that no sample has.")] = False,
    listed: Annotated[bool, Option("--list", help="List the calls that removed samples.")] = False,
    undo: Annotated[bool, Option("--undo", help="Take back the last call, or that of --call.")] = False,
    call: Annotated[int | None, Option("--call", min=0, help="Number of the call, as --list prints it.")] = None,
    index: Annotated[
        str | None, Option("--index", help="The folder of the index, if that is not the folder of the data.")
    ] = None,
    shown: OutputOptions,
) -> None:
    """Remove samples from a dataset, or take that back.

    Everything that reads the dataset through Bushel passes over them from then on. No data file is changed: the tools
    that wrote the files still see the samples. `bushel convert` writes a dataset without them.

    Examples:
      bushel remove train/ --keys opt-out.txt --reason "opt-out of March"
      bushel remove train/ --where "image.width < 64" --reason "too small"
      bushel remove train/ --list
      bushel remove train/ --undo
    """
    ways = [keys is not None, where is not None, bool(position), listed, undo]
    if sum(ways) != 1:
        raise click.BadParameter(
            "give exactly one of --keys, --where, --position, --list and --undo", param_hint="--keys"
        )
    if call is not None and not undo:
        raise click.BadParameter("it goes with --undo", param_hint="--call")
    import bushel
    from bushel.cli.output import count, print_json, print_text

    place: Any = "auto" if index is None else index
    if listed:
        calls = bushel.removals(path, index=place)
        if shown.as_json:
            print_json([asdict(one) for one in calls])
        else:
            print_text("\n".join(map(_line, calls)) or "no samples were removed")
        return
    if undo:
        done = bushel.restore(path, call=call, index=place)
        what = f"{count(done.samples, 'sample')} restored, removed on {_day(done)} ({done.reason})"
    else:
        if not reason:
            raise click.BadParameter('say why, such as --reason "opt-out"', param_hint="--reason")
        done = bushel.remove(
            path,
            keys=None if keys is None else _lines(keys),
            where=where,
            positions=position or None,
            reason=reason,
            ignore_missing=ignore_missing,
            index=place,
        )
        what = f"{count(done.samples, 'sample')} removed"
    if shown.as_json:
        print_json(asdict(done))
    elif not shown.quiet:
        print_text(f"{path}: {what}")


def _lines(name: str) -> list[str]:
    text = sys.stdin.read() if name == "-" else FilePath(name).read_text("utf-8", "surrogateescape")
    return [line for line in text.splitlines() if line]


def _day(removal: Removal) -> str:
    return datetime.fromtimestamp(removal.time, UTC).strftime("%Y-%m-%d")


def _line(removal: Removal) -> str:
    erased = f", {removal.erased:,} erased" if removal.erased else ""
    return f"{removal.call}  {_day(removal)}  {removal.samples:,}{erased}  {removal.reason}"
