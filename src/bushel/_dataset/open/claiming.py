"""The claims of those who write a dataset: one writer at a time owns a target.

The claims of the datasets in a folder are files in its `.bushel/writers`: `dataset.claim` for the folder as a dataset,
`NAME.claim` for one file in it, and, for a run in parts, a file `….run` for each process that takes part in it. So a
run's processes work together, and exclude all others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bushel._dataset.open.folders import is_part, run_folder
from bushel._index.sidecar import FOLDER
from bushel.errors import InUseError
from bushel.storage import AnyPath, is_object
from bushel.storage.claims import Claim, Holder, claims_in, describe, holds_run, this_process

NO_CLAIM = Claim(None, "")
"""The claim of a writer whose target no other process can have, as the attempt of a part."""
_WHOLE = "dataset"


def claims_folder(root: AnyPath) -> AnyPath:
    """Return the folder of the claims of the datasets in a folder."""
    return root / FOLDER / "writers"


def claim_target(path: AnyPath, *, single: bool, follow: bool = False, sync: bool = True) -> Claim:
    """Claim a target for as long as it is written. Read its files only after that.

    Args:
        path: Path of the dataset. It need not exist.
        single: Whether the dataset is one file.
        follow: Whether a file that is a symbolic link stands for its target, not for itself.
        sync: Whether to put new folders on disk.

    Raises:
        InUseError: Another writer is open for it.
        OSError: The claim cannot be written.
    """
    root, name = _place(Path(os.path.realpath(path)) if follow and isinstance(path, Path) else path, single=single)
    if root is None:
        return NO_CLAIM
    folder = claims_folder(root)
    claim = Claim(folder / f"{name}.claim", path, waits_for=("join",), sync=sync)
    return _unless_conflict(claim, folder, name, path)


@contextmanager
def claimed_sources(paths: Sequence[AnyPath]) -> Iterator[None]:
    """Claim datasets whose files another tool may have written, for as long as their index is written.

    `paths` are files, and folders that contain the files of a dataset.

    Raises:
        InUseError: A writer is open for one of them.
        OSError: A claim cannot be written.
    """
    files: dict[str, list[AnyPath]] = {}
    folders: dict[str, AnyPath] = {}
    for path in paths:
        if not (path.exists() if isinstance(path, Path) else is_object(path) and path.writable):
            continue
        if path.is_file():
            files.setdefault(str(path.parent), []).append(path)
        else:
            folders[str(path)] = path
    with ExitStack() as stack:
        for root, names in sorted(files.items()):
            if len(names) == 1 and root not in folders:
                stack.enter_context(claim_target(names[0], single=True))
            else:
                folders[root] = names[0].parent
        for _, folder in sorted(folders.items()):
            stack.enter_context(claim_target(folder, single=False))
        yield


def claim_run(path: AnyPath, *, single: bool, run: str, join: Callable[[], None] | None = None) -> Claim:
    """Claim a target for a process that writes parts of a run, together with the other processes of this run.

    Args:
        path: The target of the run.
        single: Whether each part is one file beside it.
        run: Fingerprint of the run.
        join: Called while no other process can join or write, to write the plan of the run. By default, the process
            writes one part; then nothing is claimed if it has joined the run already.

    Raises:
        InUseError: Another writer is open for the target, or another run.
        OSError: The claim cannot be written.
    """
    root, name = _place(path, single=single)
    if root is None:
        if join is not None:
            join()
        return NO_CLAIM
    folder = claims_folder(root)
    if join is None and holds_run(folder, run):
        return NO_CLAIM
    gate = Claim(folder / f"{name}.claim", path, this_process("join", run), waits_for=("join",), sync=True)
    with _unless_conflict(gate, folder, name, path, run):
        holder = this_process("write", run)
        member = Claim(folder / f"{name}.{holder.token}.run", path, holder, covers_run=join is not None)
        try:
            if join is not None:
                join()
        except BaseException:
            member.release()
            raise
    return member


def conflict(name: str, run: str, others: Mapping[str, Holder]) -> Holder | None:
    """Return a holder whose claim excludes a writer, or None.

    Args:
        name: The writer's target: the name of its file, or `dataset` for the folder.
        run: Fingerprint of the writer's run in parts, or empty.
        others: The other living claims in the folder, by name.
    """
    for claimed, holder in others.items():
        target = claimed.removesuffix(".claim")
        if claimed.endswith(".run"):
            target = claimed.removesuffix(".run").rpartition(".")[0]
            if run and target == name and holder.run == run:
                continue
        if _WHOLE in (name, target) or name == target:
            return holder
    return None


def _place(path: AnyPath, *, single: bool) -> tuple[AnyPath | None, str]:
    """Return the folder whose claims a target is among, and its name there; no folder if nothing can be claimed."""
    single = single or (isinstance(path, Path) and path.is_file())  # which is not a dataset: the writer raises that
    root, name = (path.parent, path.name) if single else (path, _WHOLE)
    if isinstance(root, Path):
        root = Path(os.path.realpath(root))
    elif not (is_object(root) and root.writable):
        return None, name
    if is_part(root.name) and (run_folder(root.parent, single=False) / "plan.json").exists():
        return root.parent, root.name  # so that the run above it and its writer exclude each other
    return root, name


def _unless_conflict(claim: Claim, folder: AnyPath, name: str, path: AnyPath, run: str = "") -> Claim:
    """Return a new claim, or release it if another claim in its folder excludes it."""
    try:
        holder = conflict(name, run, claims_in(folder, claim))
    except BaseException:
        claim.release()
        raise
    if holder is not None:
        claim.release()
        raise InUseError(describe(holder, path))
    return claim
