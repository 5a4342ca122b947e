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
import zipfile
from collections.abc import Callable, Collection
from importlib.util import find_spec
from pathlib import Path

ROUNDS = 9
LIMIT = 1.15
"""How much more CPU time than the other version a case may take."""


def make_photos(folder: Path) -> None:
    """Write photos with labels."""
    import numpy as np

    import bushel

    rng = np.random.default_rng(0)
    noise = rng.integers(0, 40, (375, 500, 3))
    ramp = np.linspace(0, 200, 500)[None, :, None]
    with bushel.Writer(folder, {"image": "jpg", "label": "int"}, container="tar", shard_samples=100) as writer:
        for number in range(200):
            image = (noise + np.roll(ramp, number, 1)).astype(np.uint8)
            writer.append({"image": image, "label": number % 10}, key=f"{number:04d}")


def make_compressed(folder: Path) -> None:
    """Write lines of text that others have compressed: a zip of deflated members, and frames of zstd."""
    import cramjam
    import numpy as np

    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(1000)]
    lines = [
        json.dumps({"number": number, "text": " ".join(words[one] for one in rng.integers(0, 1000, 250))}) + "\n"
        for number in range(2000)
    ]
    with zipfile.ZipFile(folder / "texts.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number, line in enumerate(lines):
            archive.writestr(f"{number:04d}.json", line)
    with (folder / "lines.jsonl.zst").open("wb") as file:
        for first in range(0, len(lines), 100):
            file.write(bytes(cramjam.zstd.compress("".join(lines[first : first + 100]).encode())))


def make_arrays(folder: Path) -> None:
    """Write documents of tokens that differ in length, episodes of states, labels for photos, and rows of Parquet."""
    import numpy as np

    import bushel

    rng = np.random.default_rng(0)
    with bushel.Writer(folder / "documents", {"tokens": "array"}, container="bag") as writer:
        for length in rng.integers(10, 2000, 3000).tolist():
            writer.append({"tokens": np.arange(length, dtype=np.uint16)})
    with bushel.Writer(folder / "episodes", {"states": "array"}, container="bag") as writer:
        for _ in range(50):
            writer.append({"states": rng.normal(size=(400, 32)).astype(np.float32)})
    rows = [json.dumps({"photo": f"{number:04d}", "caption": f"photo {number}"}) for number in range(200)]
    (folder / "captions.jsonl").write_text("\n".join(rows) + "\n")
    if find_spec("pyarrow") is not None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        texts = [f"text {number} " * 50 for number in range(20_000)]
        pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), folder / "rows.parquet", row_group_size=2000)


def case_open(data: Path) -> None:
    """Open a dataset many times."""
    import bushel

    for _ in range(100):
        len(bushel.open(data / "photos").keys)


def case_read(data: Path) -> None:
    """Read stored samples at random."""
    import numpy as np

    import bushel

    ds, rng = bushel.open(data / "photos"), np.random.default_rng(0)
    for _ in range(400):
        ds.read(rng.integers(0, len(ds), 64), decode=False)


def case_load(data: Path) -> None:
    """Load epochs of random crops."""
    import bushel
    from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop

    crop, flip = RandomResizedCrop(224), RandomHorizontalFlip()
    loader = bushel.Loader(bushel.open(data / "photos"), 32, shuffle=True, seed=0, transforms=[crop, flip], workers=2)
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


def _read_at_random(path: Path, reads: int) -> None:
    import numpy as np

    import bushel

    ds, rng = bushel.open(path), np.random.default_rng(0)
    for _ in range(reads):
        ds.read(rng.integers(0, len(ds), 64))


def case_deflate(data: Path) -> None:
    """Read members of a zip at random, each of which is a deflated block."""
    _read_at_random(data / "texts.zip", 40)


def case_zstd(data: Path) -> None:
    """Read lines at random from compressed frames, which are expanded into the cache of blocks."""
    _read_at_random(data / "lines.jsonl.zst", 80)


def case_parquet(data: Path) -> None:
    """Read rows of Parquet at random."""
    _read_at_random(data / "rows.parquet", 40)


def case_join(data: Path) -> None:
    """Join photos to their captions, and read samples of both."""
    import bushel

    for _ in range(10):
        both = bushel.join(bushel.open(data / "captions.jsonl"), bushel.open(data / "photos"), on=("photo", "__key__"))
        both.read(range(0, 200, 2), decode=False)


def case_packs(data: Path) -> None:
    """Load epochs of rows that are packed with whole documents."""
    import bushel

    ds = bushel.open(data / "documents")
    loader = bushel.Loader(ds, 8, shuffle=True, seed=0, pack_by="tokens.length", pack_tokens=4096, workers=2)
    for _ in range(10):
        for _batch in loader:
            pass


def case_windows(data: Path) -> None:
    """Load epochs of windows."""
    import bushel

    windows = bushel.open(data / "episodes").windows("states", 16, hop=8)
    for _ in range(4):
        for _batch in bushel.Loader(windows, 64, shuffle=True, seed=0, workers=2):
            pass


CASES: dict[str, Callable[[Path], None]] = {
    "open": case_open,
    "read": case_read,
    "load": case_load,
    "write": case_write,
    "deflate": case_deflate,
    "zstd": case_zstd,
    "parquet": case_parquet,
    "join": case_join,
    "packs": case_packs,
    "windows": case_windows,
}


def make_data(folder: Path) -> dict[str, str]:
    """Write what the cases read. Returns why cases are left out, by name."""
    make_photos(folder / "photos")
    make_compressed(folder)
    make_arrays(folder)
    return {} if (folder / "rows.parquet").exists() else {"parquet": "pyarrow is not installed"}


def run_case(name: str, data: Path) -> float:
    """Run a case in this process; returns its CPU time in seconds, without that of imports."""
    import bushel

    bushel.open(data / "photos")
    start = time.process_time()
    CASES[name](data)
    return time.process_time() - start


def measure(python: str, name: str, data: Path) -> float:
    """Run a case with an interpreter, in a process of its own."""
    command = [python, str(Path(__file__).absolute()), "--case", name, "--data", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=data)
    return float(done.stdout.split()[-1])


def compare(base: str, ours: str, data: Path, rounds: int, names: Collection[str]) -> dict[str, tuple[float, float]]:
    """Return the median CPU times of the base and of this version, by case."""
    found = {}
    for name in names:
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
        left_out = make_data(Path(folder))
        for name, why in left_out.items():
            print(f"{name:8} left out: {why}")
        base, ours = (str(Path(each).absolute()) for each in (options.base, options.ours))
        found = compare(base, ours, Path(folder), options.rounds, [name for name in CASES if name not in left_out])
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
