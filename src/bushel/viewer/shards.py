"""The page of the shards: a map of them, and a verification in the background that is run from it."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bushel._runtime.progress import Progress

from .selection import is_whole
from .shelf import Shown, plain_text
from .site import Pages, Site, at

if TYPE_CHECKING:
    from bushel.integrity import Problem, VerifyResult

_LISTED = 200  # number of problems that are shown
_NOT_STARTED = Progress(0, None, "bytes")


class _Stopped(Exception):
    """Ends the run from inside: its progress callback raises it."""


@dataclass
class Verification:
    """The check of a dataset, in a thread of its own."""

    state: str = "idle"  # `idle`, `running`, `done`, `failed` or `stopped`
    result: VerifyResult | None = None  # the result, once it is done
    error: str = ""  # why it failed
    _progress: Progress = _NOT_STARTED
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, shown: Shown) -> None:
        """Start the verification, unless it is running."""
        with self._lock:
            if self.state == "running":
                return
            self.state, self.result, self.error, self._progress = "running", None, "", _NOT_STARTED
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
            "done": now.done,
            "total": now.total or 0,
            "errors": now.errors,
        }
        if result is not None:
            summary |= {
                "verdict": result.verdict,
                "ok": result.ok,
                "checked": result.bytes_checked,
                "more": result.more,
                "problems": [_problem(shown, problem) for problem in result.problems],
            }
        return summary


def _problem(shown: Shown, problem: Problem) -> dict[str, Any]:
    facts = {
        name: plain_text(fact) if isinstance(fact, str) else fact
        for name, fact in asdict(problem).items()
    }
    position = None
    if problem.key is not None:
        with suppress(KeyError):  # a sample that this dataset cannot locate
            position = shown.dataset.position(problem.key)
    return {**facts, "warning": problem.warning, "position": position}


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


_BOXES = 2000  # largest number of boxes on the map; of more shards, each box stands for several
_EVERY = 0.25  # seconds between two messages of progress


@dataclass(frozen=True, slots=True)
class ShardBox:
    """A shard on the map, or several neighbouring ones."""

    number: int  # number of the first shard
    shards: int  # number of shards
    name: str  # path of the first file of the first shard
    samples: int
    bytes: int  # bytes of all files
    first: int  # position of its first sample
    container: str  # name of the container
    state: str  # see `state_of_shard`; `damaged` if its structure is
    note: str = ""  # description of an error


def shard_boxes(shown: Shown, verification: Verification) -> list[ShardBox]:
    """Return the boxes of the map."""
    shards = shown.dataset.shards
    step = max(1, -(-len(shards) // _BOXES))
    starts = shown.dataset.reader.starts
    boxes = []
    for number in range(0, len(shards), step):
        group = [shards[position] for position in range(number, min(number + step, len(shards)))]
        paths = [str(shard.path(file)) for shard in group for file in range(len(shard.stamps))]
        state = state_of_shard(
            verification.result, paths, checksums=all(shard.checksums for shard in group)
        )
        damages = [shard.damage for shard in group if shard.damage is not None]
        size = sum(stamp.size for shard in group for stamp in shard.stamps)
        samples = sum(shard.samples for shard in group)
        note = ""
        if damages:
            state = "damaged"
            note = plain_text(f"{damages[0].error.message}: {damages[0].describe()}")
        # of a dataset that is joined to the first one
        first = int(starts[number]) if number < len(starts) - 1 else 0
        name = plain_text(str(group[0].path(0)))
        if len(paths) > 1:
            name += f" and {len(paths) - 1:,} more"
        container = group[0].container
        boxes.append(
            ShardBox(number, len(group), name, samples, size, first, container, state, note)
        )
    return boxes


class ShardPages(Pages):
    """The handlers of the page of shards and of the verification."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._runs = [Verification() for _ in site.shelf.datasets]

    @at("/d/{d:int}/shards")
    def shards(self, shown: Shown, request: Any) -> Any:
        """The map and the list of shards."""
        run = self._runs[shown.number]
        boxes = shard_boxes(shown, run)
        whole = is_whole(shown.dataset)
        return self._site.page(
            request,
            "shards.html",
            shown,
            info=shown.dataset.info,
            boxes=boxes,
            largest=max((box.bytes for box in boxes), default=1) or 1,
            listed=boxes[:_LISTED],
            whole=whole,
            run=run.summary(shown),
            start=json.dumps(run.summary(shown)),
        )

    @at("/api/{d:int}/verify", "POST")
    def verify(self, shown: Shown, request: Any) -> Any:
        """Start the verification, or stop it (`?stop=1`)."""
        run = self._runs[shown.number]
        if "stop" in request.query_params:
            run.stop()
        else:
            run.start(shown)
        return run.summary(shown)

    @at("/api/{d:int}/verify")
    def progress(self, shown: Shown, request: Any) -> Any:
        """The progress of the verification, as server-sent events, until it ends."""
        from starlette.responses import StreamingResponse

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._events(shown), 200, headers, "text/event-stream")

    async def _events(self, shown: Shown) -> AsyncIterator[bytes]:
        import anyio

        run = self._runs[shown.number]
        while True:
            state = await anyio.to_thread.run_sync(run.summary, shown)
            yield f"data: {json.dumps(state)}\n\n".encode()
            if state["state"] != "running":
                return
            await anyio.sleep(_EVERY)
