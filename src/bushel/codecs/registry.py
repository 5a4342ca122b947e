"""Codecs by name: built-in, registered, and from installed packages."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

from msgspec.structs import replace

from bushel._runtime.public import broken_plugin, has_plugin, load_plugin, plugin_names, public
from bushel.errors import CodecError, SpecError, UnsupportedError

from .base import (
    INTEGERS,
    REAL,
    ArrayLayout,
    Buffer,
    Codec,
    ColumnEncoder,
    Factory,
    Ranged,
    codec_error,
    describe,
    found_bytes,
    refused,
    unknown_codec,
)

_NAME = r"[a-z0-9_-]+"
_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_MODULES: Mapping[str, Collection[str]] = {
    "scalars": (
        *("bytes", "utf8", "bool", "int", "uint", "i64", "u64", "float", "f32", "cls"),
        *("float-text", "csv-text", "datetime64", "timedelta64"),
    ),
    "arrays": ("array", "npy", "npz", "tenbin"),
    "structured": ("json", "json-array", "msgpack", "tree", "pickle"),
    "image": (
        *("jpg", "jpeg", "png", "webp", "ppm", "pgm", "pbm", "bmp"),
        *("tif", "tiff", "gif", "avif", "heic", "jxl", "image"),
    ),
    "video": ("mp4", "webm", "clip"),
    "clip_parts": ("frame", "frames"),
    "audio": ("wav", "flac", "mp3", "ogg", "audio"),
    "record_numbers": ("recordio-label", "recordio-label-int", "varint", "varints"),
    "headed": ("mds-array", "litdata-array", "litdata-tensor", "litdata-json", "pil"),
}
"""The built-in codecs by the modules that define them. A module is imported when one of its codecs is first used, since
importing Pillow or zipfile, for example, takes as long as opening a dataset."""

NUMBERS = (*INTEGERS, *REAL, "recordio-label", "recordio-label-int")
"""Codecs of single numbers."""

_RUN_CODE = frozenset({"pickle"})
"""The built-in codecs whose bytes may run code (`Codec.runs_code`), known without importing their modules."""

_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_WRAPPERS = {"gzip": "utf8", "stored": "pickle"}
"""The built-in codecs around another codec, and an example of that: `gzip(utf8)`."""

_ARRAYS = ("array", "npy", "mds-array", "litdata-array", "litdata-tensor")
"""The built-in codecs of arrays whose rows can be decoded in part."""

_LIGHT = frozenset(
    {*_MODULES["scalars"], *_MODULES["record_numbers"], *_ARRAYS}
    | {"as", "transposed", "tenbin", "json", "json-array", "msgpack", "tree"}
)
"""The built-in codecs that decode in little more time than copying the bytes takes."""

_STORED = "stored("
_PATH, _URL = "(path)", "(url)"

_GROUP = "bushel.codecs"
"""The entry points by which packages add codecs: what `register_codec` returns, under the codec's name."""

registered: dict[str, Codec] = {}


@lru_cache(maxsize=1024)
def get_codec(name: str) -> Codec:
    """Return the codec with a name such as `jpg`, `array(float32,64,128)` or `gzip(utf8)`.

    Raises:
        SpecError: The codec is unknown, or its parameters are wrong.
        UnsupportedError: An installed package adds the codec, and importing it fails.

    Examples:
        >>> from bushel.codecs import get_codec
        >>> get_codec("array(float32,2)").decode(np.ones(2, "<f4").tobytes())
        array([1., 1.], dtype=float32)
    """
    base, arguments = _parts(name)
    # the bytes of a file that a value names, and that a container has looked up
    if f"({arguments})" in (_PATH, _URL):
        return replace(get_codec(base), name=name)
    if base in registered:
        if arguments:
            raise SpecError(f"codec {base!r} takes no parameters")
        return registered[base]
    if base in _MODULE_OF:
        factories: Mapping[str, Factory] = import_module(
            f"bushel.codecs.{_MODULE_OF[base]}"
        ).FACTORIES
        return factories[base](name, arguments)
    if base == "as":
        from .conversions import converting

        return converting(name, *map(get_codec, _two_codecs(name, arguments)))
    if base == "transposed":
        from .conversions import transposed

        axes, inner = _two_codecs(name, arguments)
        return transposed(name, axes, get_codec(inner))
    if base in _WRAPPERS:
        if not arguments:
            example = _WRAPPERS[base]
            raise SpecError(
                f"codec {base!r} wraps another one: write '{base}({example})' or '{base}(bytes)'"
            )
        from .conversions import WRAPPERS

        return WRAPPERS[base](name, get_codec(arguments))
    if has_plugin(_GROUP, base):
        registered[base] = _added(base)
        return get_codec(name)
    raise unknown_codec(name, base, codec_names())


