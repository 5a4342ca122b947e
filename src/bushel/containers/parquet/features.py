"""The metadata of columns in a Parquet file beyond the schema: Hugging Face's features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bushel.containers.parquet.footer import Footer
from bushel.errors import FormatError

_CODECS = {"Image": "image"}


@dataclass(frozen=True, slots=True)
class Feature:
    """Hugging Face's metadata of a column."""

    codec: str | None = None  # codec of its values, or of the elements of a list; None if it follows from the values
    names: tuple[str, ...] = ()  # names of its classes, or of its elements, in the order of their numbers
    sound: bool = False  # whether the values are sounds, whose first bytes show the codec


def features_of(footer: Footer, path: str) -> dict[str, Feature]:
    """Return the features of the columns that have some.

    Raises:
        FormatError: The metadata is not as Hugging Face writes it.
    """
    return features_in(footer.metadata.get("huggingface"), path)


def features_in(text: str | bytes | None, path: str) -> dict[str, Feature]:
    """Return the features in the metadata `huggingface`, which a file may lack (None).

    Raises:
        FormatError: The metadata is not as Hugging Face writes it.
    """
    if text is None:
        return {}
    try:
        described = msgspec.json.decode(text)["info"]["features"]
        return {str(name): feature_of(each) for name, each in described.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"the metadata 'huggingface' is malformed: {error!r}", file=path) from error


def feature_of(described: Any) -> Feature:
    """Return one feature, as the JSON of Hugging Face has it; an empty one if it has nothing that is used."""
    if isinstance(described, list):  # an older form of a list
        return feature_of(described[0]) if described else Feature()
    if not isinstance(described, Mapping):
        return Feature()
    kind = described.get("_type")
    if kind == "ClassLabel" and isinstance(described.get("names"), list):
        return Feature(names=tuple(map(str, described["names"])))
    if kind in ("List", "Sequence", "LargeList"):
        return feature_of(described.get("feature"))
    return Feature(_CODECS.get(str(kind)), sound=kind == "Audio")
