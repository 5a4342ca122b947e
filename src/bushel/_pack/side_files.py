"""Files beside a packed dataset: the error log, the state of an unfinished run, and older numbers of labels."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bushel._index.sidecar import FOLDER
from bushel._pack.sample_encoder import BadItem
from bushel._runtime.public import public
from bushel.containers import KeepsNames, WritableContainer
from bushel.errors import FormatError, StateError, naming
from bushel.storage import AnyPath, make_workplace, read_text, read_whole, remove, sync_folder, write_whole


def _beside(target: AnyPath, suffix: str) -> AnyPath:
    """Return the path of a file beside a dataset, such as `out/train.rec.errors.jsonl`.

    The file is not in the dataset's folder, where some original readers take every file for a part of the dataset.
    """
    if isinstance(target, Path) and not target.name:
        target = target.resolve()
    return target.parent / f"{target.name}.{suffix}"


@public("bushel.runs")
def error_log_path(target: AnyPath) -> AnyPath:
    """Return the path of the error log: `TARGET.errors.jsonl`.

    Examples:
        >>> str(bushel.runs.error_log_path(Path("train")))
        'train.errors.jsonl'
    """
    return _beside(target, "errors.jsonl")


def error_text(error: BaseException) -> str:
    """Return an error as one line of text."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class ErrorLog:
    """A file with one line for each item that could not be packed. Without errors, the file does not exist.

    Every line has the number of its run, from 1. A later run keeps the lines of earlier ones: it appends a line with
    its number and mode, followed by its own errors.  A line is written before any sample after that item, so after a
    kill the log lists every item that was skipped among the samples that were kept; `sync` makes that true after a
    power cut, too. For a dataset in an object store, the log is written locally and uploaded by `publish` before every
    shard. When a dataset is overwritten, the log is written to the staging folder and `publish` replaces the old log.
    It is in `staging` until it is published; by default, it is written to its final path if that is local.
    """

    def __init__(self, path: AnyPath, *, staging: Path | None = None) -> None:
        self.path = path
        if staging is None and isinstance(path, Path):
            self._file = path
        else:
            self._file = (staging or make_workplace(path)) / "errors.jsonl"
        self._published = staging is None
        self._synced = False  # not even what a killed run has left
        self._run = 1

    def begin(self, mode: str) -> None:
        """Start a run. If there is a log of earlier runs, add a line with the number and the mode of this one."""
        lines = self._lines()
        if not lines:
            self._file.unlink(missing_ok=True)  # a kill or power cut left less than a line
            return
        self._run = _run_of(lines[-1]) + 1
        head = json.dumps({"run": self._run, "mode": mode}) + "\n"
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._file, "".join([*lines, head]).encode("utf-8", "surrogateescape"))
        self._changed()

    def add(self, bad: BadItem) -> None:
        """Add a bad item."""
        with naming(self._file), open(self._file, "ab") as file:
            file.write(error_lines([_entry_of(bad, self._run)]))
        self._synced = False
        self._changed()

    def _changed(self) -> None:
        self._published = self._file is self.path

    def sync(self) -> None:
        """Wait until all lines are on disk."""
        if self._synced:
            return
        self._synced = True
        if self._file.exists():
            with naming(self._file), open(self._file, "rb") as file:
                os.fsync(file.fileno())
            sync_folder(self._file.parent)

    def publish(self) -> None:
        """Write the log to its final path, unless it is there already, and wait until it is on disk."""
        if self._file is self.path:
            self.sync()
        if self._published:
            return
        if self._file.exists():
            write_whole(self.path, read_whole(self._file))
        else:
            remove(self.path)
        self._published = True

    def finish(self) -> None:
        """Publish the log and remove the local copy."""
        self.publish()
        if self._file is not self.path:
            self._file.unlink(missing_ok=True)
            with suppress(OSError):
                self._file.parent.rmdir()

    def resume(self) -> list[int]:
        """Continue the last run. Return the positions of its items, in the order in which they were met.

        Raises:
            FormatError: A line is invalid.
        """
        own = self._own()
        self._run = _run_of(own[0]) if own else 1
        found = []
        for number, line in enumerate(own, 1):
            entry = _entry(line)
            if entry is None or not isinstance(entry.get("position", 0), int):
                raise FormatError(
                    f"line {number} is not an entry of an error log: {line[:80]!r}",
                    file=str(self.path),
                    hint="mode='resume' needs this file unchanged: pack to another target, or use mode='overwrite'",
                )
            if "position" in entry:
                found.append(entry["position"])
        return found

    def keep(self, count: int) -> None:
        """Keep the first entries of this run. The items of the others will be packed again."""
        lines = self._lines()
        if not lines:
            self._file.unlink(missing_ok=True)  # a kill or power cut left less than a line
            return
        own = self._own()
        heads = sum("position" not in (_entry(line) or {}) for line in own)
        kept = lines[: len(lines) - len(own) + heads + count]
        if kept:
            write_whole(self._file, "".join(kept).encode("utf-8", "surrogateescape"))
        else:
            self._file.unlink(missing_ok=True)
        self._changed()

    def _lines(self) -> list[str]:
        """Return the whole lines of the log.

        The last one may have been truncated by a kill, and a power cut may have left zeros in place of lines that were
        never synced. No checkpoint counts on those.
        """
        try:
            text = read_text(self._file if self._file.exists() else self.path)
        except FileNotFoundError:
            return []
        return [f"{line}\n" for line in text.partition("\0")[0].split("\n")[:-1]]

    def _own(self) -> list[str]:
        """Return the lines of the last run."""
        lines = self._lines()
        last = _run_of(lines[-1]) if lines else 1
        return [*itertools.takewhile(lambda line: _run_of(line) == last, reversed(lines))][::-1]


