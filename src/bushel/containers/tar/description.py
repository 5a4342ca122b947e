"""The description in an archive that Bushel wrote: names and types of its fields, and names of classes.

It is a comment for the whole archive (a global PAX record), which other readers of archives pass
over. Names and types are stored as in a sidecar, so that an archive that lost its sidecar is read
as before. It is not trusted: unusable parts are ignored with a warning in the log, and the fields
then follow from the extensions.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import field

from bushel._index.class_names import Labels, can_be_named, check_labels
from bushel._index.file_spec import spec_from_file
from bushel._runtime.log import log_warning
from bushel._runtime.structs import Struct
from bushel.codecs import get_codec
from bushel.containers.tar.names import Naming, extension_of
from bushel.errors import BushelError, FormatError, SpecError
from bushel.spec import Field, Spec, format_spec

_BEGIN = b"bushel-fields "
_VERSION = 1
_MOST_BYTES = (1 << 20) - 64
"""Bytes of a comment that every reader of archives in Bushel takes, with the rest of its record."""

_MALFORMED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BushelError)


class Description(Struct, frozen=True):
    """The fields of an archive, by its own description."""

    # its fields, without codecs that run code (`spec_from_file`)
    spec: Spec = field(default_factory=dict)
    labels: Labels = field(default_factory=dict)  # names of classes

    def with_declared(self, declared: Spec | None) -> Spec | None:
        """Return the fields by which members are found: those that the caller declares, and the others of the archive.

        A declared field of the archive has the same members with another type. One that has the
        members of another field replaces it. None without fields.
        """
        if not declared or not self.spec:
            return declared or self.spec or None
        declared_fields = {name: self._own(given) for name, given in declared.items()}
        naming = Naming(declared_fields)
        return declared_fields | {
            name: described
            for name, described in self.spec.items()
            if naming(_an_extension(described)).field.name not in declared_fields
        }

    def _own(self, given: Field) -> Field:
        described = self.spec.get(given.name, given)
        if described.sequence == given.sequence:
            return described
        return given


class _Saved(msgspec.Struct, omit_defaults=True):
    """The JSON in a comment: field to type, and field to names of classes."""

    spec: dict[str, str]
    labels: dict[str, list[str]] = {}


def description_in(comment: bytes, path: str) -> Description:
    """Parse the comment of an archive. A comment of another program gives an empty description."""
    if not comment.startswith(_BEGIN):
        return Description()
    version, _, text = comment[len(_BEGIN) :].partition(b" ")
    if version != b"%d" % _VERSION:
        log_warning(
            (
                "%s was written by a newer version of Bushel: its fields are named by the"
                " extensions"
                " of its members"
            ),
            path,
        )
        return Description()
    try:
        return _described(text)
    except _MALFORMED as error:
        log_warning("%s: %s", path, _what(error))
        return Description()


def fault_in(comment: bytes, path: str) -> FormatError | None:
    """Return the problem of an archive's comment that Bushel wrote; None if it has no problem or is not Bushel's."""
    if not comment.startswith(_BEGIN):
        return None
    version, _, text = comment[len(_BEGIN) :].partition(b" ")
    try:
        if not version.isdigit():
            raise FormatError(f"{version[:20]!r} is not a version")
        if int(version) == _VERSION:
            _described(text)
    except _MALFORMED as error:
        hint = (
            "restore the file; or run `bushel repair`, which takes the names of the index, if"
            " there is one"
        )
        return FormatError(_what(error), file=path, offset=0, hint=hint)
    return None


def _what(error: Exception) -> str:
    return (
        f"the comment that describes its fields is malformed ({error}); they are named by the"
        " extensions of its members"
    )


def _described(text: bytes) -> Description:
    saved = msgspec.json.decode(text, type=_Saved)
    spec = spec_from_file(saved.spec)
    for described in spec.values():
        get_codec(described.codec)
        if "(path)" in described.codec:
            raise SpecError(
                f"field {described.name!r} is {described.type}, which only a caller can declare"
            )
    return Description(
        spec,
        {
            name: names
            for name, names in check_labels(saved.labels).items()
            if can_be_named(spec, name)
        },
    )


def comment_of(fields: Iterable[tuple[Field, str, str]], labels: Labels) -> bytes:
    """Return the comment of an archive; empty if its members' extensions imply all fields.

    Args:
        fields: Each field, the extension of its members, and the codec of their bytes.
        labels: Names of classes.
    """
    described = list(fields)
    if not labels and all(_is_plain(*extension_of_field) for extension_of_field in described):
        return b""
    spec = format_spec({described.name: described for described, _, _ in described})
    comment = _text(spec, labels)
    if len(comment) <= _MOST_BYTES:
        return comment
    comment = _text(spec, {})
    names_fit = len(comment) <= _MOST_BYTES
    log_warning(
        (
            "the %s take more than 1 MiB, so that no archive can hold them: they are in its index"
            " (.bushel) only"
        ),
        "names of classes" if names_fit else "names of the fields",
    )
    return comment if names_fit else b""


def _text(spec: dict[str, str], labels: Labels) -> bytes:
    saved = _Saved(spec, {name: list(names) for name, names in labels.items()})
    return _BEGIN + b"%d " % _VERSION + msgspec.json.encode(saved)


def _is_plain(own: Field, extension: str, codec: str) -> bool:
    """Return whether the extension alone implies this field, with values of the same type."""
    place = Naming()(extension)
    return not own.sequence and place.field.name == own.name and place.codec == codec


def _an_extension(own: Field) -> str:
    ending = extension_of(own)[0]
    return f"{own.name}.000000.{ending}" if own.sequence else ending
