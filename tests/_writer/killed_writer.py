"""Kills writers at random moments until their dataset is whole: run by `test_kills`, in a process without threads."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests._dataset.views.models import MAGIC, SPECS, Sample, files_of, make_samples

import bushel

COUNT = 400
SUFFIX = {"tar": "x.tar", "ffrecord": "x.ffr", "recordio": "x.rec"}


def pack(path: Path, container: str, samples: list[Sample], report: int, options: dict[str, Any]) -> None:
    """Go on with a dataset from where it is, and say what cannot be lost any more."""
    rng = random.Random(os.getpid())
    try:
        writer = bushel.Writer(path, container=container, sync=False, **options)
    except FileExistsError:
        writer = bushel.Writer(path, container=container, sync=False, **{**options, "mode": "resume"})
    with writer:
        os.write(report, b"%d\n" % len(writer))
        for sample in samples[len(writer) :]:
            writer.append(sample)
            if rng.random() < 20 / len(samples):
                writer.flush()
                os.write(report, b"%d\n" % writer.published)
    os.write(report, b"%d\n" % len(samples))


def run(delay: float, *job: Any) -> tuple[bool, list[int]]:
    """Have a process do `pack` for so many seconds; whether it got ready, and the numbers that it reported."""
    reader, report = os.pipe()
    path, container, samples, options = job
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            pack(path, container, samples, report, options)
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    os.close(report)
    time.sleep(delay)
    os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with os.fdopen(reader) as lines:
        numbers = [int(line) for line in lines if line.endswith("\n")]
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"{path}: the writer failed with exit code {code} after {numbers}")
    return code == 0, numbers


def make_records(count: int) -> list[Sample]:
    """Samples that are framed together, a few of them alone, and values that RecordIO stores in pieces."""
    rng = random.Random(count)
    sizes = [40000 if rng.random() < 0.01 else rng.randrange(300) for _ in range(count)]
    return [{"data": MAGIC * (size // 4) if rng.random() < 0.02 else rng.randbytes(size)} for size in sizes]


def trial(folder: Path, container: str, form: str, *, rng: random.Random) -> int:
    """Write one dataset through kills; the number of kills."""
    single = form == "single"
    name = SUFFIX[container] if single else "ds"
    samples = make_records(10 * COUNT) if form == "records" else make_samples(container, COUNT)
    options: dict[str, Any] = {"mode": "append"} if single else {"mode": "resume", "shard_samples": len(samples) // 20}
    options["spec"] = {"data": "bytes"} if form == "records" else SPECS[container]
    first = samples[: COUNT // 3 if single else 0]
    for path in (folder / "whole", folder / "killed"):
        if single:
            with bushel.Writer(path / name, SPECS[container], sync=False) as writer:
                for sample in first:
                    writer.append(sample)
    begun = time.perf_counter()
    whole = bushel.Writer(folder / "whole" / name, container=container, sync=False, **options)
    with whole:
        for sample in samples[len(whole) :]:
            whole.append(sample)
    usual = time.perf_counter() - begun
    kills, kept, done = 0, len(first), False
    while not done:
        longest = usual * (0.4 + 0.2 * kills)
        done, numbers = run(rng.uniform(0, longest), folder / "killed" / name, container, samples, options)
        kills += not done
        if numbers and numbers[0] < kept:
            raise SystemExit(f"{folder}: {numbers[0]} samples after a kill where {kept} had been published")
        kept = max([kept, *numbers])
    if files_of(folder / "whole") != files_of(folder / "killed"):
        raise SystemExit(f"{folder}: the files differ from an undisturbed write, after {kills} kills")
    staged = [path for path in (folder / "killed").rglob("staging/*")]
    if staged:
        raise SystemExit(f"{staged[0]} is left")
    return kills


def main() -> None:
    """`killed.py FOLDER CONTAINER single|shards|records TRIALS SEED`."""
    folder, container, form, trials, seed = sys.argv[1:]
    kills = number = 0
    while min(kills, number) < int(trials):  # few are killed where the machine was slower at first than it is then
        rng = random.Random(f"{seed}/{container}/{form}/{number}")
        own = Path(folder) / str(number)
        kills += trial(own, container, form, rng=rng)
        shutil.rmtree(own)
        number += 1
    print(kills)


if __name__ == "__main__":
    main()
