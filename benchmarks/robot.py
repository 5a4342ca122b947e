"""Benchmark of windows of robots' episodes: the same batches from LeRobot and from Bushel, local and from S3.

    python benchmarks/robot.py --out robot.json        40 episodes of 100 frames, with a camera of 320 × 240 pixels
    python benchmarks/robot.py --cameras 3 --batch 64 --environment lerobot-lance
    python benchmarks/robot.py --small --latency       10 episodes of 60 frames, fewer windows, and no S3 server

A window is 16 actions, a state and two pictures of each camera. LeRobot has a process of its own, from `.interop`, and
both decode with FFmpeg. Batches of windows in random order, the same ones for all; CPU time is that of all threads and
worker processes. LeRobotDataset does not read from S3, so it has rows of a local dataset only. The same dataset as
tables of Lance (`storage_format: lance`), with the reader of lerobot-lancedb, has both. It decodes with TorchCodec,
which needs FFmpeg's libraries where the linker finds them. Files are written once, into `.bench/`.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bushel
from bushel.storage.expansion_cache import expansion_cache
from measure import SCRATCH, Rate, Timing, how_to_make, in_turns, interpreter, options_parser, save, show
from object_server import BUCKET, delayed, running_server, upload
from served import PEERS

FPS = 10
BACKENDS = {"pyav": "LeRobotDataset, PyAV", "torchcodec": "LeRobotDataset, TorchCodec", "lance": "LeRobot over Lance"}


def deltas(cameras: int) -> dict[str, list[float]]:
    """Return the times of a window, relative to its frame."""
    times = {"action": [number / FPS for number in range(16)], "observation.state": [0.0]}
    return times | {f"observation.images.camera{number}": [-0.1, 0.0] for number in range(cameras)}


@dataclass(frozen=True, slots=True)
class Work:
    """The windows that are loaded.

    Attributes:
        root: Folder of the dataset.
        cameras: Their number.
        batch: Windows of a batch.
        count: Windows of a round.
        rounds: Number of measurements of each.
        environment: The folder of `.interop` that has LeRobot.
        workers: LeRobot's worker processes.
    """

    root: Path
    cameras: int
    batch: int
    count: int
    rounds: int
    environment: str
    workers: int

    def chosen(self, samples: int, seed: int) -> list[int]:
        """Return some windows in random order."""
        return np.random.default_rng(seed).permutation(samples)[: self.count].tolist()  # type: ignore[no-any-return]

    def opened(self, place: Any) -> Any:
        """Open the dataset as windows."""
        return bushel.open(place, delta_timestamps=deltas(self.cameras))


class Peer:
    """LeRobot's reader in a process of its own, which is asked for batches."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, batches: list[list[int]]) -> Timing:
        """Return the time of these batches."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(batches), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("LeRobot ended: run benchmarks/peers/peer_robot.py by hand to see why")
        return Timing(**json.loads(line))


@contextmanager
def lerobot(work: Work, root: str, backend: str) -> Iterator[Peer]:
    """Provide LeRobot's reader of a dataset."""
    python = str(interpreter(work.environment))
    numbers = str(work.cameras), backend, str(work.workers)
    command = [python, str(PEERS / "peer_robot.py"), "read", root, *numbers]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield Peer(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.terminate()


def own_windows(work: Work, ds: Any, number: int) -> Timing:
    """Load windows with Bushel."""
    expansion_cache().clear()
    view = ds[work.chosen(len(ds), number)]
    times = deltas(work.cameras)
    fields = [*times, *(f"{name}_is_pad" for name in times)]
    wall, cpu = time.perf_counter(), time.process_time()
    loader = bushel.Loader(view, work.batch, fields=fields, threads=2)
    assert sum(len(batch["action"]) for batch in loader) == work.count
    return Timing(work.count, time.perf_counter() - wall, time.process_time() - cpu)


def local(work: Work) -> tuple[dict[str, Rate], dict[str, str]]:
    """Measure both on a local dataset; and say why some are skipped."""
    ds = work.opened(work.root)
    contestants: dict[str, Callable[[int], Timing]] = {"bushel": partial(own_windows, work, ds)}
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        for backend, name in BACKENDS.items():
            root = f"{work.root}-lance" if backend == "lance" else str(work.root)
            _add_peer(work, stack.enter_context(lerobot(work, root, backend)), name, contestants, skipped, len(ds))
        own_windows(work, ds, 99)
        return in_turns(contestants, work.rounds), skipped


def _add_peer(
    work: Work,
    peer: Peer,
    name: str,
    contestants: dict[str, Callable[[int], Timing]],
    skipped: dict[str, str],
    count: int,
) -> None:
    """Add a peer to the contestants; or to the skipped ones, with the reason."""
    try:
        peer([[0]] * max(1, work.workers))  # imports, and initialises lazily made objects, in each worker
    except RuntimeError as error:
        skipped[name] = str(error)
    else:
        contestants[name] = partial(_same_windows, work, peer, count)


def _same_windows(work: Work, peer: Peer, samples: int, number: int) -> Timing:
    places = work.chosen(samples, number)
    return peer([places[first : first + work.batch] for first in range(0, work.count, work.batch)])


def remote(work: Work, latencies: Mapping[str, float]) -> tuple[dict[str, Rate], dict[str, str]]:
    """Measure Bushel and Lance on the same dataset on S3, with the latencies; and say why Lance is skipped."""
    results: dict[str, Rate] = {}
    skipped: dict[str, str] = {}
    tables = work.root.with_name(f"{work.root.name}-lance")
    with running_server():
        upload(work.root, "robot")
        if tables.exists():
            upload(tables, "robot-lance")
        for title, milliseconds in latencies.items():
            with delayed(milliseconds), lerobot(work, f"s3://{BUCKET}/robot-lance", "lance") as peer:
                ds = work.opened(f"s3://{BUCKET}/robot")
                contestants: dict[str, Callable[[int], Timing]] = {}
                contestants[f"bushel, S3, {title}"] = partial(own_windows, work, ds)
                _add_peer(work, peer, f"{BACKENDS['lance']}, S3, {title}", contestants, skipped, len(ds))
                results |= in_turns(contestants, work.rounds)
    return results, skipped


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser(__doc__, "10 episodes of 60 frames, 80 windows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, nargs="*", default=[0, 5, 50], metavar="MS", help="of S3; none: no S3")
    parser.add_argument("--cameras", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8, help="windows of a batch")
    parser.add_argument("--environment", default="lerobot-0.6", help="the environment that has LeRobot")
    parser.add_argument("--workers", type=int, default=0, help="worker processes of LeRobot's DataLoader")
    options = parser.parse_args()
    python = interpreter(options.environment)
    if not python.exists():
        parser.exit(0, f"LeRobot is not installed: {how_to_make(options.environment)}\n")
    episodes, frames = (10, 60) if options.small else (40, 100)
    root = SCRATCH / f"robot-{episodes}-{options.cameras}"
    if not (root / "meta" / "info.json").exists():
        write = [str(python), str(PEERS / "peer_robot.py"), "write", str(root), str(options.cameras)]
        subprocess.run([*write, str(episodes), str(frames)], check=True, stdout=subprocess.DEVNULL)
    if not root.with_name(f"{root.name}-lance").exists():
        subprocess.run([str(python), str(PEERS / "peer_robot.py"), "tables", str(root)], check=True)
    bushel.index(root, checksums=False).close()
    count = 128 if options.small else 768
    work = Work(root, options.cameras, options.batch, count, options.rounds, options.environment, options.workers)
    results, skipped = local(work)
    if options.latency:
        of_s3, skipped_of_s3 = remote(work, {f"{number:g} ms": number for number in options.latency})
        results, skipped = results | of_s3, skipped | skipped_of_s3
    show(f"windows of 16 actions and {2 * options.cameras} pictures", "windows", results, ("bushel",))
    save(options.out, {"windows": results}, skipped)


if __name__ == "__main__":
    main()
