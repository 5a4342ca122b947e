"""The digest of a dataset: one text that covers every byte of it, so that other tools can sign it.

It has the SHA-256 of every file in the form of `sha256sum`, which docs/signing.md specifies. The only
cryptography here is SHA-256: `ssh-keygen` and others make and check signatures.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bushel._dataset.open.discovery import expand_paths
from bushel._dataset.open.index_place import refuse_index_file
from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.views.inside import reader_of
from bushel._index.sidecar import FOLDER
from bushel._runtime.parallel import parallel_map
from bushel._runtime.public import public
from bushel._runtime.threads import cpu_count
from bushel.errors import FormatError, SpecError, UnsupportedError
from bushel.integrity.problems import Problem
from bushel.storage import AnyPath, below, read_whole, write_whole

DIGEST = "digest.txt"
"""Name of the digest of a folder in its `.bushel`; the digest of a file begins with the name of the file, as in
`train.tar.digest.txt`. The signature of `ssh-keygen` adds `.sig` to the name."""

NAMESPACE = "bushel"
"""The namespace of signatures of `ssh-keygen`: a signature that was made for something else is not accepted."""

_CHUNK = 4 << 20


@public()
def sign(source: Any, *, key: Any = None, workers: int | None = None) -> Path:
    """Write the digest of a local dataset, for a tool that signs it, and sign it with `ssh-keygen` if a key is given.

    The digest covers every byte of the data files, their names, the fields, the names of classes, and the list of
    removed samples. It reads all files. The same dataset gives the same digest on every machine (docs/signing.md).

    Args:
        source: A folder, or one file.
        key: Path of a private key of OpenSSH, or of a public key whose private key an agent has.
        workers: Number of files to read at once; by default the number of CPUs.

    Returns:
        Path of the digest.

    Raises:
        UnsupportedError: The dataset is not in one local folder, or `ssh-keygen` is missing or fails.
        FormatError: The dataset is incomplete, or a file is missing.
        OSError: A file cannot be read, or the digest cannot be written.

    Examples:
        >>> digest = bushel.sign("train/")
        >>> digest.name, bushel.check_digest("train/")
        ('digest.txt', ())
    """
    root, place = places_of_digest(source)
    text = _digest(source, root, workers or cpu_count())
    signature = Path(f"{place}.sig")
    signature.unlink(missing_ok=True)  # which would belong to another digest
    write_whole(place, text)
    if key is not None:
        _keygen("sign", "-f", str(key), "-n", NAMESPACE, str(place))
    return Path(str(place))


@public()
def check_digest(
    source: Any, *, allowed_signers: Any = None, signer: str | None = None, workers: int | None = None
) -> tuple[Problem, ...]:
    """Compare a local dataset with its digest, and the signature of that if signers are given.

    Args:
        source: A folder, or one file.
        allowed_signers: Path of a file of keys as `ssh-keygen` takes it (ALLOWED SIGNERS in its manual).
        signer: The identity in that file that must have signed, such as `ann@example.com`.
        workers: Number of files to read at once; by default the number of CPUs.

    Returns:
        What differs, each as a `Problem` of the kind `digest`; nothing if all is as it was signed.

    Raises:
        ValueError: Only one of `allowed_signers` and `signer` is given.
        UnsupportedError: The dataset is not in one local folder, or `ssh-keygen` is missing.
        OSError: A file cannot be read.

    Examples:
        >>> digest = bushel.sign("train/")
        >>> done = bushel.remove("train/", keys=["cat/0"], reason="opt-out")
        >>> [problem.message for problem in bushel.check_digest("train/")]
        ['removed was 0, and is 1 now', 'the digest does not list this file']
    """
    if (allowed_signers is None) != (signer is None):
        raise ValueError("give allowed_signers and signer together: a signature belongs to a signer")
    root, place = places_of_digest(source)
    try:
        known = read_whole(place)
    except FileNotFoundError:
        return (_problem(place, "the digest is missing: `bushel sign` writes one"),)
    found: list[Problem] = []
    if signer is not None:
        found += _wrong_signature(place, known, str(allowed_signers), signer)
    try:
        now = _digest(source, root, workers or cpu_count())
    except (FormatError, SpecError) as error:  # names of classes that differ are an error, too
        file = getattr(error, "file", None) or root
        found.append(_problem(file, f"the dataset cannot be opened: {getattr(error, 'message', error)}"))
        return (*found, *_other_files(root, known.decode("utf-8", "replace")))
    if now != known:
        found += _differences(root, place, known.decode("utf-8", "replace"), now.decode())
    return tuple(found)


def places_of_digest(source: Any) -> tuple[Path, Path]:
    """Return the folder that names in the digest are relative to, and the path of the digest."""
    paths = expand_paths(source)
    refuse_index_file(paths)
    if len(paths) != 1 or not isinstance(paths[0], Path):
        raise UnsupportedError(
            "a digest is of one local folder or file: copy the dataset to a disk, or sign each folder"
        )
    path = paths[0]
    if path.is_dir():
        return path, below(path, f"{_shared_folder(path)}/{DIGEST}")
    return path.parent, below(path.parent, f"{FOLDER}/{path.name}.{DIGEST}")


def _shared_folder(path: Path) -> str:
    """Return the folder of the digest; several bags share the folder of the first one, as `Shard.shared`."""
    if (path / FOLDER / DIGEST).exists():  # of an older version
        return FOLDER
    firsts = (each.name for each in path.iterdir() if set(each.name) == {"0"} and (each / "spec.json").exists())
    return next((f"{name}/{FOLDER}" for name in firsts), FOLDER)


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    path: AnyPath


def _digest(source: Any, root: Path, workers: int) -> bytes:
    """Return the digest of a dataset as it is now.

    Raises:
        FormatError: It is incomplete.
        SpecError: The name of a file has a line break.
    """
    with open_dataset(source, index="memory", damaged="raise", partial=True) as dataset:
        if not dataset.info.complete:
            raise FormatError("an incomplete dataset has no digest", file=str(root), hint="finish it with --resume")
        facts: dict[str, Any] = {
            "container": dataset.info.container,
            "spec": dataset.spec,
            "labels": {name: list(names) for name, names in sorted(dataset.labels.items())},
            "samples": int(reader_of(dataset).starts[-1]),
            "removed": dataset.info.removed,
        }
        files = [
            _Named(Path(str(shard.shard.path(number))).relative_to(root).as_posix(), shard.shard.path(number))
            for shard in dataset.shards
            for number in range(len(shard.shard.files))
        ]
        lists = {str(path): path for path, _ in dataset.shards[0].shard.removal_lists}
    there = (path for path in map(Path, lists) if path.is_relative_to(root) and path.exists())
    files += [_Named(path.relative_to(root).as_posix(), path) for path in there]
    for each in files:
        if any(sign in each.name for sign in "\n\r\\"):
            raise SpecError(f"the name {each.name!r} has a line break or a backslash, which a digest cannot have")
    files.sort(key=lambda each: each.name)
    lines = [
        "# bushel digest 1",
        *(f"# {name} {json.dumps(value, sort_keys=name != 'spec')}" for name, value in facts.items()),
    ]
    sums = parallel_map(_sha256, files, workers=max(1, min(workers, len(files))))
    lines += [f"{value}  {each.name}" for value, each in zip(sums, files, strict=True)]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _sha256(file: _Named) -> str:
    found = hashlib.sha256()
    with open(str(file.path), "rb", buffering=0) as opened:
        while data := opened.read(_CHUNK):
            found.update(data)
    return found.hexdigest()


def _differences(root: Path, place: AnyPath, known: str, now: str) -> Iterator[Problem]:
    """Yield the differences between two digests: files that changed, are gone, or are new, and facts."""
    if not known.startswith("# bushel digest 1\n"):
        yield _problem(place, "this is not a digest of version 1")
        return
    was, is_now = _entries(known), _entries(now)
    for name in sorted(was.keys() | is_now.keys()):
        if was.get(name) == is_now.get(name):
            continue
        if name.startswith("# "):
            yield _problem(place, f"{name[2:]} was {was.get(name)}, and is {is_now.get(name)} now")
        elif name not in is_now:
            yield _problem(f"{root}/{name}", "the digest lists this file, but it is not part of the dataset any more")
        elif name not in was:
            yield _problem(f"{root}/{name}", "the digest does not list this file")
        else:
            yield _problem(f"{root}/{name}", f"should have the SHA-256 {was[name]}, found {is_now[name]}")
    if list(was) == list(is_now) and was == is_now:
        yield _problem(place, "the digest has other lines than `bushel sign` writes")


def _other_files(root: Path, known: str) -> Iterator[Problem]:
    """Yield the files of a digest that are gone, or have other bytes."""
    for name, expected in _entries(known).items():
        if name.startswith("# "):
            continue
        try:
            path = below(root, name, any_text=True)
        except FormatError as error:  # a forged digest: no file elsewhere is read
            yield _problem(root, error.message)
            continue
        if not path.is_file():
            yield _problem(path, "the digest lists this file, which is gone")
        elif (found := _sha256(_Named(name, path))) != expected:
            yield _problem(path, f"should have the SHA-256 {expected}, found {found}")


def _entries(text: str) -> dict[str, str]:
    """Return the lines of a digest: value by name. The names of facts begin with `# `."""
    found = {}
    for line in filter(None, text.splitlines()[1:]):
        first, _, rest = line.removeprefix("# ").partition(" ")
        found[f"# {first}" if line.startswith("# ") else rest.removeprefix(" ")] = (
            rest if line.startswith("# ") else first
        )
    return found


def _wrong_signature(place: AnyPath, known: bytes, allowed_signers: str, signer: str) -> Iterator[Problem]:
    signature = Path(f"{place}.sig")
    if not signature.exists():
        yield _problem(signature, "the signature is missing: `bushel sign --key KEY` makes one")
        return
    try:
        _keygen("verify", "-f", allowed_signers, "-I", signer, "-n", NAMESPACE, "-s", str(signature), given=known)
    except UnsupportedError as error:
        yield _problem(signature, f"the digest is not signed by {signer}: {error}")


def _keygen(what: str, *arguments: str, given: bytes | None = None) -> None:
    """Run `ssh-keygen -Y`. Raise UnsupportedError if it is not installed, or fails."""
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UnsupportedError("ssh-keygen is not installed: it is part of OpenSSH (apt-get install openssh-client)")
    done = subprocess.run(
        [program, "-Y", what, *arguments],
        input=given,
        stdin=None if given is not None else subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise UnsupportedError(f"ssh-keygen -Y {what} ended with exit code {done.returncode}: {said}")


def _problem(file: object, message: str) -> Problem:
    return Problem(str(file), None, None, None, "digest", message)
