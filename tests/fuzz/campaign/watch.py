"""Running a campaign: worker processes, each watched, their results, and the state from which it can be resumed."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tests.fuzz.campaign import board
from tests.fuzz.campaign.cases import ARMS
from tests.fuzz.campaign.worker import Bench, record_failure
from tests.paths import ROOT

import bushel

__all__ = ["Campaign", "Plan", "summary_of"]

HANG = 5.0
"""Seconds of CPU time that a case may take."""
_STUCK = 90.0
"""Seconds without CPU time to speak of after which a case counts as stuck."""
_CHUNK = 20_000
"""Cases of one process."""
_POLL, _SAVE = 0.2, 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign does.

    Attributes:
        suite: `read`, or `kernels`.
        containers: The containers.
        cases: Number of cases of each.
        seed: Its seed.
        threads: Number of processes.
        out: Folder for state, summary, and failures.
        deadline: Time in seconds since the epoch at which it stops; None for never.
        environment: Variables of the worker processes, for a build with sanitizers.
    """

    suite: str
    containers: Sequence[str]
    cases: int
    seed: int
    threads: int
    out: Path
    deadline: float | None = None
    environment: Mapping[str, str] | None = None


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    chunk: tuple[str, int]
    """Container and first case of the chunk."""
    numbers: npt.NDArray[np.int64]
    folder: Path
    log: Path
    case: int = -1
    cpu: float = 0.0
    since: float = field(default_factory=time.monotonic)


class Campaign:
    """A campaign, new or resumed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._state_file = plan.out / "state.json"
        plan.out.mkdir(parents=True, exist_ok=True)
        self._failures = plan.out / "failures.jsonl"
        self._identity = {"suite": plan.suite, "seed": plan.seed, "sanitized": plan.environment is not None}
        self._chunks: dict[str, dict[str, Any]] = {}
        if self._state_file.exists():
            state = json.loads(self._state_file.read_text())
            if state["identity"] != self._identity:
                raise SystemExit(f"{plan.out} has another campaign: {state['identity']}; give another --out")
            self._chunks = state["chunks"]
        self._place = Path(
            tempfile.mkdtemp(prefix="bushel-campaign-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        )
        self._running: dict[int, _Worker] = {}
        self._started, self._cpu = time.monotonic(), _children_cpu()

    def run(self) -> int:
        """Run until all cases are done, the deadline is reached, or Ctrl-C. Return the number of failed cases."""
        for number in (signal.SIGINT, signal.SIGTERM):  # a shell that starts it with & lets it ignore SIGINT
            signal.signal(number, signal.default_int_handler)
        waiting = self._waiting()
        saved = shown = time.monotonic()
        try:
            while waiting or self._running:
                late = self.plan.deadline is not None and time.time() > self.plan.deadline
                if late:
                    break
                for slot in range(self.plan.threads):
                    if slot not in self._running and waiting:
                        self._start(slot, waiting.pop(0))
                time.sleep(_POLL)
                for slot, worker in list(self._running.items()):
                    again = self._look(worker)
                    if again is not None:
                        del self._running[slot]
                        waiting[:0] = again
                now = time.monotonic()
                if now - saved > _SAVE or not (waiting or self._running):
                    saved = now
                    self._save()
                if now - shown > 60 or not (waiting or self._running):
                    shown = now
                    self._show()
        except KeyboardInterrupt:
            print("stopped; the same command resumes it", file=sys.stderr)
        finally:
            for worker in self._running.values():
                worker.process.kill()
                worker.process.wait()
                self._count(worker)
            self._running.clear()
            shutil.rmtree(self._place, ignore_errors=True)
            self._save()
        return int(summary_of(self.plan.out)["failed"])

    def _waiting(self) -> list[tuple[str, int]]:
        """Return the chunks that are not finished, the containers in turns."""
        waiting = []
        for first in range(0, self.plan.cases, _CHUNK):
            for container in self.plan.containers:
                done = self._chunks.get(f"{container}@{first}")
                if done is None or done["next"] < self._stop(first):
                    waiting.append((container, first))
        return waiting

    def _stop(self, first: int) -> int:
        return min(first + _CHUNK, self.plan.cases)

    def _start(self, slot: int, chunk: tuple[str, int]) -> None:
        container, first = chunk
        start = self._chunks.get(f"{container}@{first}", {"next": first})["next"]
        folder, log = self._place / str(slot), self.plan.out / f"worker-{slot}.log"
        shutil.rmtree(folder, ignore_errors=True)
        numbers = self._place / f"{slot}.board"
        shared = board.make_board(numbers, start)
        options = ["-S"] if self.plan.environment else []
        command = [sys.executable, *options, "-m", "tests.fuzz.campaign.worker", self.plan.suite, container]
        command += [
            str(self.plan.seed),
            str(start),
            str(self._stop(first)),
            str(folder),
            str(numbers),
            str(self._failures),
        ]
        environment = {**os.environ, **(self.plan.environment or {}), "TZ": "UTC", "OMP_NUM_THREADS": "1"}
        if self.plan.environment:
            environment["PYTHONPATH"] = f"{environment['PYTHONPATH']}:{ROOT}"
        with open(log, "wb") as output:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        self._running[slot] = _Worker(process, chunk, shared, folder, log)

    def _look(self, worker: _Worker) -> list[tuple[str, int]] | None:
        """Return None while a worker is fine; else the chunks to do next in its place."""
        container, first = worker.chunk
        code = worker.process.poll()
        if code is None:
            case, cpu = int(worker.numbers[board.CASE]), _cpu(worker.process.pid)
            if case != worker.case or worker.numbers[board.BASELINE] == 0:
                worker.case, worker.cpu, worker.since = case, cpu, time.monotonic()
                if cpu < 300 or worker.numbers[board.BASELINE]:
                    return None
            slow = 10 if self.plan.environment else 1
            waited = time.monotonic() - worker.since
            if cpu - worker.cpu <= HANG * slow and waited <= _STUCK * slow:
                return None
            worker.process.send_signal(signal.SIGUSR1)
            time.sleep(0.5)
            worker.process.kill()
            worker.process.wait()
            self._fail(worker, "hang", f"more than {HANG * slow} s")
        elif code == 3:  # memory: already recorded
            self._count(worker)
        elif code != 0:
            self._fail(worker, "crash", f"exit status {code}")
        else:
            self._count(worker)
        done = self._chunks[f"{container}@{first}"]["next"]
        return [worker.chunk] if done < self._stop(first) else []

    def _fail(self, worker: _Worker, kind: str, what: str) -> None:
        """Record the case at which a process ended, and count it as done."""
        container, _ = worker.chunk
        number = int(worker.numbers[board.CASE])
        output = worker.log.read_bytes()[-6000:].decode("utf-8", "replace")
        if worker.numbers[board.BASELINE] == 0:
            raise SystemExit(f"a worker process cannot start ({what}):\n{output}")
        print(f"{kind}: {container}, case {number}: {what}", flush=True)
        bench = Bench(container, self.plan.seed, self._place / "failed")
        case = bench.case(number)
        record_failure(self._failures, case, container, kind, f"{kind}: {what}", output)
        worker.numbers[board.ARM + case.arm] += 1
        worker.numbers[board.FAILED] += 1
        worker.numbers[board.CASE] = number + 1
        self._count(worker)

    def _count(self, worker: _Worker) -> None:
        container, first = worker.chunk
        self._chunks[f"{container}@{first}"] = self._counted(worker)

    def _counted(self, worker: _Worker) -> dict[str, Any]:
        """Return the numbers of a chunk, with a running worker's."""
        container, first = worker.chunk
        before = self._chunks.get(f"{container}@{first}")
        numbers = [int(number) for number in worker.numbers]
        starts = {"cases": board.ARM, "opened": board.OPENED, "samples": board.SAMPLES}
        now: dict[str, Any] = {name: numbers[start : start + len(ARMS)] for name, start in starts.items()}
        now |= {"next": numbers[board.CASE], "failed": numbers[board.FAILED], "peak": numbers[board.PEAK]}
        if before is not None:
            for name in starts:
                now[name] = [one + other for one, other in zip(before[name], now[name], strict=True)]
            now["failed"] += before["failed"]
            now["peak"] = max(before["peak"], now["peak"])
        return now

    def _save(self) -> None:
        """Write the state and the summary, running workers included."""
        chunks = dict(self._chunks)
        for worker in self._running.values():
            container, first = worker.chunk
            chunks[f"{container}@{first}"] = self._counted(worker)
        _replace(self._state_file, {"identity": self._identity, "chunks": chunks})
        path = self.plan.out / "summary.json"
        before = json.loads(path.read_text())["runs"] if path.exists() else []
        runs = [run for run in before if run["process"] != os.getpid()]
        cpu = _children_cpu() - self._cpu + sum(_cpu(worker.process.pid) for worker in self._running.values())
        runs.append(
            {
                "process": os.getpid(),
                "commit": _commit(),
                "ended": datetime.now(UTC).isoformat(timespec="seconds"),
                "wall_seconds": round(time.monotonic() - self._started),
                "cpu_seconds": round(cpu),
            }
        )
        _replace(path, _summary(self.plan, self._identity, chunks, self._failures, runs))

    def _show(self) -> None:
        summary = summary_of(self.plan.out)
        parts = [f"{name} {each['cases']:,}" for name, each in summary["containers"].items()]
        seconds = summary["runs"][-1]["wall_seconds"]
        print(f"{seconds // 60} min: {', '.join(parts)} cases; {summary['failed']} failed", flush=True)


