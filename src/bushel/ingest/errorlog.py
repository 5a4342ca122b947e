"""What a pack run leaves beside its dataset: the items that could not be packed, and what `resume` goes on from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bushel.core.index.sidecar import FOLDER
from bushel.errors import FormatError, StateError, naming
from bushel.ingest.prepare import Bad
from bushel.storage import AnyPath, make_workplace, read_text, read_whole, remove, write_whole

__all__ = ["ErrorLog", "PackState", "beside", "reason"]


def beside(target: AnyPath, suffix: str) -> AnyPath:
    """A file beside a dataset: `out/train.rec` and `errors.jsonl` give `out/train.rec.errors.jsonl`.

    It cannot lie in the dataset's folder, where some original readers take every file for a part of the dataset.
    """
    if isinstance(target, Path) and not target.name:
        target = target.resolve()
    return target.parent / f"{target.name}.{suffix}"


def reason(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class ErrorLog:
    """A file with a line for each item that could not be packed. Without errors there is none.

    A line is on its way to the disk before any sample behind that item, so after a kill the log knows of every item
    that was passed over among the samples that were kept. Beside a dataset that is not local, it is written on this
    machine, and uploaded by `publish`, before every shard.

    Args:
        path: Where it is to be.
    """

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        self._file = path if isinstance(path, Path) else make_workplace(path) / "errors.jsonl"
        self._published = True

    def clear(self) -> None:
        """Begin anew."""
        self._file.unlink(missing_ok=True)
        self.publish_later()
        self.publish()

    def add(self, bad: Bad) -> None:
        """Note an item."""
        line = {"position": bad.position, "key": bad.key, "path": bad.path, "error": reason(bad.error)}
        with naming(self._file), open(self._file, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
        self.publish_later()

    def publish_later(self) -> None:
        """Note that the file was changed."""
        self._published = self._file is self.path

    def publish(self) -> None:
        """See to it that what was noted is where it is to be."""
        if self._published:
            return
        if self._file.exists():
            write_whole(self.path, self._file.read_bytes())
        else:
            remove(self.path)
        self._published = True

    def finish(self) -> None:
        """Publish it, and leave nothing on this machine where it does not belong there."""
        self.publish()
        if self._file is not self.path:
            self._file.unlink(missing_ok=True)
            with suppress(OSError):
                self._file.parent.rmdir()

    def positions(self) -> list[int]:
        """The positions of the items that are noted, in the order in which they were met.

        Raises:
            FormatError: A line is no such line; the last one may have been cut by a kill.
        """
        try:
            lines = read_text(self._file if self._file.exists() else self.path).split("\n")
        except FileNotFoundError:
            return []
        found = []
        for number, line in enumerate(lines[:-1], 1):
            try:
                found.append(int(json.loads(line)["position"]))
            except (ValueError, KeyError, TypeError) as error:
                raise FormatError(
                    f"line {number} is no error that was noted: {line[:80]!r}",
                    file=str(self.path),
                    hint="resume needs this file as it was: pack anew with another target",
                ) from error
        return found

    def keep(self, count: int) -> None:
        """Keep the first lines only: what comes behind is met again."""
        try:
            text = read_text(self._file if self._file.exists() else self.path)
        except FileNotFoundError:
            return
        if lines := text.splitlines(keepends=True)[:count]:
            write_whole(self._file, "".join(lines).encode("utf-8", "surrogateescape"))
        else:
            self._file.unlink(missing_ok=True)
        self.publish_later()


class PackState:
    """A small file beside an unfinished dataset that says what is being packed into it; gone when it is finished.

    Args:
        root: The folder of the dataset, or the one in which its file lies.
        name: Name of the one file, or empty.
        plan: What decides which sample comes where.
    """

    def __init__(self, root: AnyPath, name: str, plan: Mapping[str, Any]) -> None:
        self._path = root / FOLDER / f"{name or 'dataset'}.pack.json"
        self._plan = dict(plan)

    def begin(self, first: int) -> None:
        """Note that samples of this plan come from position `first` of the dataset on."""
        write_whole(self._path, json.dumps({"first": first, **self._plan}).encode())

    def first(self) -> int:
        """From which position of the dataset on its samples are of this plan.

        Raises:
            StateError: Another plan was begun.
        """
        try:
            noted = json.loads(read_whole(self._path))
        except FileNotFoundError:  # finished, or never begun
            return 0
        except ValueError as error:
            raise StateError(f"{self._path} is damaged: pack anew with another target") from error
        first = noted.pop("first")
        for name, value in self._plan.items():
            if noted.get(name) != value:
                raise StateError(f"this was begun with {name} {noted.get(name)}, and cannot go on with {value}")
        return int(first)

    def finish(self) -> None:
        """Take the file away."""
        remove(self._path)
        if isinstance(self._path, Path):
            with suppress(OSError):  # sidecars live there, or another dataset is being made
                self._path.parent.rmdir()
