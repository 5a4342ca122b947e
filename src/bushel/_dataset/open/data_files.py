"""Which files of a repository are the data of a configuration and a split, and what its card says of fields.

https://huggingface.co/docs/hub/datasets-data-files-configuration describes the rules. Everything
here is pure: names of files and the front matter of README.md go in, names of files and features of
fields come out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from bushel._recognise.names import SAME
from bushel.containers.features import Feature, feature_of

_KEYWORDS = {**SAME, "test": (*SAME["test"], "eval", "evaluation")}
_BETWEEN = "[-._ 0-9]"
_SHARDED = re.compile(r"data/(?P<split>\w+(?:\.\w+)*)-[0-9]{5}-of-[0-9]{5}.*\..*")
_NO_DATA = frozenset(
    (
        "README.md",
        "LICENSE",
        "config.json",
        "dataset_dict.json",
        "dataset_info.json",
        "dataset_infos.json",
    )
)
_FRONT = re.compile(r"\A---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_FOLLOWED = frozenset(  # or without effect on values; the delimiter of CSV is recognised
    (
        "config_name",
        "data_files",
        "data_dir",
        "default",
        "version",
        "description",
        "sep",
        "delimiter",
        "drop_labels",
    )
)
_MAGIC = re.compile("[*?[]")
_TOKEN = re.compile(r"\*\*/?|\[(?P<set>.[^]]*)\]|.", re.DOTALL)
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class Configuration(Struct, frozen=True):
    """A configuration of a dataset."""

    name: str
    is_default: bool = False  # whether it is the one that is used if none is named
    # the patterns of the files of each split; None if the names of files imply them
    patterns: Mapping[str, tuple[str, ...]] | None = None
    folder: str = ""  # the folder to look in, relative to the repository; empty for all of it
    # options of the program that the Hub reads the files with, such as `header`
    options: tuple[str, ...] = ()


def front_matter(readme: str) -> str | None:
    """Return the YAML at the beginning of a README.md; None if it has none."""
    match = _FRONT.match(readme.removeprefix("\ufeff"))
    if match is None:
        return None
    return match["yaml"]


def configurations(card: Any) -> list[Configuration]:
    """Return the configurations that the front matter of a README.md lists; without a list, the one named `default`.

    Raises:
        ValueError: `configs` is not as the Hub defines it.
    """
    listed = card.get("configs") if isinstance(card, Mapping) else None
    if listed is None:
        listed = []
    if not isinstance(listed, list) or not all(isinstance(entry, Mapping) for entry in listed):
        raise ValueError("`configs` is not a list of mappings")
    configured = [_configuration(entry) for entry in listed]
    return configured or [Configuration("default", True)]


def _configuration(entry: Mapping[str, Any]) -> Configuration:
    name = str(entry.get("config_name", "default"))
    folder = entry.get("data_dir") or ""
    if not isinstance(folder, str):
        raise ValueError(  # noqa: TRY004
            f"data_dir of configuration {name!r} is {folder!r}, not the name of a folder"
        )
    default = entry.get("default") is True or name == "default"
    patterns = _patterns(entry.get("data_files"), name)
    options = tuple(sorted(str(option) for option in entry if option not in _FOLLOWED))
    return Configuration(name, default, patterns, folder.strip("/").removeprefix("./"), options)


def _patterns(described: Any, name: str) -> dict[str, tuple[str, ...]] | None:
    if described is None:
        return None
    if isinstance(described, Mapping):
        return {str(split): _texts(paths, name) for split, paths in described.items()}
    if (
        isinstance(described, list)
        and described
        and all(isinstance(entry, Mapping) for entry in described)
    ):
        patterns: dict[str, tuple[str, ...]] = {}
        for entry in described:
            split = str(entry.get("split", "train"))
            patterns[split] = (*patterns.get(split, ()), *_texts(entry.get("path"), name))
        return patterns
    return {"train": _texts(described, name)}


def _texts(described: Any, name: str) -> tuple[str, ...]:
    texts = [described] if isinstance(described, str) else described
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"data_files of configuration {name!r} has "
            f"{described!r} in the place of a path or a list of them"
        )
    return tuple(texts)


def splits_of(configuration: Configuration, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of each split of a configuration.

    Returns:
        Name of the split to names of files, in the order of patterns, and sorted in each.

    Raises:
        ValueError: A pattern matches no file.
    """
    below = f"{configuration.folder}/" if configuration.folder else ""
    relative = sorted(name.removeprefix(below) for name in names if name.startswith(below))
    if configuration.patterns is None:
        splits = _by_name([name for name in relative if _is_data(name)])
    else:
        splits = {
            split: list(
                dict.fromkeys(
                    name
                    for pattern in patterns
                    for name in _matches(pattern, relative, configuration)
                )
            )
            for split, patterns in configuration.patterns.items()
        }
    return {split: [below + name for name in files] for split, files in splits.items()}


def _is_data(name: str) -> bool:
    no_data = name.rpartition("/")[2] in _NO_DATA or name.endswith((".py", ".md"))
    return not (no_data or _is_hidden(name))


def _is_hidden(path: str) -> bool:
    return any(part.startswith((".", "__")) for part in path.split("/"))


def _by_name(names: Sequence[str]) -> dict[str, list[str]]:
    """Return splits by the names: `data/SPLIT-00000-of-00005`, else names of folders, else names of files."""
    sharded: dict[str, list[str]] = {}
    for name in names:
        if match := _SHARDED.fullmatch(name):
            sharded.setdefault(match["split"], []).append(name)
    if sharded:
        return sharded
    for parts in (slice(None, -1), slice(-1, None)):
        splits: dict[str, list[str]] = {}
        for split, words in _KEYWORDS.items():
            word = re.compile(f"(?:^|{_BETWEEN})(?:{'|'.join(words)})(?:{_BETWEEN}|$)")
            matching = [name for name in names if any(map(word.search, name.split("/")[parts]))]
            if matching:
                splits[split] = matching
        if splits:
            return splits
    if names:
        return {"train": list(names)}
    return {}


def _matches(pattern: str, names: Sequence[str], configuration: Configuration) -> Iterator[str]:
    path = pattern.removeprefix("./").strip("/")
    plain = not _MAGIC.search(path)
    # in which `**` also matches slashes
    expression = re.compile(_TOKEN.sub(_expression_of_token, path))
    hidden = _is_hidden(path)
    matched = False
    for name in names:
        matches = expression.fullmatch(name) or (plain and name.startswith(f"{path}/"))
        if matches and (hidden or plain or _is_data(name)):
            matched = True
            yield name
    if not matched:
        raise ValueError(
            f"data_files of configuration {configuration.name!r}: no file matches {pattern!r}"
        )


def _expression_of_token(token: re.Match[str]) -> str:
    if token["set"] is None:
        return _WILD.get(token[0]) or re.escape(token[0])
    inside = token["set"].replace("\\", "\\\\").replace("[", "\\[")
    if inside[0] in "!^":
        return f"[^{inside[1:]}]"
    return f"[{inside}]"


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
    return [numbered[number] for number in sorted(numbered)]
