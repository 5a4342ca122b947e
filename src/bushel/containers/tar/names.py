"""Names in a WebDataset archive: splitting the names of members, and the description of its fields.

The rules are the same as in the Python package: a sample's key is the folder and the base name up
to its first dot; the rest after that dot, in lower case, is the extension, which names the field.

An archive that Bushel wrote begins with a description: names and types of its fields, and names of
classes. It is a comment for the whole archive (a global PAX record), which other readers of
archives skip. Names and types are stored as in a sidecar, so that an archive that lost its
sidecar is read as before. It is not trusted: unusable parts are ignored with a warning in the log,
and the fields then follow from the extensions.

The tar in a gzip or zstd file is a block file, whose members are read as in any archive. Finding
the blocks takes a pass over the file, so it is done by `bushel index`, and kept in the index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.names import Labels, can_be_named, check_labels
from bushel._index.sidecar import spec_from_file
from bushel._runtime.arrays import I64, U8
from bushel._runtime.messages import log_warning
from bushel.codecs import codec_of_extension, get_codec, tar_storage
from bushel.errors import BushelError, FormatError, SpecError
from bushel.kernels import SampleNames, crc32
from bushel.spec import Field, Spec, format_spec

if TYPE_CHECKING:
    from bushel.storage import Blocks, File

LISTS = ("index.json", "shardindex.json")
"""Names of the lists of wids: the one that it looks for in a folder, and the one that `widsindex create` writes."""
META = ".nv-meta"
"""Name of the folder in which Energon keeps what it lists."""


def is_meta(name: bytes) -> bool:
    """Return whether the first part of a member's name is `__like_this__`; such members belong to no sample."""
    if not name.startswith(b"__"):
        return False
    first, slash, _ = name.partition(b"/")
    if not slash:
        first = first.removesuffix(b"\n")
    return len(first) >= 4 and first.endswith(b"__")


def split_name(name: bytes) -> tuple[bytes, bytes] | None:
    """Return key and extension of a member; None for one that belongs to no sample.

    These belong to no sample: names without a dot in their base name, names whose first part is
    `__like_this__`, and hidden files (`.name`), except that in a folder without dots such a file
    has the folder and its slash as its key.
    """
    base = name.rfind(b"/") + 1
    dot = name.find(b".", base)
    if dot < 0 or is_meta(name):
        return None
    if dot == base and (base == 0 or b"." in name[name.rfind(b"/", 0, base - 1) + 1 : base]):
        return None
    return name[:dot], name[dot + 1 :]


def field_name(extension: bytes) -> str:
    """Return the field that an extension names. A name that ends in its dot has the extension `.`."""
    return extension.decode("utf-8", "backslashreplace").lower() or "."


def extensions(text: U8, offsets: I64) -> frozenset[str]:
    """Return the extensions of the members with these names (`split_name`), as `field_name` gives them."""
    names = SampleNames()
    names.group(text, offsets, last=True)
    return frozenset(map(field_name, names.extensions))


def extension_of(field: Field) -> tuple[str, str]:
    """Return the extension of the members that hold a field, and the codec of their bytes.

    Returns:
        The extension without its leading dot, and the codec. A field that is named like its
        extension has that extension (`jpg`, `left.jpg`, `transcript`); any other has its name and
        the codec's extension (`image.jpg`). Elements of a sequence are `name.000000.jpg`; for these
        only `jpg` is returned.
    """
    ending, stored = tar_storage(field.codec)
    name = field.name
    if field.sequence:
        return ending, stored
    named = name == ending or name.endswith("." + ending)
    alike = codec_of_extension(name) == stored and (stored != "bytes" or "." in name)
    return name if named or alike else f"{name}.{ending}", stored


class Place(Struct, frozen=True):
    """The field that a member belongs to."""

    field: Field
    codec: str  # codec of the bytes
    number: int | None = None  # number of the element in a sequence field, None for a plain field


