"""The type of a field: what the file stores, and what the caller declares. Pure: no I/O.

`resolve` is the only place that decides how values of one type are read as another one: by an exact
conversion, or not at all. It never reads the bits of a number as another type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bushel._runtime.arrays import Bools
from bushel.codecs import get_codec, is_registered
from bushel.codecs.arrays import cast_and_kept
from bushel.codecs.base import REAL, Buffer
from bushel.codecs.conversions import WHOLE
from bushel.codecs.scalars import time_dtype
from bushel.errors import CodecError, SpecError
from bushel.spec import Field

_TOGETHER = 4096  # lists whose numbers are decoded together
_OF_NUMBERS = b"0123456789+-.eE \t\r\n"
_SHOWN = 60  # bytes of a value in an error
_TEXTS = ("utf8", "csv-text")
_JSON = ("json", "litdata-json", "json-array")
_ARRAYS = ("array", "npy", "mds-array", "litdata-array", "litdata-tensor", "varints")
_NUMBER_TEXTS = {**dict.fromkeys(WHOLE, "cls"), **dict.fromkeys(REAL, "float-text")}
"""The codecs that read numbers from text."""
TEXT_CODECS = frozenset((*_TEXTS, *_JSON, *_NUMBER_TEXTS.values()))
"""The codecs whose stored bytes are text, which may not be of the type that is declared."""
_EXACT_BITS = {"f2": 11, "f4": 24, "f8": 53}
"""Bits of the whole numbers that floats hold exactly."""


_DTYPES = {
    **dict.fromkeys(WHOLE, "int64"),
    **dict.fromkeys(("uint", "u64"), "uint64"),
    **dict.fromkeys(REAL, "float64"),
    "f32": "float32",
    "bool": "bool",
}
_NUMBERS = frozenset((*WHOLE, *REAL, "bool", "datetime64", "timedelta64", "as"))

_Placed: TypeAlias = tuple[int, Buffer]
"""Where a value is, and its stored bytes."""


class Stored(NamedTuple):
    """What a file stores of a field.

    Attributes:
        field: The field with the type that follows from the file.
        codec: Codec of the stored bytes.
        file: Name of the file, for errors.
        numbers: The numbers that the table holds of it, without those that are missing; None if it
            holds none.
        values: Yields the place and the stored bytes of each value that is there; none if they are
            not known.
        words: Says where a place is, such as `line 3`.
    """

    field: Field
    codec: str
    file: str
    numbers: np.ndarray | None = None
    values: Callable[[], Iterable[_Placed]] = tuple
    words: Callable[[int], str] = "value {}".format


def resolve(stored: Stored, declared: Field, reading: str) -> str:
    """Return the codec with which the stored bytes are read as the declared type.

    Args:
        stored: What the file stores.
        declared: What the caller declares.
        reading: The codec with which the container stores values of the declared type.

    Raises:
        SpecError: The values would change, or are of another nature.
    """
    if stored.field == declared:
        return stored.codec
    codec, numbers = _codec_for(stored, declared, reading), stored.numbers
    reason = ""
    if numbers is not None and declared.base_codec in _NUMBERS:
        changed = np.flatnonzero(~_kept(numbers, declared.codec, stored.field.codec))
        if not len(changed):
            return codec
        reason = f"value {changed[0]} is {numbers[changed[0]]}"
    # the text of a value says more than its number
    if codec not in (stored.codec, "utf8", "bytes") and not is_registered(_base(codec)):
        _check_values(stored, declared, codec)
    if reason:
        raise _refused(stored, declared, reason)
    return codec


def _check_values(stored: Stored, declared: Field, codec: str) -> None:
    """Decode each value. Raise SpecError for the first one that the declared type does not hold."""
    decode = get_codec(codec).decode
    values = stored.values()
    if _base(codec) == "json-array":
        values = _unclear_arrays(values, codec)
    for place, value in values:
        try:
            decode(value)
        except CodecError as error:
            shown = bytes(value[:_SHOWN]).decode(errors="replace")
            more = "…" * (len(value) > _SHOWN)
            raise _refused(stored, declared, f"{stored.words(place)} is {shown}{more}") from error


def _unclear_arrays(values: Iterable[_Placed], codec: str) -> Iterator[_Placed]:
    """Yield lists of JSON that have to be decoded one by one: one of each form, and those that are not of numbers.

    The numbers of thousands of others are decoded as one list, which takes a tenth of the time.
    """
    dtype = _arguments(codec).partition(",")[0]
    decode = get_codec(f"json-array({dtype},-1)" if dtype else "json-array").decode
    forms, values = set[bytes](), iter(values)
    while group := list(islice(values, _TOGETHER)):
        unclear, numbers = list[_Placed](), list[bytes]()
        for place, value in group:
            text = bytes(value)
            form = text.translate(None, _OF_NUMBERS)
            if form not in forms:
                unclear.append((place, value))
            if not form.strip(b"[],"):
                forms.add(form)
                numbers.append(text.translate(None, b"[]"))
        try:
            decode(b"[" + b",".join(filter(None, numbers)) + b"]")
        except CodecError:
            unclear = group
        yield from unclear


def _codec_for(stored: Stored, declared: Field, reading: str) -> str:
    if stored.field.sequence != declared.sequence:
        what = "a sequence" if stored.field.sequence else "not a sequence"
        raise SpecError(
            f"field {declared.name!r} is stored as {stored.field.type}, which is {what}"
        )
    codec, target = stored.codec, declared.codec
    base, target_base = _base(codec), _base(target)
    if is_registered(base) or is_registered(target_base) or base == "bytes":
        return reading
    if base in TEXT_CODECS:
        return _of_text(stored, declared, reading)
    if base in _ARRAYS:
        return _of_array(stored, declared)
    if base in _NUMBERS:
        return _of_number(stored, declared)
    # the same bytes as another type, by a codec of the container's own
    if reading == codec or reading.startswith(f"{base}-") or base.startswith(f"{_base(reading)}-"):
        return reading
    if stored.numbers is not None and target_base in _NUMBERS:  # all of them are exact
        return f"as({target},{codec})"
    if target_base in _NUMBERS or target_base in _ARRAYS:
        raise _refused(stored, declared)
    return reading


def converted(numbers: np.ndarray, target: str, source: str) -> np.ndarray | None:
    """Return the numbers of a column of one type in another type; None if that has no column of numbers."""
    base = _base(target)
    if base == "bool":
        return numbers.astype(np.bool_)
    if base in REAL:
        return numbers.astype(np.float64)
    dtype, source_dtype = time_dtype(target), time_dtype(source)
    if dtype is not None and source_dtype is not None:
        return numbers.view(source_dtype).astype(dtype).view(np.int64)
    if base in WHOLE or dtype is not None:
        if numbers.dtype.kind != "u":
            return numbers.astype(np.int64, copy=False)
        return numbers
    return None


def is_converted(stored: Field, declared: Field) -> bool:
    """Return whether `resolve` decides how values become values of another type: numbers, texts, JSON and arrays."""
    bases = _base(stored.codec), declared.base_codec
    if stored.sequence != declared.sequence or any(map(is_registered, bases)):
        return False
    if all(base in _ARRAYS for base in bases):  # the dtypes have to be known
        return "(" in stored.codec and "(" in declared.codec
    return all(base in (*TEXT_CODECS, *_ARRAYS) or base in _NUMBERS for base in bases)


def _base(codec: str) -> str:
    return codec.partition("(")[0]


def _arguments(codec: str) -> str:
    return codec.partition("(")[2].removesuffix(")")


def _of_text(stored: Stored, declared: Field, reading: str) -> str:
    """Read text or JSON: as a number, as a list of JSON, as it is."""
    target, target_base, base = declared.codec, declared.base_codec, _base(stored.codec)
    is_json = base in _JSON
    if is_json and stored.field.codec == "utf8" and target_base != "utf8":
        raise _refused(stored, declared, "some of its texts have escapes")
    is_whole = base == "float-text" and target_base in WHOLE
    if (
        (is_json and target_base in _NUMBERS)
        or base == "csv-text"
        or is_whole
        or time_dtype(target) is not None
    ):
        return f"as({target},{stored.codec})"
    if target_base in _NUMBER_TEXTS:
        text = _NUMBER_TEXTS[target_base]
        if target in ("uint", "u64", "f32"):
            return f"as({target},{text})"
        return text
    if target_base == "bool":
        return "as(bool,csv-text)"
    if target_base == "array":
        return f"json-{target}"
    if target_base not in (*TEXT_CODECS, "bytes"):
        raise _refused(stored, declared)
    return reading


def _of_array(stored: Stored, declared: Field) -> str:
    target, target_base = declared.codec, declared.base_codec
    if target_base == "json":
        return f"as({target},{stored.codec})"
    if stored.codec == "varints":  # TFRecord's lists of int64
        if target_base == "array" and not target.endswith(",-1)"):
            raise _refused(stored, declared, "its lists may have any length")
        _of_array(stored._replace(codec=stored.field.codec), declared)
        return f"as({target},varints)"
    arguments = _arguments(stored.codec)
    dtype = np.dtype(_dtype(stored.codec))
    # an array of no dimension is a number
    if target_base in _DTYPES and arguments and "," not in arguments:
        if _widens(dtype, np.dtype(_DTYPES[target_base])):
            return f"as({target},{stored.codec})"
        raise _refused(stored, declared)
    if target_base != "array":
        raise _refused(stored, declared)
    if target == "array":
        return stored.codec
    shaped = stored.field.codec if "(" in stored.field.codec else stored.codec
    dtype, new = np.dtype(_dtype(shaped)), np.dtype(_dtype(target))
    is_raw = stored.codec.startswith("array(")
    may_be_shaped = is_raw and shaped.count(",") == 1
    if target.count(",") != shaped.count(",") and not may_be_shaped:
        raise _refused(stored, declared, "its arrays may have another number of dimensions")
    if dtype == new and is_raw:
        return target  # another shape of the same numbers
    if not _widens(dtype, new):
        raise _refused(stored, declared, f"{dtype.name} holds numbers that {new.name} does not")
    return f"as({target},{stored.codec})"


def _dtype(codec: str) -> str:
    """Return NumPy's name of the dtype of an array codec; of one without parameters that of whole numbers."""
    return codec.partition("(")[2].partition(",")[0].removesuffix(")").replace("(", "[") or "int64"


