"""`Claim`: taken by a writer when it is opened, renewed by a thread while it is open, and released when it is closed.

After a fork, only the parent has its claims. The locks of claims belong to open files, which a fork would share: so the
child closes them, and a child that outlives a killed writer does not keep the target.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bushel.errors import InUseError
from bushel.storage.base import AnyPath
from bushel.storage.claims.files import FileClaim, held_by, take_file
from bushel.storage.claims.holder import LEASE_SECONDS, Holder, describe, this_process
from bushel.storage.files import is_object
from bushel.storage.names import refuse_link
from bushel.storage.whole import make_folder, sync_folder

if TYPE_CHECKING:
    from bushel.storage.claims.objects import ObjectClaim

_RENEW_SECONDS = LEASE_SECONDS / 4
_PATIENCE = 120.0  # seconds to wait for a holder whose purpose is one of `waits_for`
_PAUSE = 0.02


class Claim:
    """The right of this process to write to a target, until it is released or the process ends.

    Other threads and processes are refused, and other machines, where the storage is a shared file system or an object
    store. On other storage, nothing is claimed.

    Args:
        path: The file or object of the claim, or None for a claim of nothing. Its folder is created if necessary, and
            removed with the claim if it is empty then.
        target: Path of the dataset, for errors.
        holder: This process and its purpose; by default to write.
        waits_for: Purposes of other holders that are waited for.
        covers_run: Whether the claim covers everything that this process writes of the holder's run in parts.
        sync: Whether new folders above the folder of the claim are put on disk.

    Raises:
        InUseError: Another writer has the claim.
        OSError: The claim cannot be written.
    """

    def __init__(
        self,
        path: AnyPath | None,
        target: object,
        holder: Holder | None = None,
        *,
        waits_for: Collection[str] = (),
        covers_run: bool = False,
        sync: bool = False,
    ) -> None:
        self.path, self._target = path, target
        self._held: _Held | None = None
        if path is not None and (isinstance(path, Path) or is_object(path)):
            made = _folders_to_make(path.parent) if isinstance(path, Path) else ()
            holder = holder or this_process()
            taken = _take(path, target, holder, waits_for, sync=sync)
            self._held = _Held(taken, holder.run if covers_run else "", made)
            weakref.finalize(self, self._held.release)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    @property
    def now(self) -> float:
        """The time of the last sign of life, by the clock of the storage."""
        return time.time() if self._held is None else self._held.place.now

    def check(self) -> None:
        """Check that this process still has the claim, before files get their final names.

        Raises:
            InUseError: This process is a fork of the one that has the claim, or another machine has taken it over.
        """
        self.check_process()
        if self._held is not None and not self._held.released and not self._held.place.is_ours():
            raise InUseError(
                f"{self._target}: this writer has lost its claim {self.path}, which was deleted, or taken over by "
                f"another machine because this process did not run for {LEASE_SECONDS:.0f} seconds. Nothing more is "
                "written; continue with mode='resume' when no other writer is active"
            )

    def check_process(self) -> None:
        """Check that this process has the claim.

        Raises:
            InUseError: It is a fork of the one that has it.
        """
        if self._held is not None and self._held.pid != os.getpid():
            raise InUseError(
                f"{self._target}: its writer was opened by process {self._held.pid}, and this process "
                f"({os.getpid()}) is a fork of it: open the writer in the process that writes"
            )

    def release(self) -> None:
        """Let others write to the target."""
        if self._held is not None:
            self._held.release()


class _Held:
    """A claim that this process has, and the thread that renews it.

    Args:
        place: The claim in its storage.
        run: Fingerprint of the run in parts, if the claim covers everything that this process writes for it; or empty.
        made: Folders that were made for it, from the outermost on.
    """

    def __init__(self, place: FileClaim | ObjectClaim, run: str, made: tuple[Path, ...]) -> None:
        self.place, self.run, self._made = place, run, made
        self.pid = os.getpid()
        self._ended = threading.Event()
        self.released = False
        self._thread = threading.Thread(target=self._renew, name="bushel-claim", daemon=True)
        self._thread.start()
        _HELD.add(self)

    def _renew(self) -> None:
        while not self._ended.wait(_RENEW_SECONDS):
            with suppress(OSError):  # `check` finds out whether the claim is lost
                self.place.renew()

    def release(self) -> None:
        """End the claim, once, in the process that has it."""
        if self.released or self.pid != os.getpid():
            return
        self.released = True
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self.place.release()
        if isinstance(self.place, FileClaim):
            folders = [self.place.path.parent, *reversed(self._made)]
            if (above := folders[0].parent).name == ".bushel" and above not in folders:
                folders.insert(1, above)
            for folder in folders:
                try:
                    folder.rmdir()
                except OSError:  # it contains the claim of another writer, or the dataset; or it was deleted
                    break


_HELD: weakref.WeakSet[_Held] = weakref.WeakSet()
"""The claims of this process, for `_after_fork`. A fork has no other way to learn which files it must close."""


def _after_fork() -> None:
    for held in list(_HELD):
        held.place.forget()


os.register_at_fork(after_in_child=_after_fork)


def claims_in(folder: AnyPath, own: Claim) -> dict[str, Holder]:
    """Return the living holders of the other claims in a folder, by the names of the claims."""
    mine = "" if own.path is None else own.path.name
    found: dict[str, Holder | None] = {}
    if isinstance(folder, Path):
        names = sorted(name for name in os.listdir(folder) if name != mine)
        found = {name: held_by(folder / name, own.now) for name in names}
    elif is_object(folder):
        from bushel.storage.claims.objects import object_held_by

        names = sorted(entry.name for entry in folder.iterdir() if entry.name != mine)
        found = {name: object_held_by(folder / name, own.now) for name in names if not name.endswith(".partial")}
    return {name: holder for name, holder in found.items() if holder is not None}


def holds_run(folder: AnyPath, run: str) -> bool:
    """Return whether this process has a claim in a folder that covers all that it writes of this run."""
    return any(
        held.run == run and not held.released and held.place.path.parent == folder and held.pid == os.getpid()
        for held in list(_HELD)
    )


def _take(
    path: AnyPath, target: object, holder: Holder, waits_for: Collection[str], *, sync: bool
) -> FileClaim | ObjectClaim:
    give_up = time.monotonic() + _PATIENCE
    while True:
        found = _try(path, holder, sync=sync)
        if found is not None and not isinstance(found, Holder):
            return found
        if found is None or found.purpose not in waits_for or time.monotonic() > give_up:
            raise InUseError(describe(found, target))
        time.sleep(_PAUSE)


def _try(path: AnyPath, holder: Holder, *, sync: bool) -> FileClaim | ObjectClaim | Holder | None:
    if is_object(path):
        from bushel.storage.claims.objects import take_object

        return take_object(path, holder)
    assert isinstance(path, Path)
    for _ in range(100):
        refuse_link(path.parent)
        try:
            if sync and (folder := path.parent.parent).exists():  # a killed process may have created it just before
                with suppress(PermissionError):
                    sync_folder(folder.parent)
            make_folder(path.parent.parent, sync=sync)
            path.parent.mkdir(exist_ok=True)
            return take_file(path, holder)
        except (FileNotFoundError, FileExistsError):  # its last holder removes the empty folder
            continue
    path.parent.mkdir(parents=True, exist_ok=True)
    return take_file(path, holder)


def _folders_to_make(folder: Path) -> tuple[Path, ...]:
    """Return the folders that do not exist above a folder, from the outermost on."""
    missing: list[Path] = []
    above = folder.parent
    while not above.exists():
        missing.append(above)
        above = above.parent
    return tuple(reversed(missing))