class Naming:
    """Maps extensions to the fields of a spec if one is given, else to fields of the same name.

    Args:
        spec: Fields that the user declared. A field is looked up under its own name and under the
            extension that Bushel writes it with; a sequence field `frames: jpg[]` under
            `frames.<number>.jpg`. If several fields fit an extension, the first one has it.
    """

    def __init__(self, spec: Spec | None = None) -> None:
        self.declared: list[Place] = []  # of each field in the spec
        self._plain: dict[str, tuple[int, Place]] = {}
        self._sequences: list[tuple[int, re.Pattern[str], Place]] = []
        for rank, field in enumerate((spec or {}).values()):
            extension, stored = extension_of(field)
            place = Place(field, stored)
            self.declared.append(place)
            if field.sequence:
                pattern = re.compile(
                    rf"{re.escape(field.name)}\.([0-9]{{1,18}})\.{re.escape(extension)}"
                )
                self._sequences.append((rank, pattern, place))
            else:
                self._plain.setdefault(extension, (rank, place))
        for rank, place in enumerate(self.declared):
            if not place.field.sequence:
                self._plain.setdefault(place.field.name, (rank, place))

    def __call__(self, extension: str) -> Place:
        """Return the place of a member with this extension (as `field_name` gives it)."""
        most, place = self._plain.get(extension, (len(self._plain) + len(self._sequences), None))
        for rank, pattern, sequence in self._sequences:
            if rank < most and (match := pattern.fullmatch(extension)):
                return replace(sequence, number=int(match[1]))
        if place is not None:
            return place
        codec = codec_of_extension(extension)
        return Place(Field(extension, codec), codec)


def check_key(key: str) -> None:
    """Refuse a key that the name of a tar member cannot hold unchanged.

    Raises:
        SpecError: The key is unsuitable; the message names the reason, and what to use.
    """
    if (reason := _why_unsuitable(key)) is not None:
        raise SpecError(f"a tar cannot hold the key {key!r}: {reason}")


def _why_unsuitable(key: str) -> str | None:
    folder, _, base = key.rpartition("/")
    if not key:
        return "it is empty"
    if "\0" in key or "\n" in key:
        return "a name cannot contain a zero byte or a line break"
    if key[0] == "/" or key[-1] == "/":
        return "a name cannot begin or end with a slash"
    if "." in base:
        return (
            "readers end the key at the first dot after the "
            "last slash: use another character, such as `_`, as bushel.pack(..., "
            "keys=lambda key: key.replace('.', '_')) does"
        )
    if ".." in folder.split("/"):
        return "`..` would leave the folder into which the archive is unpacked"
    if is_meta(key.encode("utf-8", "replace")):
        return "readers skip names whose first part is `__like_this__`"
    return None


_BEGIN = b"bushel-fields "
_VERSION = 1
_SUMMED = rb"(?s)(?P<text>.*) (?P<sum>[0-9a-f]{8})"
_MOST_BYTES = (1 << 20) - 64
"""Bytes of a comment that every reader of archives in Bushel takes, with the rest of its record."""


class Description(Struct, frozen=True):
    """The fields of an archive, by its own description."""

    # its fields, without codecs that run code (`spec_from_file`)
    spec: Spec = msgspec.field(default_factory=dict)
    labels: Labels = msgspec.field(default_factory=dict)  # names of classes

    def with_declared(self, declared: Spec | None) -> Spec | None:
        """Return the fields by which members are found: those that the caller declares, and the others of the archive.

        A declared field of the archive has the same members with another type. One that has the
        members of another field replaces it. None without fields.
        """
        if not declared or not self.spec or declared == self.spec:
            return declared or self.spec or None
        declared_fields = {name: self._own(field) for name, field in declared.items()}
        naming = Naming(declared_fields)
        return declared_fields | {
            name: described
            for name, described in self.spec.items()
            if naming(_an_extension(described)).field.name not in declared_fields
        }

    def _own(self, field: Field) -> Field:
        described = self.spec.get(field.name, field)
        if described.sequence == field.sequence:
            return described
        return field


class _Saved(msgspec.Struct, omit_defaults=True):
    """The JSON in a comment: field to type, and field to names of classes."""

    spec: dict[str, str]
    labels: dict[str, list[str]] = {}