def _parts(name: str) -> tuple[str, str]:
    """Return a codec's name without parameters, and the parameters."""
    base, bracket, arguments = name.partition("(")
    closed = not bracket or (arguments.endswith(")") and "\n" not in arguments)
    if not closed or not base or not _IN_NAMES.issuperset(base):
        return name, ""
    return base, arguments[:-1]


def _two_codecs(name: str, arguments: str) -> tuple[str, str]:
    """Return the codec of the values of `as(float,i64)`, and the codec of its bytes."""
    depth = 0
    for at, letter in enumerate(arguments):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            return arguments[:at], arguments[at + 1 :]
    raise SpecError(f"codec {name!r}: expected two codecs, as in 'as(float,i64)'")


def _added(name: str) -> Codec:
    """Return the codec that an installed package adds.

    Raises:
        UnsupportedError: It cannot be imported, or is not a codec of this name; the message names
            the package.
    """
    codec = load_plugin(_GROUP, name)  # which may register it
    if not isinstance(codec, Codec):
        raise broken_plugin(
            _GROUP, name, f"it is a {type(codec).__name__}, not the result of bushel.register_codec"
        )
    if codec.name != name:
        raise broken_plugin(_GROUP, name, f"it is the codec {codec.name!r}")
    return codec


def codec_names() -> tuple[str, ...]:
    """Return the names of all codecs, without parameters, sorted.

    Examples:
        >>> from bushel.codecs import codec_names
        >>> {"jpg", "int", "utf8"} <= set(codec_names())
        True
    """
    return tuple(sorted({*_MODULE_OF, *_WRAPPERS, *registered, *plugin_names(_GROUP)}))


def is_light(name: str) -> bool:
    """Return whether a codec is a built-in one whose values decode in little time: numbers, texts, arrays, objects.

    Examples:
        >>> from bushel.codecs import is_light
        >>> is_light("utf8"), is_light("jpg")
        (True, False)
    """
    base, _ = _parts(name)
    return base in _LIGHT and base not in registered


def is_registered(name: str) -> bool:
    """Return whether the codec of that name was added by `register_codec`.

    Examples:
        >>> from bushel.codecs import is_registered
        >>> is_registered("jpg")  # it comes with Bushel
        False
    """
    return name in registered


@lru_cache(maxsize=1024)
def runs_code(name: str) -> bool:
    """Return whether decoding with a codec, or with one inside it, runs code that the bytes bring along.

    Examples:
        >>> from bushel.codecs import runs_code
        >>> runs_code("pickle"), runs_code("gzip(pickle)"), runs_code("json")
        (True, True, False)
    """
    base, arguments = _parts(name)
    if base in registered:
        return registered[base].runs_code
    if base in _WRAPPERS:
        return runs_code(arguments)
    if base == "as":
        return any(map(runs_code, _two_codecs(name, arguments)))
    if base in _MODULE_OF:
        return base in _RUN_CODE
    try:
        return has_plugin(_GROUP, base) and get_codec(base).runs_code
    except UnsupportedError:  # raised again when a value is decoded
        return False


