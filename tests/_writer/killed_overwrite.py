"""Kill writers with mode="overwrite" at file operations: run by `test_overwrite`, in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from tests._dataset.views.models import SPECS, make_samples, opened, plain, write

import bushel
from bushel._writer import publishing
from bushel._writer.target import WriterOptions

EVENTS = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "ctypes.dlsym")


def replace(path: Path, container: str, samples: list[dict[str, Any]], **options: Any) -> None:
    """Overwrite a dataset."""
    with bushel.Writer(path, SPECS[container], container=container, mode="overwrite", sync=False, **options) as writer:
        for sample in samples:
            writer.append(sample)


def killed(number: int, *job: Any, **options: Any) -> bool:
    """Have a process do `replace` and kill itself before its file operation of this number; whether it was killed."""
    pid = os.fork()
    if pid == 0:
        seen = 0

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal seen
            if event in EVENTS:
                seen += 1
                if seen > number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        try:
            replace(*job, **options)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"{job}: the writer failed with exit code {code} at operation {number}")
    return code != 0


def values(path: Path) -> list[Any]:
    """The samples of a dataset without their keys, which a recordio file without its table does not have."""
    return [plain({name: value for name, value in sample.items() if name != "__key__"}) for sample in opened(path)]


def main() -> None:
    """`killed_overwrite.py FOLDER NAME OLD_CONTAINER NEW_CONTAINER STEP`: kill at each STEP-th operation."""
    folder, name, before, after, step = sys.argv[1:]
    old, new = make_samples(before, 7, seed=1), make_samples(after, 9, seed=2)
    options = {} if "." in name and after != "bag" else {"shard_samples": 4}
    write(Path(folder) / "old" / name, before, old)
    replace(Path(folder) / "new" / name, after, new, **options)
    wanted = [values(Path(folder) / state / name) for state in ("old", "new")]
    found = []
    number = 0
    while True:
        parent = Path(folder) / "killed"
        shutil.copytree(Path(folder) / "old", parent)
        was_killed = killed(number, parent / name, after, new, **options)
        try:
            found.append(wanted.index(values(parent / name)))
        except ValueError:
            if before != "recordio" or (parent / "x.idx").exists():
                raise SystemExit(f"neither the old nor the new dataset is there after operation {number}") from None
        beside = {path.name for path in parent.iterdir()} - {path.name for path in (Path(folder) / "old").iterdir()}
        beside -= {path.name for path in (Path(folder) / "new").iterdir()}
        if beside - {".bushel"}:
            raise SystemExit(f"{beside} are left beside the dataset after operation {number}")
        publishing.lock_for_writing(parent / name, WriterOptions(container=after)).release()
        if values(parent / name) not in wanted:
            raise SystemExit(f"neither is there after operation {number} and a recovery")
        replace(parent / name, after, new, **options)
        if values(parent / name) != wanted[1]:
            raise SystemExit(f"the next overwrite failed after operation {number}")
        if (parent / ".bushel" / "overwrite").exists():
            raise SystemExit(f"a staging folder is left after operation {number}")
        shutil.rmtree(parent)
        if not was_killed:
            break
        number += int(step)
    if found != sorted(found) or set(found) != {0, 1}:
        raise SystemExit(f"the states after the kills are {found}")
    print(number)


if __name__ == "__main__":
    main()
