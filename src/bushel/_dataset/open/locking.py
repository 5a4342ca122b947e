"""The locks of those who write a dataset: one writer at a time owns a target.

A folder has the lock `.bushel/writers/dataset.lock`. One file in it has `NAME.lock` there, and its
writer shares the lock of the folder, but in an object store, which has no shared locks. The
processes of a run in parts share the lock of its target: they work together and exclude others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bushel._index.shard import FOLDER
from bushel.storage import AnyPath, Lock, below, is_object, real_file
from bushel.storage.files import PathT

from .completeness import is_part, place_of, recover_files, run_folder

_PATIENCE = 120.0  # seconds to wait for others who join the same run
_WHOLE = "dataset"


def lock_of(root: PathT, name: str = _WHOLE) -> PathT:
    """Return the lock of a folder, or of one file in it."""
    return below(root, f"{FOLDER}/writers/{name}.lock", any_text=True)


def lock_target(path: AnyPath, *, single: bool, sync: bool = True) -> Lock:
    """Lock a target for as long as it is written. Read its files only after that.

    Args:
        path: Path of the dataset. It need not exist.
        single: Whether the dataset is one file.
        sync: Whether to put new folders on disk.

    Raises:
        InUseError: Another writer is open for it.
        OSError: The lock cannot be written.
    """
    root, name = _place(path, single=single)
    return Lock([] if root is None else _locks(root, name), path, sync=sync)


@contextmanager
def locked_sources(paths: Sequence[AnyPath]) -> Iterator[None]:
    """Lock datasets whose files another tool may have written, for as long as their index is written.

    Interrupted replacements of their files are completed or undone first.

    `paths` are files, and folders that contain the files of a dataset.

    Raises:
        InUseError: A writer is open for one of them.
        OSError: A lock cannot be written.
    """
    files: dict[str, list[AnyPath]] = {}
    folders: dict[str, AnyPath] = {}
    for path in paths:
        if not (path.exists() if isinstance(path, Path) else is_object(path) and path.writable):
            continue
        if path.is_file():
            real = real_file(path)
            if real is not path and below(real.parent, FOLDER).is_dir():  # as `with_links` has it
                path = real
            files.setdefault(str(path.parent), []).append(path)
        else:
            folders[str(path)] = path
    with ExitStack() as stack:
        for root, names in sorted(files.items()):
            if len(names) == 1 and root not in folders:
                stack.enter_context(lock_target(names[0], single=True))
                if isinstance(names[0], Path):
                    recover_files(names[0].parent, names[0].name)
            else:
                folders[root] = names[0].parent
        for _, folder in sorted(folders.items()):
            stack.enter_context(lock_target(folder, single=False))
            if isinstance(folder, Path):
                recover_files(folder)
        yield


def lock_run(
    path: AnyPath, *, single: bool, run: str, join: Callable[[], None] | None = None
) -> Lock:
    """Lock a target for a process that writes parts of a run, together with the other processes of this run.

    Args:
        path: The target of the run.
        single: Whether each part is one file beside it.
        run: Fingerprint of the run.
        join: Called while no other process can join or write, to write the plan of the run.

    Raises:
        InUseError: Another writer is open for the target, or another run.
        OSError: The lock cannot be written.
    """
    root, name = _place(path, single=single)
    if root is None or (join is None and is_object(root)):  # there, the plan refuses other writers
        if join is not None:
            join()
        return Lock((), "")  # a target that cannot have one
    gate = [] if join is None else [(lock_of(root, f"{name}.join"), False)]
    with Lock(gate, path, patience=_PATIENCE, sync=True):
        lock = Lock(_locks(root, name, shared=not is_object(root)), path, run=run, sync=True)
        try:
            if join is not None:
                join()
        except BaseException:
            lock.release()
            raise
        if is_object(root):  # before the next driver comes through the gate
            lock.release()
    return lock


def lock_part(path: AnyPath) -> Lock:
    """Lock a part for the process that writes it. Outside of its run, its writer takes the same lock.

    Raises:
        InUseError: Another process writes it.
        OSError: The lock cannot be written.
    """
    root = path.parent
    if isinstance(root, Path):
        root = Path(os.path.realpath(root))
    return Lock([(lock_of(root, path.name), False)], path, sync=True)


def _place(path: AnyPath, *, single: bool) -> tuple[AnyPath | None, str]:
    """Return the folder that has the lock of a target, None if it cannot have one, and its name."""
    single = single or (isinstance(path, Path) and path.is_file())  # no dataset: the writer says so
    root, name = place_of(path, single=single)
    name = name or _WHOLE
    if isinstance(root, Path):
        root = Path(os.path.realpath(root))
    elif not (is_object(root) and root.writable):
        return None, name
    if is_part(root.name) and (run_folder(root.parent, single=False) / "plan.json").exists():
        return root.parent, root.name  # so that its writer and the run exclude each other
    return root, name


def _locks(root: AnyPath, name: str, *, shared: bool = False) -> list[tuple[AnyPath, bool]]:
    """Return the locks of a target, and whether each is shared."""
    if name == _WHOLE:
        return [(lock_of(root), shared)]
    beside = [] if is_object(root) else [(lock_of(root), True)]
    return [*beside, (lock_of(root, name), shared)]
