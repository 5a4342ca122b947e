"""What a pack run leaves beside its dataset: the items that could not be packed, and what `resume` goes on from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bushel.errors import FormatError, StateError
from bushel.ingest.prepare import Bad
from bushel.sidecar import FOLDER

__all__ = ["ErrorLog", "PackState", "beside", "reason"]


def beside(target: Path, suffix: str) -> Path:
    """A file beside a dataset: `out/train.rec` and `errors.jsonl` give `out/train.rec.errors.jsonl`.

    It cannot lie in the dataset's folder, where some original readers take every file for a part of the dataset.
    """
    target = target if target.name else target.resolve()
    return target.with_name(f"{target.name}.{suffix}")


def reason(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class ErrorLog:
    """A file with a line for each item that could not be packed. Without errors there is none.

    A line is on its way to the disk before any sample behind that item, so after a kill the log knows of every item
    that was passed over among the samples that were kept.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def clear(self) -> None:
        """Begin anew."""
        self.path.unlink(missing_ok=True)

    def add(self, bad: Bad) -> None:
        """Note an item."""
        line = {"position": bad.position, "key": bad.key, "path": bad.path, "error": reason(bad.error)}
        with open(self.path, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")

    def positions(self) -> list[int]:
        """The positions of the items that are noted, in the order in which they were met.

        Raises:
            FormatError: A line is no such line; the last one may have been cut by a kill.
        """
        try:
            lines = self.path.read_text("utf-8", errors="surrogateescape").split("\n")
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
        if not self.path.exists():
            return
        lines = self.path.read_text("utf-8", errors="surrogateescape").splitlines(keepends=True)[:count]
        if lines:
            self.path.write_text("".join(lines), "utf-8", errors="surrogateescape")
        else:
            self.path.unlink()


class PackState:
    """A small file beside an unfinished dataset that says what is being packed into it; gone when it is finished.

    Args:
        root: The folder of the dataset, or the one in which its file lies.
        name: Name of the one file, or empty.
        plan: What decides which sample comes where.
    """

    def __init__(self, root: Path, name: str, plan: Mapping[str, Any]) -> None:
        self._path = root / FOLDER / f"{name or 'dataset'}.pack.json"
        self._plan = dict(plan)

    def begin(self, first: int) -> None:
        """Note that samples of this plan come from position `first` of the dataset on."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps({"first": first, **self._plan}), "utf-8")
        part.replace(self._path)

    def first(self) -> int:
        """From which position of the dataset on its samples are of this plan.

        Raises:
            StateError: Another plan was begun.
        """
        try:
            noted = json.loads(self._path.read_text("utf-8"))
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
        self._path.unlink(missing_ok=True)
        with suppress(OSError):  # sidecars live there, or another dataset is being made
            self._path.parent.rmdir()
