"""Codecs and file extensions, as readers of WebDataset archives map them; and codecs as containers store them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from msgspec.structs import replace

from . import registry
from .base import Codec
from .registry import get_codec

_EXTENSIONS: Mapping[str, str] = {
    extension: codec
    for codec, extensions in {
        "utf8": "txt text transcript html htm",
        "cls": "cls cls2 class count index inx id",
        "json": "json jsn",
        "msgpack": "mp msg msgpack",
        "npy": "npy",
        "npz": "npz",
        "tenbin": "ten tenbin tb",
        "tree": "tree",
        "jpg": "jpg jpeg jpe jfif mpo",
        "image": "img image pnm",
        "tif": "tif tiff",
        "heic": "heic heif",
        "ogg": "ogg oga opus",
        "audio": "audio m4a",
        "mp4": "mp4 mov m4v 3gp",
        "webm": "webm mkv",
        "clip": "clip",
        **{
            name: name
            for name in (
                *("png", "webp", "ppm", "pgm", "pbm", "bmp", "gif", "avif", "jxl"),
                *("wav", "flac", "mp3"),
            )
        },
    }.items()
    for extension in extensions.split()
}
# Pickles (pyd, pickle, pkl, pth) must never be in the table: reading an archive would run its
# author's code.

_OTHERS = "bin csv tsv jsonl md xml pdf raw dng svg avi aac pt pth pkl"
FILE_SUFFIXES = frozenset(suffix for suffix in (*_EXTENSIONS, *_OTHERS.split()) if len(suffix) <= 8)
"""Suffixes that files of samples have, which distinguish the name of a file from a key with a dot in it."""

_LIMITED = ("array(", "u64", "i64", "uint", "int(")  # types that do not take every number or array

_STORAGE: Mapping[str, tuple[str, str]] = {
    "bytes": ("bin", "bytes"),
    "utf8": ("txt", "utf8"),
    **dict.fromkeys(("int", "uint", "i64", "u64"), ("cls", "cls")),
    **dict.fromkeys(("float", "f32", "float-text"), ("json", "float-text")),
    "array": ("npy", "npy"),
    "bool": ("json", "as(bool,json)"),
    "msgpack": ("mp", "msgpack"),
    "tenbin": ("ten", "tenbin"),
}


def codec_of_extension(extension: str) -> str:
    """Return the codec that decodes a tar member with this extension.

    Args:
        extension: Without its leading dot, in any case. Its last part decides: `left.jpg` is a
            `jpg`.

    Returns:
        A codec's name; `gzip(utf8)` for `txt.gz`; `bytes` for an unknown extension and for every
        kind of pickle.

    Examples:
        >>> from bushel.codecs import codec_of_extension
        >>> [codec_of_extension(each) for each in ("left.jpg", "txt", "txt.gz", "pickle")]
        ['jpg', 'utf8', 'gzip(utf8)', 'bytes']
    """
    rest, _, last = extension.lower().rpartition(".")
    if last in registry.registered:
        return last
    if last == "gz":
        inner = rest.rpartition(".")[2]
        return f"gzip({inner if inner in registry.registered else _EXTENSIONS.get(inner, 'bytes')})"
    return _EXTENSIONS.get(last, "bytes")


def extensions_of(holds: Callable[[str], bool]) -> list[str]:
    """Return the extensions of the codecs for which a function is true: `holds_image`, `holds_clip`, `holds_sound`."""
    return [extension for extension, codec in _EXTENSIONS.items() if holds(codec)]


def tar_storage(codec: str) -> tuple[str, str]:
    """Return how a tar stores a field of this codec. WebDataset can decode the result.

    Returns:
        The extension of its members, and the codec of their bytes: `("cls", "cls")` for `int`.

    Raises:
        SpecError: The codec is unknown.

    Examples:
        >>> from bushel.codecs import tar_storage
        >>> tar_storage("int"), tar_storage("utf8")
        (('cls', 'cls'), ('txt', 'utf8'))
    """
    get_codec(codec)
    base, _, arguments = codec.partition("(")
    if base in registry.registered:
        return base, base
    if base == "gzip":
        extension, stored = tar_storage(arguments[:-1])
        return f"{extension}.gz", f"gzip({stored})"
    if base == "stored":
        return tar_storage(arguments[:-1])[0], codec
    if base in ("jpg", "jpeg"):
        return "jpg", codec
    if base == "datetime64":
        return "txt", f"as({codec},utf8)"
    if base == "timedelta64":
        return "cls", f"as({codec},cls)"
    return _STORAGE.get(base, (base, codec))


@lru_cache(maxsize=1024)
def storing_codec(declared: str, stored: str) -> Codec:
    """Return the codec by which a container stores values of a declared type.

    It may take more values than the type: a tar stores `u64` as text. Here it refuses those that
    the type does not take, as in a container that stores the type itself.

    Args:
        declared: The type of the field.
        stored: Codec of the stored bytes.
    """
    codec = get_codec(stored)
    if stored == declared or not declared.startswith(_LIMITED):
        return codec
    type_codec = get_codec(declared)
    encode_column = None
    if type_codec.encode_column is not None and codec.encode_column is not None:
        encode_column = partial(_encode_checked, type_codec.encode_column, codec.encode_column)
    return replace(
        codec,
        encode=partial(_encode_checked, type_codec.encode, codec.encode),
        encode_column=encode_column,
    )


def _encode_checked(check: Callable[[Any], Any], encode: Callable[[Any], Any], values: Any) -> Any:
    """Encode what `check` takes; None if it is a column that has to be checked value by value."""
    if check(values) is None:
        return None
    return encode(values)