def _widens(old: np.dtype[Any], new: np.dtype[Any]) -> bool:
    """Return whether a dtype holds every number of another one."""
    if old.kind in "iu" and new.kind == "f":
        return 8 * old.itemsize - (old.kind == "i") <= _EXACT_BITS[f"f{new.itemsize}"]
    return np.can_cast(old, new, "safe")


def _of_number(stored: Stored, declared: Field) -> str:
    target, target_base = declared.codec, declared.base_codec
    if not (target_base in _NUMBERS or target_base == "json"):
        raise _refused(stored, declared)
    if stored.numbers is None and target_base in WHOLE and stored.field.base_codec in REAL:
        raise _refused(
            stored,
            declared,
            "its values are not in the table, so it is not known whether they are whole",
        )
    return f"as({target},{stored.codec})"


def _kept(numbers: np.ndarray, target: str, source: str) -> Bools:
    """Return bool[n], which numbers of a source type another type holds exactly."""
    dtype, source_dtype, base = time_dtype(target), time_dtype(source), _base(target)
    if dtype is not None and source_dtype is not None:
        numbers = numbers.view(source_dtype)
    kind = numbers.dtype.kind
    if dtype is not None and kind not in f"iu{dtype.kind}":
        return np.zeros(len(numbers), np.bool_)
    if dtype is not None and kind == "u":  # times are counts with a sign
        dtype = np.dtype(np.int64)
    # large numbers without a sign stay as they are
    if base in _DTYPES and (kind != "u" or base not in WHOLE):
        dtype = np.dtype(_DTYPES[base])
    if dtype is None:
        return np.ones(len(numbers), np.bool_)
    return cast_and_kept(numbers, dtype)[1]


def _refused(stored: Stored, declared: Field, reason: str = "") -> SpecError:
    if not reason and stored.numbers is not None and len(stored.numbers):
        reason = f"its first value is {stored.numbers[0]}"
    why = f": {reason}".removesuffix(": ")
    return SpecError(
        f"field {declared.name!r} of {stored.file} is stored as {stored.field.type}, "
        f"and cannot be read as {declared.type} without a change{why}. Leave it out "
        "of spec=, and convert its values by ds.map or a transform"
    )
