"""Claims in an object store.

A claim is an object that was created on the condition that it did not exist. Its holder writes it again from time to
time, on the condition that it is still its own; other machines take it over, on the condition that it has not changed,
when that has not happened for a while by the clock of the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bushel.storage.claims.holder import LEASE_SECONDS, Holder, is_gone, parse
from bushel.storage.objects.client import library, store_of
from bushel.storage.objects.location import ObjectPath
from bushel.storage.objects.retries import persistently, translated
from bushel.storage.objects.upload import delete

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutResult, UpdateVersion

_ATTEMPTS = 20
"""Number of times that a claim is tried while others create, release and take over the same one."""

_LEFT: set[str] = set()
"""Tokens of claims that this process released without the store, which could not be reached."""


@dataclass(slots=True)
class ObjectClaim:
    """A claim that this process has.

    Attributes:
        path: Its object.
        holder: This process.
        version: The version of the object; empty if the store has no versions.
        ours: False in a fork, and after another machine has taken the claim over.
        renewals: Number of signs of life. In S3 the tag follows from the content, so each has another content.
    """

    path: ObjectPath
    holder: Holder
    version: UpdateVersion
    ours: bool = True
    renewals: int = 0

    def is_ours(self) -> bool:
        """Return whether the object still belongs to this claim.

        Raises:
            OSError: The store cannot be reached.
        """
        if self.ours:
            found = _load(self.path)
            self.ours = found is not None and found.holder is not None and found.holder.token == self.holder.token
            self.version = found.version if found is not None and self.ours else {}
        return self.ours

    @property
    def now(self) -> float:
        """The time of the last sign of life, by the clock of the store."""
        found = _load(self.path)
        return self.holder.since if found is None else found.renewed

    def renew(self) -> None:
        """Give a sign of life."""
        self.renewals += 1
        if self.ours and not _replace(self.path, self.holder, self.version, self) and self.is_ours():
            _replace(self.path, self.holder, self.version, self)  # the answer to an earlier request was lost

    def release(self) -> None:
        """Remove the object."""
        try:
            if self.is_ours():
                delete(self.path)
        except OSError:  # others may take it over after a while, and this process at once
            _LEFT.add(self.holder.token)
        self.ours = False

    def forget(self) -> None:
        """Leave the claim to the holder, in a fork of it."""
        self.ours = False


def take_object(path: ObjectPath, holder: Holder) -> ObjectClaim | Holder | None:
    """Claim a name in a store.

    Returns:
        The claim; or, if it is taken, its holder, or None if that cannot be read.

    Raises:
        OSError: The store refuses, or cannot be reached; it refuses each conditional request (`ConnectionError`).
    """
    claim = ObjectClaim(path, holder, {})
    for _ in range(_ATTEMPTS):
        if _create(path, holder, claim):
            return claim
        found = _load(path)
        if found is None:  # released meanwhile
            continue
        if found.holder is not None and found.holder.token == holder.token:  # the answer to this request was lost
            claim.version = found.version
            return claim
        if not _gone(found, _now_beside(path, holder)):
            return found.holder
        if _replace(path, holder, found.version, claim):
            return claim
    raise ConnectionError(
        f"{path}: the store refused {_ATTEMPTS} times to create this object and to replace its last version; expected "
        "conditional requests (If-None-Match and If-Match) to work. If no writer is active, delete the object"
    )


def object_held_by(path: ObjectPath, now: float) -> Holder | None:
    """Return the living holder of a claim; None if the claim does not exist or its holder has ended."""
    found = _load(path)
    return None if found is None or _gone(found, now) else found.holder


@dataclass(frozen=True, slots=True)
class _Found:
    holder: Holder | None
    version: UpdateVersion
    renewed: float


def _gone(found: _Found, now: float) -> bool:
    if found.holder is not None and found.holder.token in _LEFT:
        return True
    silent = now - found.renewed
    return silent > LEASE_SECONDS if found.holder is None else is_gone(found.holder, locked=None, silent=silent)


def _load(path: ObjectPath) -> _Found | None:
    """Return the claim in an object, or None if the object does not exist."""

    def get() -> _Found:
        answer = library().get(store_of(path.root, retries=False), path.key)
        meta = answer.meta
        return _Found(parse(bytes(answer.bytes())), _version_in(meta), meta["last_modified"].timestamp())

    try:
        return persistently(str(path), get)
    except FileNotFoundError:
        return None


def _now_beside(path: ObjectPath, holder: Holder) -> float:
    """Return the time by the clock of the store, from an object that is written for it."""
    probe = path.parent / f"{path.name}.{holder.token}.partial"
    store = store_of(path.root, retries=False)
    try:
        persistently(str(probe), lambda: library().put(store, probe.key, b"", use_multipart=False))
        found = _load(probe)
        return holder.since if found is None else found.renewed
    finally:
        delete(probe)


def _create(path: ObjectPath, holder: Holder, claim: ObjectClaim) -> bool:
    """Create the object of a claim, and return False if there is one."""
    obstore = library()
    from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

    store = store_of(path.root, retries=False)

    def put() -> bool:
        try:
            claim.version = _version_in(obstore.put(store, path.key, holder.encode(), mode="create"))
        except (AlreadyExistsError, PreconditionError):
            return False
        except NotSupportedError:  # a store without conditional puts
            if path.exists():
                return False
            obstore.put(store, path.key, holder.encode(), use_multipart=False)
            found = _load(path)
            return found is not None and found.holder == holder
        return True

    with translated(str(path)):
        return persistently(str(path), put)


def _replace(path: ObjectPath, holder: Holder, version: UpdateVersion, claim: ObjectClaim) -> bool:
    """Write the object of a claim again if it still has this version, and return whether it had."""
    obstore = library()
    from obstore.exceptions import NotSupportedError, PreconditionError

    store = store_of(path.root, retries=False)
    data = holder.encode() + b" " * (claim.renewals % 64)

    def put(version: UpdateVersion) -> bool:
        try:
            claim.version = _version_in(obstore.put(store, path.key, data, mode=version or "overwrite"))
        except (PreconditionError, FileNotFoundError):
            return False
        except NotSupportedError:
            found = _load(path)
            if found is None or found.version != version:
                return False
            claim.version = _version_in(obstore.put(store, path.key, data, use_multipart=False))
        return True

    tag = version.get("e_tag") or ""
    with translated(str(path)):
        if persistently(str(path), lambda: put(version)):
            return True
        plain: UpdateVersion = {**version, "e_tag": tag.strip('"')}  # Ceph 16 compares If-Match without the quotes
        return plain["e_tag"] != tag and persistently(str(path), lambda: put(plain))


def _version_in(found: PutResult | ObjectMeta) -> UpdateVersion:
    """Return the version of an object: S3 and Azure compare its ETag, Google Cloud Storage its generation."""
    version: UpdateVersion = {}
    if found.get("e_tag") is not None:
        version["e_tag"] = found["e_tag"]
    if found.get("version") is not None:
        version["version"] = found["version"]
    return version
