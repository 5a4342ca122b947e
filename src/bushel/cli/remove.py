"""`bushel remove`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from msgspec import Struct

import bushel
from bushel._runtime.messages import day

from .options import IndexPlace, OnePath, OutputOptions
from .output import count, size, wrong_option

if TYPE_CHECKING:
    from bushel.integrity.erasing import Erasure
    from bushel.integrity.removing import Removal


class ChoiceOptions(Struct, frozen=True):
    """Options that choose the samples to remove.

    Attributes:
        keys: Remove samples with the keys in a file, one per line; - for standard input.
        where: Remove samples for which this is true, such as "label == 'dog'".
        position: Remove the sample at this position; may be repeated.
    """

    keys: str | None = None
    where: str | None = None
    position: list[int] | None = None


class CallOptions(Struct, frozen=True):
    """Options for earlier calls that removed samples, and for the bytes of these samples.

    Attributes:
        list: List the calls that removed samples.
        undo: Undo a call, by the id of --list.
        erase: Write the local files again without removed samples: the given ones, the ones of
            --call, or all.
        call: Id of the call to erase, as --list prints it.
    """

    list: bool = False
    undo: str | None = None
    erase: bool = False
    call: str | None = None


def remove(
    path: OnePath,
    *,
    choice: ChoiceOptions,
    reason: str | None = None,
    ignore_missing: bool = False,
    calls: CallOptions,
    index: IndexPlace = "auto",
    shown: OutputOptions,
) -> bool:
    """Remove samples from a dataset, or restore them.

    Everything that reads the dataset through Bushel skips them from then on. Without --erase,
    no data file is changed: the tools that wrote the files still see the samples. --erase writes
    the shards that hold them again without them, and cannot be undone. It can be repeated if it
    was interrupted. In object stores, and in files that Bushel does not write, `bushel convert`
    writes a dataset without the samples.

    Options:
        reason: Reason, kept in the list and shown in errors.
        ignore_missing: Leave out keys that no sample has.

    Examples:
      bushel remove train/ --keys opt-out.txt --reason "opt-out of March"
      bushel remove train/ --where "image.width < 64" --reason "too small"
      bushel remove train/ --list
      bushel remove train/ --undo 40718352
      bushel remove train/ --keys opt-out.txt --reason "opt-out of May" --erase
      bushel remove train/ --erase
    """
    call, erase = calls.call, calls.erase
    options = {
        "--keys": choice.keys,
        "--where": choice.where,
        "--position": choice.position,
        "--list": calls.list or None,
        "--undo": calls.undo,
    }
    chosen = [name for name, value in options.items() if value is not None]
    _check_choice(chosen, call, erase=erase)
    removes = chosen in (["--keys"], ["--where"], ["--position"])

    if calls.list:
        removals = bushel.removals(path, index=index)
        lines = [*map(_line, removals)] or ["no samples were removed"]
        OutputOptions(shown.as_json).show(removals, *lines)
        return True
    what: list[str] = []
    facts: dict[str, Any] = {}
    if calls.undo is not None:
        result = bushel.restore(path, calls.undo, index=index)
        facts = asdict(result)
        what.append(f"{count(result.samples, 'sample')} restored{_of_call(result)}")
    elif removes:
        result = _removed(path, choice, reason, index, ignore_missing=ignore_missing)
        facts = asdict(result)
        what.append(f"{count(result.samples, 'sample')} removed")
        call = result.call
    erased = None
    if erase and (not removes or facts["samples"]):
        erased = bushel.erase(path, call=call, index=index)
        facts["erasure"] = erased
        what += _said(erased)
    shown.show(facts, *(f"{path}: {line}" for line in what))
    return erased is None or not erased.left


def _check_choice(given: list[str], call: str | None, *, erase: bool) -> None:
    """Check that the options go together. Raise BadParameter if they do not."""
    if len(given) != 1 and (given or not erase):
        raise wrong_option(
            "--keys",
            "give exactly one of --keys, --where, --position, --list and --undo; or --erase",
        )
    if erase and given in (["--list"], ["--undo"]):
        raise wrong_option("--erase", "it cannot be combined with --list and --undo")
    if call is not None and (given or not erase):
        raise wrong_option("--call", "it needs --erase, and nothing else")


def _removed(
    path: str, choice: ChoiceOptions, reason: str | None, index: Any, *, ignore_missing: bool
) -> Removal:
    """Remove the chosen samples. Raise BadParameter if the reason is missing, or the file of keys cannot be read."""
    if not reason:
        raise wrong_option("--reason", 'give a reason, such as --reason "opt-out"')
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
    said = [
        f"{count(erased.samples, 'sample')} erased: {count(erased.shards, 'shard')} written again"
    ]
    if erased.bytes > 0:
        said[0] += f", {size(erased.bytes)} less"
    said += [f"{name} has other names (hard links), which keep the bytes" for name in erased.left]
    said.append("their keys remain in the list, in views and in logs")
    return said


def _lines(name: str, path: str) -> list[str]:
    try:
        if name == "-":
            data = sys.stdin.buffer.read()
        else:
            data = FilePath(name).read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        what = "a folder" if FilePath(name).is_dir() else "not a file"
        raise wrong_option(
            "--keys",
            f"{name} is {what}, and --keys takes a file with one key per line; if it is a "
            f"key: echo {shlex.quote(name)} | bushel remove {shlex.quote(path)} --keys -",
        ) from error
    # other line ends may be parts of keys
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return [key for line in lines if (key := line.removesuffix("\r"))]


def _of_call(removal: Removal) -> str:
    if not removal.reason:
        return ": no such call is in force"
    return f", removed on {day(removal.time)} ({removal.reason}){_missing(removal)}"


def _line(removal: Removal) -> str:
    samples = f"{removal.samples:,}{_missing(removal)}"
    return f"{removal.call}  {day(removal.time)}  {samples}  {removal.reason}"


def _missing(removal: Removal) -> str:
    return f" ({removal.missing:,} more are not stored any more)" * bool(removal.missing)
