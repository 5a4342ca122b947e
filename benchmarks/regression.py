"""Compare the CPU time of this version with that of another one, and fail if a case takes more.

    scripts/bench_check.sh origin/main

installs both and runs this. The two take turns, each in a new process, so that a machine whose speed changes slows
both; the medians of CPU times are compared. A time on the wall is not, since the machines of CI are shared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 9
LIMIT = 1.15
"""How much more CPU time than the other version a case may take."""


def make_photos(folder: Path) -> None:
    """Write the dataset that the cases read."""
    import numpy as np

    import bushel

    rng = np.random.default_rng(0)
    noise = rng.integers(0, 40, (375, 500, 3))
    ramp = np.linspace(0, 200, 500)[None, :, None]
    with bushel.Writer(folder, {"image": "jpg", "label": "int"}, container="tar", shard_samples=100) as writer:
        for number in range(200):
            image = (noise + np.roll(ramp, number, 1)).astype(np.uint8)
            writer.append({"image": image, "label": number % 10}, key=f"{number:04d}")


def case_open(data: Path) -> None:
    """Open a dataset many times."""
    import bushel

    for _ in range(100):
        len(bushel.open(data).keys)


def case_read(data: Path) -> None:
    """Read stored samples at random."""
    import numpy as np

    import bushel

    ds, rng = bushel.open(data), np.random.default_rng(0)
    for _ in range(400):
        ds.read(rng.integers(0, len(ds), 64), decode=False)


def case_load(data: Path) -> None:
    """Load epochs of random crops."""
    import bushel
    from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop

    crop, flip = RandomResizedCrop(224), RandomHorizontalFlip()
    loader = bushel.Loader(bushel.open(data), 32, shuffle=True, seed=0, transforms=[crop, flip], workers=2)
    for _ in range(3):
        for _batch in loader:
            pass


def case_write(data: Path) -> None:
    """Append small samples."""
    import bushel

    del data
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder,
        bushel.Writer(Path(folder, "x"), {"text": "bytes", "label": "int"}, container="bag") as writer,
    ):
        for number in range(100_000):
            writer.append({"text": b"x" * 200, "label": number})


CASES: dict[str, Callable[[Path], None]] = {
    "open": case_open,
    "read": case_read,
    "load": case_load,
    "write": case_write,
}


def run_case(name: str, data: Path) -> float:
    """Run a case in this process; returns its CPU time in seconds, without that of imports."""
    import bushel

    bushel.open(data)
    start = time.process_time()
    CASES[name](data)
    return time.process_time() - start


def measure(python: str, name: str, data: Path) -> float:
    """Run a case with an interpreter, in a process of its own."""
    command = [python, str(Path(__file__).absolute()), "--case", name, "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=data)
    return float(done.stdout.split()[-1])


def compare(base: str, ours: str, data: Path, rounds: int) -> dict[str, tuple[float, float]]:
    """Return the median CPU times of the base and of this version, by case."""
    found = {}
    for name in CASES:
        before: list[float] = []
        now: list[float] = []
        for turn in range(rounds):
            both = [(base, before), (ours, now)]
            for python, times in both if turn % 2 == 0 else reversed(both):
                times.append(measure(python, name, data))
        found[name] = statistics.median(before), statistics.median(now)
    return found


def main() -> int:
    """Run one case, or compare two versions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", help="Python of the environment with the other version")
    parser.add_argument("--ours", default=sys.executable, help="Python of the environment with this version")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--limit", type=float, default=LIMIT)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    if options.case is not None:
        print(run_case(options.case, options.data))
        return 0
    if options.base is None:
        parser.error("--base is missing")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "photos")
        make_photos(data)
        base, ours = (str(Path(each).absolute()) for each in (options.base, options.ours))
        found = compare(base, ours, data, options.rounds)
    slower = []
    for name, (before, now) in found.items():
        ratio = now / before
        print(f"{name:8} {before:8.3f} s before, {now:8.3f} s now: {ratio:.2f}")
        if ratio > options.limit:
            slower.append(name)
    print(json.dumps({"slower": slower, "limit": options.limit}))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