def description_in(comment: bytes, path: str) -> tuple[Description, list[FormatError]]:
    """Parse the comment of an archive, and return its problem, if it has one.

    A comment of another program gives an empty description.
    """
    try:
        return _described(comment, path), []
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BushelError) as error:
        message = (
            "the comment that describes its fields is malformed "
            f"({error}); they are named by the extensions of its members"
        )
        return Description(), [
            FormatError(
                message,
                path,
                0,
                "restore the file; or run `bushel repair`, which "
                "takes the names of the index, if there is one",
            )
        ]


def _described(comment: bytes, path: str) -> Description:
    if not comment.startswith(_BEGIN):
        return Description()
    version, _, text = comment[len(_BEGIN) :].partition(b" ")
    if not version.isdigit():
        raise FormatError(f"{version[:20]!r} is not a version")
    if int(version) != _VERSION:
        log_warning(
            "%s was written by a newer version of Bushel: its "
            "fields are named by the extensions of its members",
            path,
        )
        return Description()
    if (summed := re.fullmatch(_SUMMED, text)) is not None:
        text = summed["text"]
        if crc32(text) != int(summed["sum"], 16):
            raise FormatError("its checksum differs")
    saved = msgspec.json.decode(text, type=_Saved)
    spec = spec_from_file(saved.spec)
    for described in spec.values():
        get_codec(described.codec)
        if "(path)" in described.codec:
            raise SpecError(
                f"field {described.name!r} is {described.type}, which only a caller can declare"
            )
    labels: Labels = {}
    if saved.labels:
        named = check_labels(saved.labels).items()
        labels = {name: names for name, names in named if can_be_named(spec, name)}
    return Description(spec, labels)


def comment_of(fields: Sequence[tuple[Field, str, str]], labels: Labels) -> bytes:
    """Return the comment of an archive; empty if its members' extensions imply all fields.

    Args:
        fields: Each field, the extension of its members, and the codec of their bytes.
        labels: Names of classes.
    """
    if not labels and all(_is_plain(*described) for described in fields):
        return b""
    spec = format_spec({described.name: described for described, _, _ in fields})
    comment = _text(spec, labels)
    if len(comment) <= _MOST_BYTES:
        return comment
    comment = _text(spec, {})
    names_fit = len(comment) <= _MOST_BYTES
    log_warning(
        "the %s take more than 1 MiB, so that no archive can "
        "hold them: they are in its index (.bushel) only",
        "names of classes" if names_fit else "names of the fields",
    )
    return comment if names_fit else b""


def _text(spec: dict[str, str], labels: Labels) -> bytes:
    saved = _Saved(spec, {name: list(names) for name, names in labels.items()})
    text = msgspec.json.encode(saved)
    return _BEGIN + b"%d " % _VERSION + text + b" %08x" % crc32(text)


def _is_plain(field: Field, extension: str, codec: str) -> bool:
    """Return whether the extension alone implies this field, with values of the same type."""
    place = Naming()(extension)
    return not field.sequence and place.field.name == field.name and place.codec == codec


def _an_extension(field: Field) -> str:
    ending = extension_of(field)[0]
    if field.sequence:
        return f"{field.name}.000000.{ending}"
    return ending


COMPRESSED = (".tar.gz", ".tgz", ".tar.zst")
"""Ends of the names of archives that are read at random when they have an index."""


def only_compressed(names: Iterable[str]) -> list[str]:
    """Return the compressed archives of a folder, sorted; none if the folder has other files, too."""
    visible = sorted(name for name in names if not name.startswith("."))
    if all(name.lower().endswith(COMPRESSED) for name in visible):
        return visible
    return []


def archive_in(file: File, name: str) -> tuple[File, tuple[Blocks, ...]]:
    """Return the archive in a file, and its blocks if it is compressed.

    Raises:
        FormatError: The compressed data are damaged.
        UnsupportedError: They are compressed in a way that cannot be read at random.
    """
    if not name.lower().endswith(COMPRESSED):
        return file, ()
    from bushel.storage.block_file import BlockFile
    from bushel.storage.restart import compressed_blocks

    blocks = compressed_blocks(file)
    return BlockFile.over(file, blocks), (blocks,)
