"""Manifests: writing them, and reading those that may be missing or damaged. `sidecar` reads the others."""

# Annotations are evaluated here, as in `sidecar`.

from collections.abc import Mapping

import msgspec

from bushel.errors import FormatError
from bushel.spec import Spec, parse_spec
from bushel.storage import AnyPath, create_whole, write_whole

from .sidecar import Manifest, readable_manifest, seal, without_code

_INDENTED = 1000  # a manifest of more shards has no white space, which takes half of it


def find_manifest(path: AnyPath) -> Manifest | None:
    """Return the manifest at a path; None if it is missing, unreadable or damaged.

    Raises:
        OSError: An object store cannot be reached.
    """
    try:
        return readable_manifest(path)
    except FormatError:
        return None


def save_manifest(manifest: Manifest, path: AnyPath, *, sync: bool = True) -> None:
    """Write a manifest atomically. With `sync`, wait until it is on disk."""
    write_whole(path, _encoded(manifest), sync=sync)


def create_manifest(manifest: Manifest, path: AnyPath) -> None:
    """Write a manifest, unless there is one."""
    create_whole(path, _encoded(manifest))


def _encoded(manifest: Manifest) -> bytes:
    data = msgspec.json.encode(manifest)
    if len(manifest.shards) <= _INDENTED:
        data = msgspec.json.format(data, indent=1)
    return sealed(data)


def sealed(manifest: bytes) -> bytes:
    """Return the JSON of a manifest with the CRC-32 of all bytes before it as its last member."""
    body = manifest.rstrip()[:-1].rstrip() + b',\n "crc32": "'
    return body + seal(body)


def spec_from_file(spec: Mapping[str, str]) -> Spec:
    """Parse a spec from a file.

    Raises:
        SpecError: It is malformed.

    Examples:
        >>> from bushel._index.manifest import spec_from_file
        >>> spec_from_file({"notes": "pickle[]"})["notes"].type
        'stored(pickle)[]'
    """
    return {name: without_code(field) for name, field in parse_spec(spec).items()}
