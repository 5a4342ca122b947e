"""The features of fields in the card of a repository of the Hub: names of classes, and columns that hold images.

It stands in `dataset_info.json`, and in the front matter of README.md (`dataset_info:`). Pure: no
I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bushel.containers.features import Feature, feature_of


def features_of_info(info: Any) -> dict[str, Feature]:
    """Return the features that the parsed `dataset_info.json` of a repository has.

    Raises:
        ValueError: They are not as Hugging Face writes them.
    """
    features = info.get("features") if isinstance(info, Mapping) else None
    if features is None:
        return {}
    if not isinstance(features, Mapping):
        raise ValueError("`features` is not a mapping")  # noqa: TRY004
    return {str(name): feature_of(description) for name, description in features.items()}


def features_of_card(card: Any, config: str) -> dict[str, Feature]:
    """Return the features of a configuration in the parsed front matter of a README.md.

    Raises:
        ValueError: They are not as Hugging Face writes them.
    """
    listed = card.get("dataset_info") if isinstance(card, Mapping) else None
    entries = listed if isinstance(listed, list) else [listed]
    mappings = [entry for entry in entries if isinstance(entry, Mapping)]
    named = [entry for entry in mappings if str(entry.get("config_name", "default")) == config]
    chosen = named or (mappings if len(mappings) == 1 else [])
    features = chosen[0].get("features") if chosen else None
    if features is None:
        return {}
    if not isinstance(features, list) or not all(
        isinstance(field, Mapping) and "name" in field for field in features
    ):
        raise ValueError("`features` of `dataset_info` is not a list of fields with names")
    return {str(field["name"]): feature_of(_as_json(field)) for field in features}


def _as_json(described: Any) -> Any:
    """Return a field of the front matter as the JSON of Hugging Face has it."""
    if isinstance(described, str):
        return {"_type": described.capitalize()}
    if not isinstance(described, Mapping):
        return None
    for name in ("list", "sequence"):
        if name in described:
            return {"_type": "List", "feature": _as_json(described[name])}
    kind = described.get("dtype", described)
    if isinstance(kind, Mapping) and isinstance(kind.get("class_label"), Mapping):
        return {"_type": "ClassLabel", "names": _names(kind["class_label"].get("names"))}
    if kind is described:
        return None
    return _as_json(kind)


def _names(listed: Any) -> list[str]:
    """Return names of classes in the order of their numbers, which are the keys.

    Raises:
        ValueError: They are not numbered from 0 on.
    """
    if not isinstance(listed, Mapping):
        if isinstance(listed, list):
            return list(map(str, listed))
        return []
    numbered = {int(number): str(name) for number, name in listed.items()}
    if sorted(numbered) != list(range(len(listed))):
        raise ValueError("the names of classes are not numbered from 0")
    return [numbered[number] for number in range(len(numbered))]
