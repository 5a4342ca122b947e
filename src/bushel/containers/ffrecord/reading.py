"""Read the fields and folder names of FFRecord files."""

from __future__ import annotations

from bushel._index.table import Keys
from bushel.errors import FormatError, SpecError
from bushel.spec import Field, Spec
from bushel.storage import File

__all__ = ["DATA", "folder_keys", "hint", "only_field"]

DATA = Field("data", "bytes")
"""The field of records that are stored as they are."""


def hint(file: File) -> str:
    """Return what to do about a damaged file."""
    return f"run `bushel verify {file.path}`"


def folder_keys(paths: list[str], file: File) -> Keys:
    """Return the keys of a packed folder.

    Raises:
        FormatError: A path is not valid text.
    """
    try:
        return Keys.of(paths)
    except UnicodeEncodeError as error:
        raise FormatError(f"the path {error.object!r} is not valid text", file=file.path, hint=hint(file)) from error


def only_field(spec: Spec | None, file: File) -> Field:
    """Return the field of records that are stored as they are: `data`, unless the user declares another one.

    Raises:
        SpecError: The user declares several.
    """
    fields = list((spec or {"data": DATA}).values())
    if len(fields) != 1 or fields[0].sequence:
        raise SpecError(f"{file.path} holds records of one field: pass a spec of one field to open, not {len(fields)}")
    return fields[0]
