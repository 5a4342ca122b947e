"""Files beside a packed dataset: the error log and the record of the run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bushel._dataset.open.completeness import place_of
from bushel._index.shard import FOLDER
from bushel._runtime.public import public
from bushel.errors import FormatError, StateError, naming
from bushel.storage import (
    AnyPath,
    below,
    make_workplace,
    read_whole,
    remove,
    remove_empty,
    sync_nearest,
    sync_whole,
    write_whole,
)

from .encoder import BadItem

_RUN = re.compile(rb'^\{"run": (\d+)', re.MULTILINE)
"""The beginning of a line of the error log, with the number of its run."""


@public("bushel.runs")
def error_log_path(target: AnyPath) -> AnyPath:
    """Return the path of the error log: `TARGET.errors.jsonl`.

    It is not in the dataset's folder, where some original readers take every file for a part of the
    dataset.

    Examples:
        >>> str(bushel.runs.error_log_path(Path("train")))
        'train.errors.jsonl'
    """
    if isinstance(target, Path) and not target.name:
        target = target.resolve()
    return target.parent / f"{target.name}.errors.jsonl"


def error_text(error: BaseException) -> str:
    """Return an error as one line of text, with its notes, such as the transform that raised it."""
    notes = [f"({note})" for note in getattr(error, "__notes__", ())]
    text = " ".join(" ".join([str(error), *notes]).split())
    return ": ".join(filter(None, [type(error).__name__, text]))


class ErrorLog:
    """A file with one line for each item that could not be packed. Without errors, the file does not exist.

    Every line has the number of its run, from 1. A later run keeps the lines of earlier ones: it
    appends a line with its number and mode, followed by its own errors. The record of the run
    (`RunRecord`) says how many bytes of it belong to published shards. For a dataset in an object
    store, the log is written locally and uploaded by `publish` before every shard. When a dataset
    is overwritten, the log is written to the staging folder and `publish` replaces the old log. It
    is in `staging` until it is published; by default, it is written to its final path if that is
    local.

    Attributes:
        path: The final path.
        run: Number of the run.
        size: Number of bytes.
    """

    def __init__(self, path: AnyPath, *, staging: Path | None = None) -> None:
        self.path = path
        if staging is None and isinstance(path, Path):
            self._file = path
        else:
            self._file = (staging or make_workplace(path)) / "errors.jsonl"
        self._synced = False
        self.run, self.size = 1, 0

    def begin(self, mode: str) -> None:
        """Start a run. If there is a log of earlier runs, add a line with the number and the mode of this one."""
        earlier = self._whole_lines()
        if earlier:
            *_, last = [b"1", *_RUN.findall(earlier)]
            self.run = int(last) + 1
            earlier += json.dumps({"run": self.run, "mode": mode}).encode() + b"\n"
        self._write(earlier)

    def resume(self, run: int, size: int) -> None:
        """Go on with a run that had written `size` bytes.

        Raises:
            FormatError: The file is shorter.
        """
        lines = self._whole_lines()
        if len(lines) < size:
            raise FormatError(
                f"the interrupted run had written {size} bytes of it, and {len(lines)} are there",
                self.path,
                hint=(
                    "mode='resume' needs this file unchanged: pack "
                    "to another target, or use mode='overwrite'"
                ),
            )
        self.run = run
        self._write(lines[:size])

    def _whole_lines(self) -> bytes:
        """Return the whole lines of the log. The last one may have been cut by a kill or a power cut."""
        try:
            text = read_whole(self.path)
        except FileNotFoundError:
            return b""
        text = text.partition(b"\0")[0]
        return text[: text.rfind(b"\n") + 1]

    def _write(self, lines: bytes) -> None:
        self.size = len(lines)
        if lines:
            write_whole(self._file, lines)
        else:
            self._file.unlink(missing_ok=True)
        self._synced = self._file is self.path

    def add(self, bad: BadItem) -> None:
        """Add a bad item."""
        line = error_lines([_entry_of(bad, self.run)])
        with naming(self._file), open(self._file, "ab") as file:
            file.write(line)
        self.size += len(line)
        self._synced = False

    def publish(self) -> None:
        """Write the log to its final path, unless it is there already, and wait until it is on disk."""
        if self._synced:
            return
        if self._file is self.path:
            if self.size:
                sync_whole(self._file)
        elif self.size:
            write_whole(self.path, read_whole(self._file))
        else:
            remove(self.path)
        self._synced = True

    def finish(self) -> None:
        """Publish the log and remove the local copy."""
        self.publish()
        if self._file is not self.path:
            self._file.unlink(missing_ok=True)
            remove_empty(self._file.parent)


class ErrorList:
    """The errors of a part of a run, in memory: the part's record and the run's error log get the lines."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        self.lines: list[str] = []

    def add(self, bad: BadItem) -> None:
        """Add a bad item."""
        self.lines.append(json.dumps(_entry_of(bad, 1), default=str))


