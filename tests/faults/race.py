"""Two processes that write one dataset at once: run by `test_races`, in a process without threads."""

from __future__ import annotations

import os
import random
import sys
import time
import traceback
from pathlib import Path

import bushel

COUNT = 40


def _write(path: Path, container: str, value: bytes, pause: float, options: dict[str, int]) -> None:
    time.sleep(pause)
    spec = {"data": "jpg", "label": "int"} if container == "gulp" else {"data": "bytes", "label": "int"}
    with bushel.Writer(path, spec, container=container, sync=False, **options) as writer:  # type: ignore[arg-type]
        for number in range(COUNT):
            writer.append({"data": value * 500, "label": number}, key=f"k{number}")
            if number % 7 == 0:
                time.sleep(pause / 4)


def main() -> None:
    """`race.py FOLDER CONTAINER NAME ROUNDS SEED`."""
    folder, container, name, rounds, seed = sys.argv[1:]
    options = {} if "." in name else {"shard_samples": 10}
    refused = 0
    for number in range(int(rounds)):
        rng = random.Random(f"{seed}/{container}/{number}")
        path = Path(folder) / str(number) / name
        path.parent.mkdir()
        children = []
        for value in (b"a", b"b"):
            pause = rng.choice([0, 0.001, 0.01, 0.02])
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    _write(path, container, value, pause, options)
                    code = 0
                except FileExistsError:
                    code = 2
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            children.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        if sorted(codes) != [0, 2]:
            raise SystemExit(f"round {number}: exit codes {codes}")
        refused += 1
        dataset = bushel.open(path, verify=True)
        found = {bytes(sample["data"]) for sample in dataset.read(range(len(dataset)), decode=False)}
        winner = b"ab"[codes.index(0) : codes.index(0) + 1]
        if found != {winner * 500} or len(dataset) != COUNT or not bushel.verify(path).ok:
            raise SystemExit(f"round {number}: {len(dataset)} samples of {len(found)} writers")
    print(refused)


if __name__ == "__main__":
    main()