def summary_of(out: Path) -> dict[str, Any]:
    """Return the summary of a campaign, as it is now."""
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def _summary(
    plan: Plan, identity: Mapping[str, Any], chunks: Mapping[str, Any], failures: Path, runs: Sequence[Any]
) -> dict[str, Any]:
    containers: dict[str, Any] = {}
    for name, chunk in chunks.items():
        each = containers.setdefault(
            name.partition("@")[0],
            {"cases": 0, "failed": 0, "peak_mib": 0, "arms": {arm: [0, 0, 0] for arm in ARMS}},
        )
        each["cases"] += sum(chunk["cases"])
        each["failed"] += chunk["failed"]
        each["peak_mib"] = max(each["peak_mib"], chunk["peak"] >> 20)
        for number, arm in enumerate(ARMS):
            for row, kind in enumerate(("cases", "opened", "samples")):
                each["arms"][arm][row] += chunk[kind][number]
    lines = [json.loads(line) for line in failures.read_text().splitlines()] if failures.exists() else []
    return {
        **identity,
        "planned": plan.cases,
        "version": bushel.__version__,
        "processor": _processor(),
        "python": platform.python_version(),
        "failed": sum(each["failed"] for each in containers.values()),
        "failures": dict(Counter(f"{line['container']}: {line['signature']}" for line in lines).most_common()),
        "arms": "[cases, datasets opened, samples read]",
        "containers": dict(sorted(containers.items())),
        "runs": list(runs),
    }


def _replace(path: Path, value: object) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value, indent=1))
    new.replace(path)


def _cpu(process: int) -> float:
    """Return the seconds of CPU time of a running process."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()
