"""Splitting the member names of a WebDataset archive into keys and fields.

The rules are the same as in the Python package: a sample's key is the folder and the base name up
to its first dot; the rest after that dot, in lower case, is the extension, which names the field.
"""

from __future__ import annotations

import re

from bushel._runtime.arrays import I64, U8
from bushel._runtime.structs import Struct
from bushel.codecs import codec_of_extension, tar_storage
from bushel.errors import SpecError
from bushel.kernels import SampleNames
from bushel.spec import Field, Spec

LISTS = ("index.json", "shardindex.json")
"""Names of the lists of wids: the one that it looks for in a folder, and the one that `widsindex create` writes."""
META = ".nv-meta"
"""Name of the folder in which Energon keeps what it lists."""


def is_meta(name: bytes) -> bool:
    """Return whether the first part of a member's name is `__like_this__`; such members belong to no sample."""
    if not name.startswith(b"__"):
        return False
    first, slash, _ = name.partition(b"/")
    first = first if slash else first.removesuffix(b"\n")
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
        self._plain: dict[str, tuple[int, Place]] = {}
        self._sequences: list[tuple[int, re.Pattern[str], Field, str]] = []
        plain: list[tuple[int, Place]] = []
        for rank, field in enumerate((spec or {}).values()):
            extension, stored = extension_of(field)
            if field.sequence:
                pattern = re.compile(
                    rf"{re.escape(field.name)}\.([0-9]{{1,18}})\.{re.escape(extension)}"
                )
                self._sequences.append((rank, pattern, field, stored))
            else:
                plain.append((rank, Place(field, stored)))
                self._plain.setdefault(extension, plain[-1])
        for ranked in plain:
            self._plain.setdefault(ranked[1].field.name, ranked)

    def __call__(self, extension: str) -> Place:
        """Return the place of a member with this extension (as `field_name` gives it)."""
        most, place = self._plain.get(extension, (len(self._plain) + len(self._sequences), None))
        for rank, pattern, field, stored in self._sequences:
            if rank < most and (match := pattern.fullmatch(extension)):
                return Place(field, stored, int(match[1]))
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
            "readers end the key at the first dot after the last slash: use another character,"
            " such as `_`"
        )
    if ".." in folder.split("/"):
        return "`..` would leave the folder into which the archive is unpacked"
    if is_meta(key.encode("utf-8", "replace")):
        return "readers skip names whose first part is `__like_this__`"
    return None