class ErrorList:
    """The error log of a part of a run, kept in memory: the part's record and the run's error log get its lines."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        self.lines: list[str] = []

    def begin(self, mode: str) -> None:
        """Start a run."""

    def add(self, bad: BadItem) -> None:
        """Add a bad item."""
        self.lines.append(json.dumps(_entry_of(bad, 1), default=str))

    def sync(self) -> None:
        """Do nothing: the lines are not in a file."""

    def publish(self) -> None:
        """Do nothing: the record of the part gets the lines."""

    def finish(self) -> None:
        """Do nothing: the record of the part gets the lines."""

    def resume(self) -> list[int]:
        """Return nothing: a part is packed from its beginning."""
        return []

    def keep(self, count: int) -> None:
        """Keep the first entries."""
        del self.lines[count:]


def error_lines(entries: Iterable[Mapping[str, Any]]) -> bytes:
    """Return entries of an error log as lines of JSON."""
    return b"".join(map(_error_line, entries))


def _error_line(entry: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(entry, ensure_ascii=False, default=str).encode("utf-8", "surrogateescape") + b"\n"
    except UnicodeEncodeError:  # a key with half of a surrogate pair
        return json.dumps(entry, default=str).encode() + b"\n"


def _entry_of(bad: BadItem, run: int) -> dict[str, Any]:
    return {
        "run": run,
        "position": bad.position,
        "key": bad.key,
        "path": bad.path,
        "error": error_text(bad.error),
    }


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _run_of(line: str) -> int:
    """Return the number of the run of a line; lines without one are of the first run."""
    run = (_entry(line) or {}).get("run", 1)
    return run if isinstance(run, int) else 1


class PackState:
    """A small file beside an unfinished dataset that describes the run. `finish` removes it.

    Args:
        root: The dataset's folder, or the folder that contains its file.
        name: Name of the file, or empty.
        plan: The arguments that decide which sample is written where.
    """

    def __init__(self, root: AnyPath, name: str, plan: Mapping[str, Any]) -> None:
        self.path = root / FOLDER / f"{name or 'dataset'}.pack.json"
        self._plan = dict(plan)

    def begin(self, first: int) -> None:
        """Record that the samples of this run start at position `first` of the dataset."""
        write_whole(self.path, json.dumps({"first": first, **self._plan}).encode())

    def first(self) -> int | None:
        """Return the position in the dataset of the first sample of this run; None if no run is unfinished.

        Raises:
            StateError: The file describes another run.
        """
        try:
            noted = json.loads(read_whole(self.path))
        except FileNotFoundError:  # finished, or never begun
            return None
        except ValueError as error:
            raise StateError(f"{self.path} is damaged: pack to another target, or use mode='overwrite'") from error
        first = noted.pop("first")
        for name, value in self._plan.items():
            if name == "source" and noted.get(name) != value:
                raise StateError(
                    "the interrupted run packed another source, or files of the source have changed since. Resume with "
                    "the same source, or use mode='overwrite'"
                )
            if noted.get(name) != value:
                raise StateError(
                    f"the interrupted run had {name}={noted.get(name)}, but this call has {name}={value}. Resume with "
                    "the same arguments, or use mode='overwrite'"
                )
        return int(first)

    def finish(self) -> None:
        """Remove the file."""
        remove(self.path)
        if isinstance(self.path, Path):
            folder = self.path.parent
            with suppress(OSError):  # the folder holds sidecars, or another dataset is being written
                folder.rmdir()
            sync_folder(folder if folder.exists() else folder.parent)


def labels_path(target: AnyPath, container: WritableContainer) -> AnyPath:
    """Return the path of the numbers of classes: in the dataset, if the original tool keeps them there; else beside it.

    Only GulpIO and older versions of Bushel number the classes there.
    """
    if isinstance(container, KeepsNames) and not (container.suffix and target.name.endswith(container.suffix)):
        return target / container.names_file
    return _beside(target, "label2idx.json")


@public("bushel.runs")
def load_labels(path: AnyPath) -> dict[str, int]:
    """Return the numbers of label names in a file; empty if the file does not exist.

    Raises:
        FormatError: The file is malformed.

    Examples:
        >>> size = Path("labels.json").write_text('{"cat": 0, "dog": 1}')
        >>> bushel.runs.load_labels(Path("labels.json"))
        {'cat': 0, 'dog': 1}
    """
    try:
        labels = json.loads(read_whole(path))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise FormatError(f"invalid JSON: {error}", file=str(path)) from error
    if not isinstance(labels, dict) or not all(type(number) is int for number in labels.values()):
        raise FormatError("expected a map of label names to whole numbers", file=str(path))
    return labels
