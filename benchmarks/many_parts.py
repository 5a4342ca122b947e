"""Memory of the driver and of the finish of runs of many parts, and what parts cost.

    python benchmarks/many_parts.py                              100, 10,000 and 100,000 simulated parts
    python benchmarks/many_parts.py --parts 100 10000
    python benchmarks/many_parts.py --overhead --photos FOLDER   512 parts of 100 photos, and the same work without

A simulated part has an index of 100 keys of its own; the data file is the same one for all. Each number of parts is run
in a process of its own, whose peak is reported. `--overhead` compares CPU seconds of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import bushel
from bushel._dataset.open.completeness import marker_path
from bushel._index.headers import PartOfRun
from bushel._index.identity import manifest_entry
from bushel._index.saving import save_index, save_manifest
from bushel._index.shard import Keys, Shard
from bushel._index.sidecar import Manifest, load_index
from bushel._index.table import ShardIndex
from bushel._pack.finish import PartTask, finish_run
from bushel._pack.part import ErrorLimit
from bushel._pack.run_folder import RunFolder, RunPlan, Totals, part_starts
from bushel._pack.scale_out import RunMeter, join_run
from bushel._runtime.tasks import drive
from bushel.engines import Finished, Task
from measure import SCRATCH, console

SAMPLES = 100


class Here:
    """An engine that runs each task at once, in this process."""

    slots = 2

    def __init__(self) -> None:
        self._finished: list[Finished] = []

    def submit(self, task: Task, number: int) -> None:
        """Run a task."""
        self._finished.append(Finished(number, task(number)))

    def wait(self, seconds: float) -> list[Finished]:
        """Return the finished tasks."""
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Simulated:
    """Writes parts that share one data file.

    Attributes:
        data: The data file.
        index: Its index.
        run: The files of the run.
        plan: Its plan.
    """

    data: Path
    index: ShardIndex

    run: RunFolder
    plan: RunPlan

    def write(self, number: int, lock: Any, limit: Any, log: Any, progress: Any) -> Totals:
        """Write a part: a link, and an index with keys of its own."""
        target = Path(str(self.run.part(number)))
        target.mkdir(parents=True)
        os.link(self.data, target / self.data.name)
        index = replace(self.index, keys=Keys.of([f"{number:06d}/{sample:03d}" for sample in range(SAMPLES)]))
        shard = Shard(target, self.data.name, (self.data.name,))
        save_index(index, shard.sidecar)
        entry, note = manifest_entry(shard.name, index), PartOfRun(self.plan.id, SAMPLES, [], [])
        manifest = Manifest("tar", {"x": "bytes"}, {"x": "bytes"}, [entry], part=note)
        save_manifest(manifest, marker_path(target, ""))
        return Totals(SAMPLES, SAMPLES, 0, [])


def simulate(parts: int, folder: Path) -> dict[str, float]:
    """Run and finish a number of simulated parts. Return the peaks of memory in MiB, and CPU seconds."""
    with bushel.Writer(folder / "template", {"x": "bytes"}, container="tar") as writer:
        for sample in range(SAMPLES):
            writer.append({"x": b"x"}, key=f"000000/{sample:03d}")
    dataset = bushel.open(folder / "template")
    shard = dataset.shards[0]
    data = Path(str(shard.path(0)))
    index = load_index(shard.shard.sidecar)
    run = RunFolder(folder / "out", ".tar")
    wanted = RunPlan("pack", "tar", parts * SAMPLES, part_starts(parts * SAMPLES, parts), {})
    claim, plan = join_run(run, wanted, "create", None)
    task = PartTask(run, plan, Simulated(data, index, run, plan).write, ErrorLimit())
    start = _peak()
    meter = RunMeter(plan, range(parts), None)
    drive(task, range(parts), Here(), finished=meter.add, looking=meter.look)
    driver, before = _peak(), time.process_time()
    result = finish_run(run, plan)
    claim.release()
    if result.samples != parts * SAMPLES:
        raise SystemExit(f"{result.samples} samples of {parts * SAMPLES}")
    size = (folder / "out/.bushel/manifest.json").stat().st_size
    return {
        "parts": parts,
        "start": start,
        "driver": driver,
        "finish": _peak(),
        "seconds": time.process_time() - before,
        "manifest": size,
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def overhead(photos: Path, rounds: int) -> None:
    """Compare CPU seconds of 512 parts on two worker processes with two worker processes without parts."""
    from bushel.engines.local import LocalEngine
    from bushel.transforms import Resize

    for number in range(rounds):
        for name in ("without parts", "512 parts"):
            out = SCRATCH / "many-parts"
            shutil.rmtree(out, ignore_errors=True)
            before = _cpu()
            options: dict[str, Any] = {"container": "tar", "transforms": Resize(224)}
            if name == "512 parts":
                options |= {"parts": 512, "engine": LocalEngine(2)}
            else:
                options |= {"processes": 2, "shard_samples": SAMPLES}
            done = bushel.pack(photos, out, **options)
            console.print(
                f"{number} {name}: {done.samples} photos, {_cpu() - before:.1f} s of CPU, {done.seconds:.1f} s"
            )
            shutil.rmtree(out)


def _cpu() -> float:
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description="Runs of many parts.")
    parser.add_argument("--parts", type=int, nargs="*", default=[100, 10_000, 100_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--photos", type=Path, help="a folder of 51,200 photos")
    options = parser.parse_args()
    if options.one is not None:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            print(json.dumps(simulate(options.one, Path(folder))))
        return
    if options.overhead:
        overhead(options.photos, options.rounds)
        return
    for parts in options.parts:
        command = [sys.executable, __file__, "--one", str(parts)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        each = json.loads(done.stdout)
        console.print(
            f"{parts:,} parts: {each['start']:.0f} MiB at the start, {each['driver']:.0f} after the driver, "
            f"{each['finish']:.0f} after the finish ({each['seconds']:.1f} s of CPU); "
            f"manifest {each['manifest'] / 1e6:.1f} MB"
        )


if __name__ == "__main__":
    main()