@lru_cache(maxsize=1024)
def from_file(name: str) -> str:
    """Return the codec for a name that a file brings along: `stored(pickle)` for `pickle`, and itself for most.

    A file can neither let code run, nor let bytes come from a server: `jpg(url)` becomes `jpg`.

    Examples:
        >>> from bushel.codecs.registry import from_file
        >>> from_file("jpg"), from_file("pickle"), from_file("gzip(pickle)")
        ('jpg', 'stored(pickle)', 'stored(gzip(pickle))')
    """
    name = name.removesuffix(_URL)
    if not is_withheld(name) and runs_code(name):
        return f"{_STORED}{name})"
    return name


def content_codec(name: str) -> str:
    """Return the codec of the content of a file that a field names: `jpg` for `jpg(path)`, and others as they are."""
    return name.removesuffix(_PATH).removesuffix(_URL)


@lru_cache(maxsize=1024)
def is_withheld(name: str) -> bool:
    """Return whether the codec gives the stored bytes of another one."""
    return name.startswith(_STORED) and name.endswith(")")


@lru_cache(maxsize=1024)
def holds_image(name: str) -> bool:
    """Return whether a codec stores images that `image` decodes, too. False if a user has replaced the codec.

    Examples:
        >>> from bushel.codecs import holds_image
        >>> holds_image("png"), holds_image("mp4")
        (True, False)
    """
    return _is_built_in(name, _MODULES["image"])


@lru_cache(maxsize=1024)
def holds_clip(name: str) -> bool:
    """Return whether a codec stores video clips. False if a user has replaced the codec.

    Examples:
        >>> from bushel.codecs import holds_clip
        >>> holds_clip("mp4"), holds_clip("jpg")
        (True, False)
    """
    return _is_built_in(name, _MODULES["video"])


@lru_cache(maxsize=1024)
def holds_sound(name: str) -> bool:
    """Return whether a codec stores sounds. False if a user has replaced the codec.

    Examples:
        >>> from bushel.codecs import holds_sound
        >>> holds_sound("flac"), holds_sound("mp4")
        (True, False)
    """
    return _is_built_in(name, _MODULES["audio"])


def keeps_bytes(name: str) -> bool:
    """Return whether values of a codec are passed on as stored bytes: media, and bytes themselves."""
    return holds_media(name) or name == "bytes"


def holds_media(name: str) -> bool:
    """Return whether a codec stores images, clips or sounds. False if a user has replaced the codec."""
    return holds_image(name) or holds_clip(name) or holds_sound(name)


def holds_elements(name: str) -> bool:
    """Return whether single elements of a codec's value can be decoded (`Codec.ranged`): frames, rows of arrays.

    Examples:
        >>> from bushel.codecs import holds_elements
        >>> holds_elements("mp4"), holds_elements("utf8")
        (True, False)
    """
    base = name.partition("(")[0]
    if base in registered:
        return registered[base].ranged is not None
    return base in (*_ARRAYS, "frames") or _MODULE_OF.get(base) in ("video", "audio")


def holds_array(name: str) -> bool:
    """Return whether a codec stores arrays, whose rows can be decoded. False if a user has replaced the codec."""
    return _is_built_in(name, _ARRAYS)


def _is_built_in(name: str, names: Collection[str]) -> bool:
    base = name.partition("(")[0]
    return base in names and base not in registered


_CACHED = (get_codec, holds_image, holds_clip, holds_sound, runs_code, from_file)


