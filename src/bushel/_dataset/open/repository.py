"""Datasets that are repositories of the Hugging Face Hub: find the files of a configuration and a split.

It serves `hf://datasets/org/name`, and local copies of such repositories.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bushel._index.shard import FOLDER
from bushel._recognise.names import one_of
from bushel._runtime.messages import few, log_warning
from bushel.codecs import codec_of_extension
from bushel.codecs.registry import holds_media
from bushel.containers import candidates, is_data_file, is_data_if_named
from bushel.containers.features import Feature
from bushel.containers.folder_metadata import METADATA
from bushel.errors import (
    BushelError,
    FormatError,
    MissingPackageError,
    SpecError,
    UnsupportedError,
    needed_by,
)
from bushel.storage import AnyPath, as_path, below, list_names, read_whole, walk_names
from bushel.storage.objects.hub import HubPath

from .data_files import (
    configurations,
    features_of_card,
    features_of_info,
    front_matter,
    splits_of,
)

_INFO = "dataset_info.json"
_DIGITS = re.compile(r"[0-9]+")
_MOST_NAMES = 100_000  # files of a folder that is looked through for a hint


def split_of(
    source: object, config: str | None, split: str | None
) -> tuple[Any, Mapping[str, Feature]]:
    """Return the files of a split, and the features of its fields in the repository's card.

    The files are the folder if that has only these, or the source if it is not a repository.

    Args:
        source: The repository: a URL or a path.
        config: Name of the configuration; None for the default or the only one.
        split: Name of the split; None for the only one.

    Raises:
        FileNotFoundError: The dataset, revision or folder does not exist.
        SpecError: The configuration or split does not exist, or there are several and none was
            named.
        UnsupportedError: The configuration has samples in a field of a JSON object.
        FormatError: The front matter of README.md is malformed, or the files of the split have no
            common container.
        MissingPackageError: README.md has a front matter, and PyYAML is not installed.
        TypeError: `source` is a list.
    """
    if (
        config is None
        and split is None
        and not (isinstance(source, str) and HubPath.names_repository(source))
    ):
        return source, {}
    if isinstance(source, list | tuple):
        raise TypeError("config= and split= are for one dataset: give its URL or its folder")
    root = as_path(source)
    names = list_names(root)
    if not names and not root.is_dir():
        raise FileNotFoundError(f"no such folder: {root}")
    is_whole = config is None and _is_whole(root, names)
    if is_whole and split is None:
        return [root], {}
    try:
        card = _card(root, names)
        configured = configurations(card)
        named = {entry.name: entry for entry in configured}
        defaults = [entry.name for entry in configured if entry.is_default]
        default = defaults[0] if len(defaults) == 1 else None
        chosen = named[one_of(root, "configuration", named, config, default)]
        splits = splits_of(chosen, names)
        features = {**_info(root, names), **features_of_card(card, chosen.name)}
    except ValueError as error:
        raise FormatError(str(error), root / "README.md") from error
    if not splits:
        raise SpecError(f"{root} has no data files in configuration {chosen.name!r}")
    files = splits[one_of(root, "split", splits, split)]
    if is_whole and len(splits) == 1 and chosen.patterns is None:
        return [root], features
    if "field" in chosen.options:
        raise UnsupportedError(
            f"{root}: README.md says that the samples of configuration {chosen.name!r} are a "
            "list in a field of a JSON object (field:), which is not read. Write the list to "
            "its own file, for example with jq -c '.FIELD[]' IN.json > OUT.jsonl, and open that"
        )
    if chosen.options:
        log_warning(
            "%s: README.md gives configuration %r the options %s, "
            "which are not applied: spec= names columns and types",
            *(root, chosen.name, ", ".join(chosen.options)),
        )
    return _paths(root, names, files), features


def splits_hint(root: AnyPath) -> str | None:
    """Return a hint that names the configurations or splits of a local folder; None if it has no data files."""
    if (
        not (isinstance(root, Path) and root.is_dir())
        or len(names := list(islice(walk_names(root), _MOST_NAMES))) == _MOST_NAMES
    ):
        return None
    try:
        configured = configurations(_card(root, names))
        splits = splits_of(configured[0], names)
    except (BushelError, ValueError, OSError):
        return None
    if not any(
        _kind(name) or is_data_if_named(name) for files in splits.values() for name in files
    ):
        return None
    first = f"split={next(iter(splits))!r}"
    kind, listed = "splits", list(splits)
    if len(configured) > 1:
        first = f"config={configured[0].name!r}, {first}"
        kind, listed = "configurations", [configuration.name for configuration in configured]
    return f"it has the {kind} {few(listed)}: bushel.open({str(root)!r}, {first}) reads one"


def _is_whole(root: AnyPath, names: Sequence[str]) -> bool:
    """Return whether a repository is one dataset: packed or indexed, or known by such a file as index.json."""
    if f"{FOLDER}/manifest.json" in names:
        return True
    kinds = candidates(name.partition("/")[0] for name in names)
    # a bag is always a folder, and its files are not datasets
    return any(
        kind.shards(root)
        for kind in kinds
        if not kind.suffixes or (kind.is_written and not kind.suffix)
    )


def _card(root: AnyPath, names: Sequence[str]) -> Any:
    """Return the parsed front matter of README.md; None without it. Raise ValueError if it is not YAML."""
    if "README.md" not in names:
        return None
    text = front_matter(bytes(read_whole(root / "README.md")).decode("utf-8", "replace"))
    if text is None or not ("configs" in text or "dataset_info" in text):
        return None
    try:
        with needed_by(f"{root / 'README.md'}: the list of its configurations", "bushel[hub]"):
            import yaml
    except MissingPackageError:
        if "configs" in text:
            raise
        log_warning(
            "%s names classes, which are not read: pip install 'bushel[hub]'", root / "README.md"
        )
        return None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"the front matter is not YAML: {error}") from error


def _info(root: AnyPath, names: Sequence[str]) -> Mapping[str, Feature]:
    """Return the features in `dataset_info.json`; empty if the file does not exist.

    Raises:
        ValueError: It is malformed.
    """
    if _INFO not in names:
        return {}
    try:
        return features_of_info(json.loads(bytes(read_whole(root / _INFO))))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{_INFO}: {error}") from error


def _paths(root: AnyPath, names: Sequence[str], files: Sequence[str]) -> list[AnyPath]:
    """Return the files of the most frequent kind; of media, the folder that contains them all."""
    kinds = Counter(filter(None, map(_kind, files)))
    named = [name for name in files if is_data_if_named(name)]
    if not kinds and named:
        return [below(root, name) for name in named]
    if not kinds:
        shown = ", ".join(sorted({name.rpartition(".")[2] for name in files})[:5])
        raise FormatError(f"no container reads the {len(files)} files of the split ({shown})", root)
    [(kind, _)] = kinds.most_common(1)
    chosen = [name for name in files if _kind(name) == kind]
    if kind != "media":
        return [below(root, name) for name in chosen]
    # of lists, it compares their items
    folder = "/".join(os.path.commonprefix([name.split("/")[:-1] for name in files]))
    rest = set(names) - set(files)
    if any(
        _kind(name) == "media" and (not folder or name.startswith(f"{folder}/")) for name in rest
    ):
        raise FormatError(
            "the media files of the split share the folder "
            f"{folder or '.'!r} with media files of other splits",
            root,
            hint="open a list of files, or the folder of all splits",
        )
    return [below(root, folder) if folder else root]


def _kind(name: str) -> str:
    file = name.rpartition("/")[2]
    if file in METADATA:
        return ""
    if is_data_file(file):
        suffix = file[file.find(".") if file.endswith((".gz", ".zst")) else file.rfind(".") :]
        return _DIGITS.sub("#", suffix)  # .tfrecord-00000-of-00003 and -00001-of-00003 are one kind
    if holds_media(codec_of_extension(file.partition(".")[2].lower())):
        return "media"
    return ""
