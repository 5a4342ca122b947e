"""Benchmark of loading photos: random crops of 224 pixels, mirrored half of the time, in uint8 batches of 128.

python benchmarks/photos.py --photos FOLDER --out photos.json    5,000 JPEGs (from the folder, repeated)
python benchmarks/photos.py --photos FOLDER --small              500 of them, fewer rounds

Every loader runs in its own process and environment, on all cores. They take turns; the first epoch of each is not
counted. CPU time is that of the process and its children. Memory is the largest sum of their proportional set sizes
during the epochs, so shared pages count once.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

import plot
from measure import ROOT, SCRATCH, InEnvironment, console, machine, options_parser, save
from served import PEERS

CLOCK = os.sysconf("SC_CLK_TCK")
LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Contestant(InEnvironment):
    """One way to load the photos.

    Attributes:
        name: Name in tables.
        peer: The module `peers/peer_photos_….py`.
        form: Format of the stored photos.
        variant: Variant of the module's loader.
        environment: The folder of `.interop` that has it, or None for the interpreter that runs this.
    """

    name: str
    peer: str
    form: str
    variant: str = "-"
    environment: str | None = "loading"


CONTESTANTS = (
    Contestant("bushel", "bushel", "bag", environment=None),
    Contestant("bushel, one worker process", "bushel", "bag", "process", None),
    Contestant("bushel + simplejpeg + cv2", "bushel", "bag", "libraries"),
    Contestant("torch + Pillow", "torch", "files", "Pillow"),
    Contestant("torch + simplejpeg + cv2", "torch", "files", "cv2"),
    Contestant("webdataset + torch", "webdataset", "tar"),
    Contestant("granular", "granular", "granular"),
    Contestant("SPDL + simplejpeg + cv2", "spdl", "files"),
    Contestant("grain + array_record", "grain", "array_record"),
    Contestant("grain + bushel", "grain_bushel", "bag", "batches"),
    Contestant("grain + bushel, sample by sample", "grain_bushel", "bag"),
    Contestant("tf.data", "tf", "files"),
    Contestant("DALI on the CPU", "dali", "files", environment="dali"),
    Contestant("FFCV", "ffcv", "beton", environment="ffcv"),
)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of a contestant: images, seconds, CPU seconds, seconds to the first batch, memory in bytes."""

    images: int
    wall: float
    cpu: float
    first: float
    memory: int


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the epochs, and the largest memory."""

    images_per_second: float
    cpu_ms: float
    first_batch: float
    memory_mb: float
    epochs: int


class Serving:
    """The process of a contestant. It waits until an epoch is requested."""

    def __init__(self, contestant: Contestant, path: Path) -> None:
        import site

        script = [PEERS / "serve_photos.py", contestant.peer, contestant.variant, path]
        folder = next((one for one in site.getsitepackages() if Path(one).is_dir()), "")
        self._process = subprocess.Popen(
            [str(contestant.python), *map(str, script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ} if contestant.environment is None else {**os.environ, "SITE_WITH_BUSHEL": folder},
        )
        self._said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._answer()

    def _listen(self) -> None:
        assert self._process.stderr is not None
        self._said.extend(self._process.stderr)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._listener.join()
            raise RuntimeError((self._said or ["it said nothing"])[-1].strip())
        return json.loads(line)

    def epoch(self, seed: int) -> Epoch:
        """Load an epoch."""
        assert self._process.stdin is not None
        over = threading.Event()
        seen: list[int] = []
        watch = threading.Thread(target=_watch, args=(self._process.pid, over, seen))
        watch.start()
        cpu, wall = _cpu(self._process.pid), time.perf_counter()
        self._process.stdin.write(f"{seed}\n")
        self._process.stdin.flush()
        try:
            answer = self._answer()
            taken = time.perf_counter() - wall, _cpu(self._process.pid) - cpu
        finally:
            over.set()
            watch.join()
        return Epoch(answer["images"], *taken, answer["first"], max(seen))

    def close(self) -> None:
        """Stop the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def _family(process: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
            continue
        children.setdefault(parent, []).append(int(entry.parent.name))
    family = [process]
    for member in family:
        family.extend(children.get(member, []))
    return family


def _cpu(process: int) -> float:
    """Return the CPU seconds of a process and its descendants, including ended ones."""
    ticks = 0
    for member in _family(process):
        try:
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / CLOCK


def _watch(process: int, over: threading.Event, seen: list[int]) -> None:
    """Record the memory of a process and its descendants until the epoch ends."""
    while True:
        total = 0
        for member in _family(process):
            try:
                rollup = Path(f"/proc/{member}/smaps_rollup").read_text()
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            own = [line.split()[1] for line in rollup.splitlines() if line.startswith(("Pss_Anon:", "Pss_Shmem:"))]
            total += sum(map(int, own)) * 1024
        seen.append(total)
        if over.wait(LOOK_SECONDS):
            return


def _fill(contestant: Contestant, photos: Path, count: int) -> Path:
    """Write the photos in the format of a contestant, if they do not exist."""
    path = SCRATCH / f"photos-{count}" / contestant.form
    done = path.with_name(path.name + ".done")
    if not done.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        console.print(f"writing {path.relative_to(ROOT)}")
        script = [PEERS / "fill_photos.py", contestant.form, path, photos, count]
        subprocess.run([str(contestant.python), *map(str, script)], check=True)
        done.touch()
    return path


def median(epochs: list[Epoch]) -> Result:
    """Return the medians of several epochs."""
    return Result(
        statistics.median(epoch.images / epoch.wall for epoch in epochs),
        statistics.median(epoch.cpu / epoch.images * 1e3 for epoch in epochs),
        statistics.median(epoch.first for epoch in epochs),
        max(epoch.memory for epoch in epochs) / 1e6,
        len(epochs),
    )


def _show(results: dict[str, Result], count: int) -> None:
    table = Table("", title=f"{count:,} photos, random crops of 224", title_justify="left")
    for heading in ("images/s", "CPU ms/image", "first batch s", "memory MB"):
        table.add_column(heading, justify="right")
    for name, result in sorted(results.items(), key=lambda item: item[1].cpu_ms):
        numbers = f"{result.images_per_second:,.0f}", f"{result.cpu_ms:.2f}", f"{result.first_batch:.2f}"
        table.add_row(name, *numbers, f"{result.memory_mb:,.0f}")
    console.print(table)


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Loaders of photos against each other.", "500 photos, fewer rounds")
    parser.add_argument("--photos", type=Path, required=True, help="a folder of JPEG files")
    parser.add_argument("--plot", type=Path, help="SVG file for a drawing of them")
    parser.add_argument("--only", nargs="+", help="names of peers")
    parser.add_argument("--count", type=int, default=5000, help="photos of an epoch (default: %(default)s)")
    options = parser.parse_args()
    count, rounds = (500, 2) if options.small else (options.count, 3)
    skipped: dict[str, str] = {}
    running: dict[str, Serving] = {}
    epochs: dict[str, list[Epoch]] = {}
    for one in CONTESTANTS:
        if options.only and one.peer not in options.only:
            continue
        if one.missing is not None:
            skipped[one.name] = one.missing
            continue
        try:
            running[one.name] = Serving(one, _fill(one, options.photos, count))
        except (RuntimeError, subprocess.CalledProcessError) as error:
            skipped[one.name] = str(error)
    for number in range(rounds + 1):
        for name, serving in list(running.items()):
            try:
                epoch = serving.epoch(number)
            except RuntimeError as error:
                skipped[name] = str(error)
                del running[name]
                continue
            if number:
                epochs.setdefault(name, []).append(epoch)
    for serving in running.values():
        serving.close()
    results = {name: median(measured) for name, measured in epochs.items() if name in running}
    _show(results, count)
    plain = {name: asdict(result) for name, result in results.items()}
    save(options.out, plain, skipped)
    if options.plot is not None:
        plot.write(options.plot, plain, machine())


if __name__ == "__main__":
    main()
