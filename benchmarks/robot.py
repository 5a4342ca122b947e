"""Benchmark of windows of robots' episodes: the same batches from LeRobotDataset and from Bushel, local and from S3.

    python benchmarks/robot.py --out robot.json        40 episodes of 100 frames, with a camera of 320 × 240 pixels
    python benchmarks/robot.py --small --latency       10 episodes of 60 frames, fewer windows, and no S3 server

A window is 16 actions, a state and two pictures. LeRobot has a process of its own, from `.interop/lerobot`; both decode
with FFmpeg. Batches of 8 windows in random order, the same ones for all; CPU time is that of all threads. LeRobot does
not read from S3, so it has rows of a local dataset only. Files are written once, into `.bench/`.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bushel
from bushel.storage.expansion_cache import expansion_cache
from measure import SCRATCH, Rate, Timing, how_to_make, in_turns, interpreter, options_parser, save, show
from object_server import BUCKET, delayed, running_server, upload
from served import PEERS

FPS, CAMERA, BATCH = 10, "observation.images.top", 8
DELTAS = {"action": [number / FPS for number in range(16)], CAMERA: [-0.1, 0.0], "observation.state": [0.0]}
BACKENDS = ("pyav", "torchcodec")


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
def lerobot(root: Path, backend: str) -> Iterator[Peer]:
    """Provide LeRobot's reader of a dataset."""
    command = [str(interpreter("lerobot")), str(PEERS / "peer_robot.py"), "read", str(root), backend]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield Peer(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.terminate()


def chosen(samples: int, count: int, seed: int) -> list[int]:
    """Return some windows in random order."""
    return np.random.default_rng(seed).permutation(samples)[:count].tolist()  # type: ignore[no-any-return]


def own_windows(ds: Any, count: int, number: int) -> Timing:
    """Load windows with Bushel."""
    expansion_cache().clear()
    view = ds[chosen(len(ds), count, number)]
    fields = [*DELTAS, *(f"{name}_is_pad" for name in DELTAS)]
    wall, cpu = time.perf_counter(), time.process_time()
    loader = bushel.Loader(view, BATCH, fields=fields, threads=2)
    assert sum(len(batch["action"]) for batch in loader) == count
    return Timing(count, time.perf_counter() - wall, time.process_time() - cpu)


def opened(place: Any) -> Any:
    """Open a dataset as windows."""
    return bushel.open(place, delta_timestamps=DELTAS)


def local(root: Path, count: int, rounds: int) -> tuple[dict[str, Rate], dict[str, str]]:
    """Measure both on a local dataset; and say why some are skipped."""
    ds = opened(root)
    contestants: dict[str, Callable[[int], Timing]] = {"bushel": partial(own_windows, ds, count)}
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        for backend in BACKENDS:
            peer = stack.enter_context(lerobot(root, backend))
            try:
                peer([[0]])  # imports, and initialises lazily made objects
            except RuntimeError as error:
                skipped[f"LeRobotDataset, {backend}"] = str(error)
                continue
            contestants[f"LeRobotDataset, {backend}"] = partial(_same_windows, peer, len(ds), count)
        own_windows(ds, BATCH, 99)
        return in_turns(contestants, rounds), skipped


def _same_windows(peer: Peer, samples: int, count: int, number: int) -> Timing:
    places = chosen(samples, count, number)
    return peer([places[first : first + BATCH] for first in range(0, count, BATCH)])


def remote(root: Path, latencies: Mapping[str, float], count: int, rounds: int) -> dict[str, Rate]:
    """Measure Bushel on the same dataset on S3, with the latencies."""
    results: dict[str, Rate] = {}
    with running_server():
        upload(root, "robot")
        for title, milliseconds in latencies.items():
            with delayed(milliseconds):
                ds = opened(f"s3://{BUCKET}/robot")
                results |= in_turns({f"bushel, S3, {title}": partial(own_windows, ds, count)}, rounds)
    return results


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser(__doc__, "10 episodes of 60 frames, 80 windows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=float, nargs="*", default=[0, 5, 50], metavar="MS", help="of S3; none: no S3")
    options = parser.parse_args()
    if not interpreter("lerobot").exists():
        parser.exit(0, f"LeRobot is not installed: {how_to_make('lerobot')}\n")
    episodes, frames = (10, 60) if options.small else (40, 100)
    root = SCRATCH / f"robot-{episodes}"
    if not (root / "meta" / "info.json").exists():
        write = [str(interpreter("lerobot")), str(PEERS / "peer_robot.py"), "write", str(root)]
        subprocess.run([*write, str(episodes), str(frames)], check=True, stdout=subprocess.DEVNULL)
    bushel.index(root, checksums=False).close()
    count = 80 if options.small else 800
    results, skipped = local(root, count, options.rounds)
    if options.latency:
        results |= remote(root, {f"{number:g} ms": number for number in options.latency}, count, options.rounds)
    show("windows of 16 actions and 2 pictures", "windows", results, ("bushel",))
    save(options.out, {"windows": results}, skipped)


if __name__ == "__main__":
    main()