def error_lines(entries: Iterable[Mapping[str, Any]]) -> bytes:
    """Return entries of an error log as lines of JSON."""
    return b"".join(map(_error_line, entries))


def _error_line(entry: Mapping[str, Any]) -> bytes:
    try:
        line = json.dumps(entry, ensure_ascii=False, default=str)
        return f"{line}\n".encode("utf-8", "surrogateescape")
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


DigestOfItems = Callable[[int, int, int], int]
"""Returns a digest of the items of a run from one number up to another, continued from that of the items before."""


class RunEnd(msgspec.Struct, frozen=True):
    """The end of the published shards of a run, or of those with the one that is being published."""

    samples: int  # samples in the dataset
    errors: int = 0  # items of this run that could not be packed
    log: int = 0  # bytes of the error log
    digest: int = 0  # of the items of this run, if the source has no fingerprint of its own


class _Noted(msgspec.Struct, frozen=True):
    """The content of the record."""

    first: int  # samples that the dataset had before
    ends: list[RunEnd]
    plan: dict[str, Any]
    run: int = 1  # number of the run in the error log
    finished: bool = False


class RunRecord:
    """A small file beside a dataset: the source of its samples, and the items that they are.

    It is written before each shard is published, with the end before the shard and the end after
    it. So it holds whether the shard was published or not. When the run has finished it stays, and
    says so.

    Args:
        path: The path of the file.
        plan: The arguments that decide which sample is written where.
        log: The error log of the run.
        digest_of: A digest of the items that the plan calls `compared`.
    """

    def __init__(
        self, path: AnyPath, plan: Mapping[str, Any], log: ErrorLog, digest_of: DigestOfItems
    ) -> None:
        self.path, self.log, self._digest_of = path, log, digest_of
        self._plan, self._known = dict(plan), _Noted(0, [RunEnd(0)], dict(plan))

    def begin(self, first: int, end: RunEnd | None = None) -> None:
        """Note that this run begins, or goes on, after `first` samples of other runs."""
        end = end or RunEnd(first, 0, self.log.size)
        self._known = _Noted(first, [end], self._plan, self.log.run)
        self._save()

    def note(self, samples: int, errors: int) -> None:
        """Note the end of a shard that is about to be published."""
        ends = [*self._known.ends[-1:], self._end(samples, errors)]
        self._known = msgspec.structs.replace(self._known, ends=ends)
        self._save()

    def finish(self, samples: int, errors: int) -> None:
        """Note that the run has finished, and publish its error log."""
        self.log.finish()
        ends = [self._end(samples, errors)]
        self._known = msgspec.structs.replace(self._known, ends=ends, finished=True)
        self._save()

    def _end(self, samples: int, errors: int) -> RunEnd:
        first, before = self._known.first, self._known.ends[-1]
        items_before = before.samples - first + before.errors
        digest = self._digest_of(items_before, samples - first + errors, before.digest)
        return RunEnd(samples, errors, self.log.size, digest)

    def remove(self) -> None:
        """Remove the file: nothing was written."""
        remove(self.path)
        if isinstance(self.path, Path):
            remove_empty(self.path.parent)
            sync_nearest(self.path.parent)

    def _save(self) -> None:
        write_whole(self.path, msgspec.json.encode(self._known))

    def load(self, samples: int) -> tuple[_Noted, RunEnd] | None:
        """Return the record and the end of the published shards of a dataset with this number of samples.

        Returns:
            None without a record, or if others have added samples since.

        Raises:
            StateError: The file describes another run.
        """
        try:
            noted = _RECORD.decode(read_whole(self.path))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise StateError(
                f"{self.path} is damaged: pack to another target, or use mode='overwrite'"
            ) from error
        end = next((end for end in reversed(noted.ends) if end.samples == samples), None)
        if end is None:
            return None
        state = "finished" if noted.finished else "interrupted"
        digest = self._digest_of(0, end.samples - noted.first + end.errors, 0)
        recorded = {**noted.plan, "digest": end.digest}
        others = {
            "source": "another source, or files of the source have changed since",
            "digest": f"other samples ({self._plan.get('compared')} were compared)",
        }
        for name, value in {**self._plan, "digest": digest}.items():
            before = recorded.get(name)
            if before == value:
                continue
            what = f"the {state} run had {name}={before}, but this call has {name}={value}"
            advice = "Resume with the same arguments"
            if name in others:
                what = f"the {state} run packed {others[name]}"
                advice = "Resume with the same source"
                if noted.finished:
                    advice = "mode='append' adds the samples of this source"
            raise StateError(f"cannot resume: {what}. {advice}, or use mode='overwrite'")
        return noted, end


_RECORD = msgspec.json.Decoder(_Noted)


def record_path(target: AnyPath, *, single: bool) -> AnyPath:
    """Return the path of the record of a run that writes a folder or a single file: see `RunRecord`."""
    root, name = place_of(target, single=single)
    return below(root, f"{FOLDER}/{name or 'dataset'}.pack.json", any_text=True)
