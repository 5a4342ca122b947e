"""A verification in the background, and its findings so far."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bushel._runtime.progress import Progress
from bushel.viewer.shelf import Shown, plain_text

if TYPE_CHECKING:
    from bushel.integrity import Problem, VerifyResult

_LISTED = 200  # number of problems that are shown


class _Stopped(Exception):
    """Ends the run from inside: its progress callback raises it."""


@dataclass
class Verification:
    """The check of a dataset, in a thread of its own."""

    state: str = "idle"  # `idle`, `running`, `done`, `failed` or `stopped`
    result: VerifyResult | None = None  # the result, once it is done
    error: str = ""  # why it failed
    _progress: Progress | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, shown: Shown) -> None:
        """Start the verification, unless it is running."""
        with self._lock:
            if self.state == "running":
                return
            self.state, self.result, self.error, self._progress = "running", None, "", None
            self._stop.clear()
        threading.Thread(target=self._run, args=(shown,), name="bushel-verify", daemon=True).start()

    def stop(self) -> None:
        """Stop the verification soon. Its result is lost."""
        self._stop.set()

    def _run(self, shown: Shown) -> None:
        from bushel.integrity import verify  # which imports much that pages do not need

        try:
            self.result = verify(shown.source, max_problems=_LISTED, progress=self._tell)
            self.state = "done"
        except _Stopped:
            self.state = "stopped"
        except Exception as error:  # shown on the page; the thread has no caller to raise it to
            self.error, self.state = plain_text(str(error) or type(error).__name__), "failed"

    def _tell(self, progress: Progress) -> None:
        if self._stop.is_set():
            raise _Stopped
        self._progress = progress

    def summary(self, shown: Shown) -> dict[str, Any]:
        """Return its state as JSON values: bytes done, verdict, and problems with the positions of their samples."""
        now, result = self._progress, self.result
        summary: dict[str, Any] = {
            "state": self.state,
            "error": self.error,
            "done": now.done if now else 0,
            "total": (now.total or 0) if now else 0,
            "errors": now.errors if now else 0,
        }
        if result is not None:
            summary["verdict"] = result.verdict
            summary["ok"] = result.ok
            summary["checked"] = result.bytes_checked
            summary["more"] = result.more
            summary["problems"] = [_problem(shown, problem) for problem in result.problems]
        return summary


def _problem(shown: Shown, problem: Problem) -> dict[str, Any]:
    texts: Mapping[str, str | None] = {
        "file": problem.file,
        "key": problem.key,
        "field": problem.field,
        "message": problem.message,
    }
    shown_texts: dict[str, Any] = {
        name: None if text is None else plain_text(text) for name, text in texts.items()
    }
    position = None
    if problem.key is not None:
        try:
            position = shown.dataset.position(problem.key)
        except KeyError:  # a sample that this dataset cannot locate
            position = None
    return {
        **shown_texts,
        "kind": problem.kind,
        "warning": problem.warning,
        "offset": problem.offset,
        "position": position,
    }


def state_of_shard(result: VerifyResult | None, paths: list[str], *, checksums: bool) -> str:
    """Return the state of a shard: `unknown`, `ok`, `partly` (some bytes have no checksum) or `bad`.

    With `checksums`, the CRC-32 of all its fields is recorded.
    """
    if result is None:
        return "unknown"
    if any(problem.file in paths and not problem.warning for problem in result.problems):
        return "bad"
    if result.more:  # problems that are not listed may be here
        return "unknown"
    return "ok" if checksums else "partly"
