"""Codecs and specs that are named in files. A codec that runs code is only used if the caller asks for it.

A file that names such a codec, in a table, a manifest or a `spec.json`, gives the stored bytes: its
name becomes that of the codec `stored(…)` of it. `asked_for` is the reverse, for callers who allow
it.
"""

from __future__ import annotations

from collections.abc import Mapping

from bushel.codecs.registry import from_file, is_withheld
from bushel.spec import Field, Spec, parse_spec


def asked_for(codec: str) -> str:
    """Return the codec for callers who allow codecs that run code: `pickle` for `stored(pickle)`.

    Examples:
        >>> from bushel._index.file_spec import asked_for
        >>> asked_for("stored(pickle)"), asked_for("jpg")
        ('pickle', 'jpg')
    """
    while is_withheld(codec):
        codec = codec[len("stored(") : -1]
    return codec


def without_code(field: Field) -> Field:
    """Return a field as a file may declare it: with `from_file` of its codec."""
    codec = from_file(field.codec)
    if codec == field.codec:
        return field
    return Field(field.name, codec, field.sequence)


def spec_from_file(spec: Mapping[str, str]) -> Spec:
    """Parse a spec from a file.

    Raises:
        SpecError: It is malformed.

    Examples:
        >>> from bushel._index.file_spec import spec_from_file
        >>> spec_from_file({"notes": "pickle[]"})["notes"].type
        'stored(pickle)[]'
    """
    return {name: without_code(field) for name, field in parse_spec(spec).items()}
