"""Benchmark of writing shards in several workers: engines of Bushel and what else people use; and after a kill.

    python benchmarks/distributing.py --peers VENV --out distributing.json

VENV is an environment with `ray[data]`, webdataset, litdata, mosaicml-streaming and pillow; Bushel's workers run in
this one, and find Ray in `.cluster/packages` (`make cluster` installs it). Seconds are the job's; CPU
seconds are the sum of all processes, with the start of the cluster, and need cgroups that this user may make. Then one
worker gets a SIGKILL when half of the photos are done, and the same call follows.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from measure import ROOT, SCRATCH, console, machine
from packing import SAMPLE_PHOTOS, copies, generated

SCRIPT = Path(__file__).resolve().parent / "peers" / "distribute.py"
OWN = ("bushel-none", "bushel-local", "bushel-ray")
PEERS = ("ray-tasks", "ray-data", "litdata", "mds")
_SUBREAPER = 36
_PIPE = subprocess.PIPE
_CPUACCT = Path("/sys/fs/cgroup/cpuacct") / f"bushel-{os.getpid()}"
_HUNG_SECONDS = 90


class Packer:
    """Runs a packer in processes whose CPU time is counted.

    Args:
        name: Name of the packer.
        python: The interpreter of its environment.
        photos: Folder of photos.
        place: A folder for what it writes.
    """

    def __init__(self, name: str, python: Path, photos: Path, place: Path) -> None:
        self.name, self.out, self.notes = name, place / "out", place / "notes"
        self._command = [str(python), str(SCRIPT), name, str(photos), str(self.out), str(self.notes)]

    def clear(self) -> None:
        """Remove what an earlier run has written."""
        for folder in (self.out, self.notes):
            shutil.rmtree(folder, ignore_errors=True)
        self.notes.mkdir(parents=True)

    def run(self, *, kill_after: int | None = None) -> dict[str, Any]:
        """Run it once, and kill a worker after a number of photos."""
        before, started = _cpu(), time.monotonic()
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
        if self.name in OWN:
            environment["PYTHONPATH"] = str(ROOT / ".cluster" / "packages")
        process = subprocess.Popen(
            self._command, stdout=_PIPE, stderr=_PIPE, text=True, env=environment, start_new_session=True
        )
        killed = None if kill_after is None else self._kill(process, kill_after)
        try:
            said, errors = process.communicate(timeout=_HUNG_SECONDS if killed else 600)
            end = "finished" if process.returncode == 0 else f"failed: {_last(errors)}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, end = process.communicate()[0], f"hung ({_HUNG_SECONDS} s)"
        _reap()
        lines = [line for line in said.splitlines() if line.startswith('{"seconds"')]
        job = json.loads(lines[-1])["seconds"] if lines else None
        return {"job": job, "whole": time.monotonic() - started, "cpu": _cpu() - before, "end": end, "killed": killed}

    def check(self) -> dict[str, Any]:
        """Return the contents, by the packer's own reader."""
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        try:
            command = [*self._command, "--check"]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        except subprocess.TimeoutExpired:
            return {"problem": "the reader hangs"}
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"samples"')]
        return dict(json.loads(lines[-1])) if lines else {"problem": _last(done.stderr)}

    def _kill(self, process: subprocess.Popen[str], photos: int) -> bool:
        """Kill a worker after a number of photos. Return whether there was one."""
        while process.poll() is None and sum(note.stat().st_size for note in self.notes.iterdir()) < photos:
            time.sleep(0.005)
        for name in random.sample(threads := os.listdir(self.notes), len(threads)):
            if int(name) != process.pid:
                try:
                    os.kill(int(name), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                return True
        return False


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:160] if lines else ""


def _cpu() -> float:
    """Return the CPU seconds of all processes that were started, also of those that are nobody's children."""
    if _CPUACCT.exists():
        return int((_CPUACCT / "cpuacct.usage").read_text()) / 1e9
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _reap() -> None:
    """Wait for processes whose parents have ended, as this process is their parent then."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            number, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if number == 0:
            time.sleep(0.05)


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description="Writing shards in several workers.")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--peers", type=Path, metavar="VENV", help="environment of the peers")
    parser.add_argument("--photos", type=Path, metavar="FOLDER", help="where to take photos from")
    parser.add_argument("--count", type=int, default=2400, help="number of photos")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="names of packers")
    options = parser.parse_args()
    if _CPUACCT.parent.exists() and os.access(_CPUACCT.parent, os.W_OK):
        _CPUACCT.mkdir()
        (_CPUACCT / "cgroup.procs").write_text(str(os.getpid()))
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    source = options.photos or (SAMPLE_PHOTOS if SAMPLE_PHOTOS.is_dir() else generated())
    photos = copies(source, options.count)
    names = [*OWN, *(PEERS if options.peers else ())]
    packers = []
    for name in options.only or names:
        python = Path(sys.executable) if name in OWN else options.peers / "bin" / "python"
        packers.append(Packer(name, python, photos, SCRATCH / "distributing" / name))
    runs: dict[str, list[dict[str, Any]]] = {packer.name: [] for packer in packers}
    for _ in range(options.rounds):
        for packer in packers:
            packer.clear()
            runs[packer.name].append(packer.run())
    results: dict[str, Any] = {}
    for packer in packers:
        done = [run for run in runs[packer.name] if run["job"] is not None]
        result: dict[str, Any] = {"rounds": runs[packer.name], "whole": packer.check()}
        if done:
            result |= {key: median(run[key] for run in done) for key in ("job", "cpu")}
            packer.clear()
            result["kill"] = packer.run(kill_after=options.count // 2)
            result["left"] = packer.check()
            result["again"] = packer.run()
            result["end"] = packer.check()
        results[packer.name] = result
        console.print(packer.name, json.dumps(result, default=str))
    table = Table("", "job s", "CPU s", "after a kill", "left", "after the same call again")
    for name, each in results.items():
        if "kill" in each:
            left, end = (f"{each[key].get('distinct', 0)} ({each[key].get('samples', 0)})" for key in ("left", "end"))
            table.add_row(name, f"{each['job']:.1f}", f"{each['cpu']:.1f}", each["kill"]["end"], left, end)
    console.print(table)
    if options.out is not None:
        options.out.write_text(json.dumps({"machine": machine(), "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
