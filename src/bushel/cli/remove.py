"""`bushel remove`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any

import click

from bushel._runtime.structs import Struct
from bushel.cli.command import Option
from bushel.cli.options import IndexPlace, OnePath, OutputOptions

if TYPE_CHECKING:
    from bushel.integrity.erasing import Erasure
    from bushel.integrity.removing import Removal


class ChoiceOptions(Struct, frozen=True):
    """Options that choose the samples to remove."""

    keys: Annotated[
        str | None, Option("--keys", help="Remove samples with the keys in a file, one per line; - for standard input.")
    ] = None
    where: Annotated[
        str | None, Option("--where", help="Remove samples for which this is true, such as \"label == 'dog'\".")
    ] = None
    position: Annotated[
        list[int] | None, Option("--position", help="Remove the sample at this position; may be repeated.")
    ] = None

    @property
    def given(self) -> list[str]:
        """The names of the options that are given."""
        values = {"--keys": self.keys is not None, "--where": self.where is not None, "--position": self.position}
        return [name for name, value in values.items() if value]


class CallOptions(Struct, frozen=True):
    """Options for earlier calls that removed samples, and for the bytes of these samples."""

    listed: Annotated[bool, Option("--list", help="List the calls that removed samples.")] = False
    undo: Annotated[bool, Option("--undo", help="Take back the last call, or the one of --call.")] = False
    erase: Annotated[
        bool,
        Option(
            "--erase",
            help="Overwrite the bytes of removed samples in local files: the given ones, the ones of --call, or all.",
        ),
    ] = False
    call: Annotated[int | None, Option("--call", min=0, help="Number of the call, as --list prints it.")] = None

    @property
    def given(self) -> list[str]:
        """The names of the options that are given, of `--list` and `--undo`."""
        return [*(["--list"] if self.listed else []), *(["--undo"] if self.undo else [])]


def command(
    path: OnePath,
    *,
    choice: ChoiceOptions,
    reason: Annotated[str | None, Option("--reason", help="Reason, kept in the list and shown in errors.")] = None,
    ignore_missing: Annotated[bool, Option("--ignore-missing", help="Leave out keys that no sample has.")] = False,
    calls: CallOptions,
    index: IndexPlace = None,
    shown: OutputOptions,
) -> None:
    """Remove samples from a dataset, or restore them.

    Everything that reads the dataset through Bushel passes over them from then on. Without --erase, no data file is
    changed: the tools that wrote the files still see the samples. --erase overwrites their bytes where they are, and
    cannot be taken back; `bushel verify` checks it. It can be repeated if it was interrupted. In object stores, and in
    files that Bushel does not write, `bushel convert` writes a dataset without the samples.

    Examples:
      bushel remove train/ --keys opt-out.txt --reason "opt-out of March"
      bushel remove train/ --where "image.width < 64" --reason "too small"
      bushel remove train/ --list
      bushel remove train/ --undo
      bushel remove train/ --keys opt-out.txt --reason "opt-out of May" --erase
      bushel remove train/ --erase
    """
    call, erase = calls.call, calls.erase
    _check_choice([*choice.given, *calls.given], call, erase=erase)
    import bushel
    from bushel.cli.output import count, print_json, print_text

    place: Any = "auto" if index is None else index
    if calls.listed:
        removals = bushel.removals(path, index=place)
        if shown.as_json:
            print_json([asdict(one) for one in removals])
        else:
            print_text("\n".join(map(_line, removals)) or "no samples were removed")
        return
    what: list[str] = []
    facts: dict[str, Any] = {}
    if calls.undo:
        done = bushel.restore(path, call=call, index=place)
        facts = asdict(done)
        what.append(f"{count(done.samples, 'sample')} restored, removed on {_day(done)} ({done.reason})")
    elif choice.given:
        done = _removed(path, choice, reason, place, ignore_missing=ignore_missing)
        facts = asdict(done)
        what.append(f"{count(done.samples, 'sample')} removed")
        call = done.call
    erased = None
    if erase and (not choice.given or facts["samples"]):
        erased = bushel.erase(path, call=call, index=place)
        facts |= {"erasure": asdict(erased)}
        what += _said(erased)
    if shown.as_json:
        print_json(facts)
    elif not shown.quiet:
        print_text("\n".join(f"{path}: {line}" for line in what))
    if erased is not None and erased.partly:
        raise click.exceptions.Exit(1)


def _check_choice(given: list[str], call: int | None, *, erase: bool) -> None:
    """Check that the options go together. Raise BadParameter if they do not."""
    if len(given) != 1 and (given or not erase):
        raise click.BadParameter(
            "give exactly one of --keys, --where, --position, --list and --undo; or --erase", param_hint="--keys"
        )
    if erase and given in (["--list"], ["--undo"]):
        raise click.BadParameter("it cannot be combined with --list and --undo", param_hint="--erase")
    if call is not None and given != ["--undo"] and (given or not erase):
        raise click.BadParameter("it needs --undo, or --erase alone", param_hint="--call")


def _removed(path: str, choice: ChoiceOptions, reason: str | None, index: Any, *, ignore_missing: bool) -> Removal:
    """Remove the chosen samples. Raise BadParameter if the reason is missing, or the file of keys cannot be read."""
    import bushel

    if not reason:
        raise click.BadParameter('give a reason, such as --reason "opt-out"', param_hint="--reason")
    return bushel.remove(
        path,
        keys=None if choice.keys is None else _lines(choice.keys, str(path)),
        where=choice.where,
        positions=choice.position or None,
        reason=reason,
        ignore_missing=ignore_missing,
        index=index,
    )


def _said(erased: Erasure) -> list[str]:
    from bushel.cli.output import count, size

    said = [f"{count(erased.samples, 'sample')} erased, {size(erased.bytes)} overwritten"]
    if erased.partly:
        said.append(f"{count(erased.partly, 'sample')} erased in part only:")
        said += [f"  {why}" for why in erased.left]
        said.append("`bushel convert` writes the dataset without them; delete the old files then")
    said.append("their keys remain: in the index, in names of members, in views and logs")
    return said


def _lines(name: str, path: str) -> list[str]:
    try:
        text = sys.stdin.read() if name == "-" else FilePath(name).read_text("utf-8", "surrogateescape")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        what = "a folder" if FilePath(name).is_dir() else "not a file"
        raise click.BadParameter(
            f"{name} is {what}, and --keys takes a file with one key per line; if it is a key: "
            f"echo {shlex.quote(name)} | bushel remove {shlex.quote(path)} --keys -",
            param_hint="--keys",
        ) from error
    return [line for line in text.splitlines() if line]


def _day(removal: Removal) -> str:
    return datetime.fromtimestamp(removal.time, UTC).strftime("%Y-%m-%d")


def _line(removal: Removal) -> str:
    erased = f", {removal.erased:,} erased" if removal.erased else ""
    return f"{removal.call}  {_day(removal)}  {removal.samples:,}{erased}  {removal.reason}"