@public()
def register_codec(
    name: str,
    encode: Callable[[Any], Buffer],
    decode: Callable[[Buffer], Any],
    *,
    ranged: Ranged | None = None,
    encode_column: ColumnEncoder | None = None,
    layout: Callable[[Buffer], ArrayLayout | None] | None = None,
    runs_code: bool = False,
    replace: bool = False,
) -> Codec:
    """Add a codec, for this process, under a name that specs can use.

    Any exception of the two functions reaches the reader of the dataset as a `CodecError`. In a tar
    the codec's name is also its extension.

    Args:
        name: Lower-case letters, digits, `_` and `-`.
        encode: Maps a value to bytes.
        decode: Maps bytes (or a memoryview that is valid only during the call) to a value.
        ranged: Counts and decodes single elements of a value, so that masks can select some of
            them.
        encode_column: Encodes an array of values at once, for `Writer.extend`
            (`Codec.encode_column`).
        layout: Returns where the elements of an array are in its bytes, so that loaders copy them
            without `decode`; None if this differs from value to value.
        runs_code: Whether `decode` runs code that the bytes bring along. Files that name the codec
            then give the stored bytes, unless the caller of `bushel.open` names it, too, or passes
            `pickle=True`.
        replace: Whether to replace an existing codec.

    Returns:
        The codec. It pickles if its functions do, so define these at the top of a module.

    Raises:
        SpecError: The name is malformed, or taken and `replace` is False.

    Examples:
        >>> def encode(point):
        ...     return np.asarray(point, "<f4").tobytes()
        >>> def decode(data):
        ...     return np.frombuffer(bytes(data), "<f4")
        >>> codec = bushel.register_codec("point", encode, decode)
        >>> with bushel.Writer("points.tar", {"at": "point"}) as writer:
        ...     writer.append({"at": [1, 2.5]})
        0
        >>> bushel.open("points.tar")[0]["at"]
        array([1. , 2.5], dtype=float32)
    """
    if not re.fullmatch(_NAME, name):
        raise SpecError(f"invalid codec name {name!r}: use lower-case letters, digits, '_' and '-'")
    if (
        name in ("as", "transposed")
        or not replace
        and name in {*_MODULE_OF, *_WRAPPERS, *registered}
    ):
        raise SpecError(
            f"codec {name!r} exists: choose another name, or pass replace=True to replace it"
        )
    guarded = partial(_guarded_decode, name)
    if ranged is not None:
        count, some = partial(guarded, ranged.count), partial(guarded, ranged.decode)
        head = ranged.layout and partial(guarded, ranged.layout)
        ranged = Ranged(count, some, head, ranged.in_file, ranged.outline)
    encode, decode = partial(_guarded_encode, name, encode), partial(guarded, decode)
    layout = layout and partial(guarded, layout)
    codec = Codec(name, encode, decode, ranged, encode_column, layout, runs_code)
    registered[name] = codec
    for cached in _CACHED:
        cached.cache_clear()
    return codec


def _guarded_encode(name: str, encode: Callable[[Any], Buffer], value: Any) -> Buffer:
    try:
        stored = encode(value)
    except CodecError:
        raise
    except Exception as error:  # the user's function may raise anything
        raise codec_error(
            name, "a value that it can encode", f"{describe(value)} ({error!r})"
        ) from error
    if not isinstance(stored, bytes | bytearray | memoryview):
        raise refused(name, "its encode function to return bytes", stored)
    return stored


def _guarded_decode(name: str, decode: Callable[..., Any], data: Buffer, *elements: Any) -> Any:
    try:
        return decode(data, *elements)
    except CodecError:
        raise
    except Exception as error:  # the user's function may raise anything
        if elements and isinstance(error, IndexError):
            raise  # an element is out of range
        raise codec_error(
            name, "bytes that it can decode", f"{found_bytes(data)} ({error!r})"
        ) from error


@lru_cache(maxsize=1024)
def asked_for(codec: str) -> str:
    """Return the codec for callers who allow codecs that run code: `pickle` for `stored(pickle)`.

    Examples:
        >>> from bushel.codecs.registry import asked_for
        >>> asked_for("stored(pickle)"), asked_for("jpg")
        ('pickle', 'jpg')
    """
    while is_withheld(codec):
        codec = codec[len("stored(") : -1]
    return codec
