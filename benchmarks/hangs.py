"""Known ways to hang or slow a training program, reproduced and measured (docs/hangs.md).

    python benchmarks/hangs.py [--small] [--patience SECONDS]

Every case runs in a process of its own, which is ended if it hangs. The cases need NumPy and the standard library only,
apart from Bushel.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.table import Table

import bushel
from measure import SCRATCH, console

FORK = """
import os, sys, threading, time
lock = threading.Lock()  # of a logger, a pool, an allocator: somebody's

def work():
    while True:
        with lock:
            time.sleep(0.001)

threading.Thread(target=work, daemon=True).start()
hung = 0
for _ in range(int(sys.argv[1])):
    time.sleep(0.0007)
    child = os.fork()
    if not child:
        os._exit(0 if lock.acquire(timeout=1) else 1)  # without the timeout, forever
    hung += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(f"{hung} of {sys.argv[1]} children hung")
"""

FORKED_LOADER = """
import os, sys
import bushel
batches = iter(bushel.Loader(bushel.open(sys.argv[1]), 16, threads=2))
next(batches)
child = os.fork()
if not child:
    try:
        list(batches)
        os._exit(2)
    except RuntimeError:  # the iteration is its parent's
        own = sum(len(batch["label"]) for batch in bushel.Loader(bushel.open(sys.argv[1]), 16, threads=2))
        os._exit(0 if own == int(sys.argv[2]) else 3)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print("the parent's iteration raises in the child, whose own loader works" if code == 0 else f"failed: {code}")
"""

SPAWN = """
import multiprocessing, sys

def work(number):
    return number

multiprocessing.set_start_method("spawn")
with multiprocessing.Pool(2) as pool:  # without `if __name__ == "__main__":`
    print(pool.map(work, range(4)))
"""

SPAWNED_LOADER = """
import sys
import bushel
loader = bushel.Loader(bushel.open(sys.argv[1]), 16, processes=2, threads=1)
print(sum(len(batch["label"]) for batch in loader), "samples")
"""

THREADS = """
import sys, time
import numpy as np
import bushel

def mix(image):  # a matrix product, which OpenBLAS shares among threads of its own
    pixels = image.reshape(-1, 192).astype(np.float32)
    for _ in range(8):
        pixels = pixels @ np.full((192, 192), 1 / 192, np.float32)
    return pixels

loader = bushel.Loader(bushel.open(sys.argv[1]), 16, transforms={"image": mix}, threads=4)
start, cpu = time.perf_counter(), time.process_time()
samples = sum(len(batch["label"]) for batch in loader)
wall, cpu = time.perf_counter() - start, time.process_time() - cpu
print(f"{samples / wall:,.0f} samples/s, {1e3 * cpu / samples:.2f} ms of CPU each")
"""

MODULE = """
def loop(image):  # pure Python: it holds the interpreter's lock
    total = 0
    for value in image[::4, ::4, 0].reshape(-1).tolist() * 60:
        total += value * value
    return total
"""

GIL = """
import sys, time
import bushel
from slow_transform import loop
path, workers, processes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
loader = bushel.Loader(bushel.open(path), 16, transforms={"image": loop}, threads=workers, processes=processes)
list(loader)  # the first epoch starts the processes, too
start = time.perf_counter()
samples = sum(len(batch["label"]) for batch in loader)
print(f"{samples / (time.perf_counter() - start):,.0f} samples/s")
"""


def main() -> None:
    """Write the dataset, run the cases and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a few seconds, for a look")
    parser.add_argument("--patience", type=float, default=60, help="seconds after which a case has hung")
    options = parser.parse_args()
    samples, forks = (64, 3) if options.small else (1024, 20)
    folder = SCRATCH / "hangs"
    path = _write(folder, samples)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    table = Table("case", "how", "what happened", "seconds")
    cases: list[tuple[str, str, str, tuple[str, ...], dict[str, str]]] = [
        ("fork after threads", "os.fork beside a thread with a lock", FORK, (str(forks),), {}),
        ("", "os.fork beside a Loader's threads", FORKED_LOADER, (path, str(samples)), {}),
        ("spawn without a main guard", "multiprocessing, spawn", SPAWN, (), {}),
        ("", "Loader(processes=2)", SPAWNED_LOADER, (path,), {}),
        ("oversubscription", f"4 workers x {cpus} BLAS threads", THREADS, (path,), {"OPENBLAS_NUM_THREADS": str(cpus)}),
        ("", "4 workers x 1 BLAS thread", THREADS, (path,), {"OPENBLAS_NUM_THREADS": "1"}),
        ("GIL-bound transform", "threads=1", GIL, (path, "1", "0"), {}),
        ("", f"threads={cpus}", GIL, (path, str(cpus), "0"), {}),
        ("", f"processes={cpus}, threads=1", GIL, (path, "1", str(cpus)), {}),
    ]
    for case, how, program, arguments, environment in cases:
        patience = options.patience
        if options.small and program is SPAWN:  # it hangs everywhere
            patience = 2
        start = time.perf_counter()
        said = _run(folder, program, arguments, environment, patience)
        table.add_row(case, how, said, f"{time.perf_counter() - start:.1f}")
    console.print(table)


def _write(folder: Path, samples: int) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "slow_transform.py").write_text(MODULE)
    noise = np.random.default_rng(0)
    with bushel.Writer(folder / "photos.tar", {"image": "jpg", "label": "int"}, mode="overwrite") as writer:
        for number in range(samples):
            writer.append({"image": noise.integers(0, 255, (96, 96, 3), np.uint8), "label": number})
    return str(folder / "photos.tar")


def _run(folder: Path, program: str, arguments: tuple[str, ...], environment: dict[str, str], patience: float) -> str:
    """Run a program from a script, and return its last line; its last error if it fails, or that it hung."""
    script = folder / "case.py"
    script.write_text(program)
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", str(script), *arguments]
    with subprocess.Popen(
        command,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment, "PYTHONPATH": paths},
        start_new_session=True,
    ) as process:
        try:
            out, error = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            # multiprocessing's tracker of semaphores outlives this signal, and removes them from /dev/shm
            os.killpg(process.pid, signal.SIGTERM)
            return f"hung for {patience:g} s, then was ended"
    lines = (out if process.returncode == 0 else error).strip().splitlines()
    return lines[-1].strip() if lines else f"ended with {process.returncode}"


if __name__ == "__main__":
    main()
