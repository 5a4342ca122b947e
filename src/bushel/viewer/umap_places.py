"""Places of vectors by UMAP (McInnes 2018), which a process of its own computes: it takes minutes, and can be ended."""

from __future__ import annotations

import pickle
import select
import time
from dataclasses import dataclass, field
from importlib.util import find_spec

import numpy as np

from bushel._runtime.arrays import F32
from bushel._runtime.processes import WorkerDiedError, WorkerProcess


def has_umap() -> bool:
    """Return whether the package umap-learn is installed."""
    return find_spec("umap") is not None


@dataclass
class Placing:
    """A computation that runs."""

    process: WorkerProcess  # the process that computes
    # time at which it began, of `time.monotonic`
    begun: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, values: F32) -> Placing:
        """Start to compute the places of vectors, float32[vectors, numbers], finite."""
        process = WorkerProcess("bushel.viewer.umap_places", "serve")
        process.send(pickle.dumps(np.ascontiguousarray(values), protocol=5))
        return cls(process)

    def result(self) -> F32 | None:
        """Return the places, float32[vectors, 2]; None if they are not computed yet.

        Raises:
            ValueError: UMAP failed, or its process ended.
        """
        if not select.select([self.process.fileno()], [], [], 0)[0]:
            return None
        try:
            message, _ = self.process.receive()
        except WorkerDiedError as error:
            raise ValueError(f"UMAP ended: {error}") from error
        answer = pickle.loads(message)
        self.process.close()
        self.process.join()
        if isinstance(answer, str):
            raise ValueError(f"UMAP failed: {answer}")  # noqa: TRY004 - the process sent the text of an error
        places: F32 = answer
        return places

    def stop(self) -> None:
        """End the process."""
        self.process.kill()


def serve(descriptor: int) -> None:
    """Main loop of the computing process: receive vectors, send their places or the text of an error."""
    import os
    import threading

    from bushel._runtime.processes import Channel

    channel = Channel.of_descriptor(descriptor)
    message, _ = channel.receive()

    def end_with_parent() -> None:
        # nothing more is sent, so the parent has closed its end
        select.select([descriptor], [], [])
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    answer: F32 | str
    try:
        import umap

        values: F32 = pickle.loads(message)
        neighbours = min(15, len(values) - 1)
        answer = umap.UMAP(n_components=2, n_neighbors=neighbours, random_state=0).fit_transform(
            values
        )
    except Exception as error:  # any error of the package is shown on the page
        answer = f"{type(error).__name__}: {error}"
    channel.send(pickle.dumps(answer, protocol=5))
    os._exit(0)
