"""Objects that the caller of a viewer names, such as `my_training:make_loader`: loaders, a tokenizer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.open.sources import files_named
from bushel._dataset.views.dataset import Dataset
from bushel._pictures.texts import plain_text
from bushel._runtime.public import imported
from bushel.errors import needed_by
from bushel.loader import Loader

from .overlay_pages import checked_overlay
from .quality import vectors_of_file
from .shelf import Shelf, Shown
from .tags import TagFile

Tokenizer = Callable[[list[int]], str]
"""Returns the text of tokens."""


def loader_named(name: str) -> Loader:
    """Import the loader that a name such as `my_training:make_loader` refers to.

    It is a `bushel.Loader`, or a function without arguments that returns one. Modules are also
    looked for in the current directory.

    Raises:
        ValueError: The name is malformed, or what it refers to is not one of these.
    """
    loader = imported(name, "my_training:make_loader")
    if inspect.isfunction(loader) and not inspect.signature(loader).parameters:
        loader = loader()
    if not isinstance(loader, Loader):
        raise ValueError(  # noqa: TRY004
            f"{name!r} is {loader!r}: expected a bushel.Loader, or a function that returns one"
        )
    return loader


def tokenizer_named(name: str | Path) -> Tokenizer:
    """Return the function from tokens to text that a file or a name refers to.

    Args:
        name: A `tokenizer.json` of the package tokenizers, or `MODULE:NAME` of a function, or of an
            object whose method `decode` is one.

    Raises:
        MissingPackageError: It is a file, and tokenizers is not installed:
            `pip install tokenizers`.
        ValueError: The file is not a tokenizer, or the name refers to something else.
        OSError: The file cannot be read.
    """
    if str(name).endswith(".json"):
        text = Path(name).read_text(encoding="utf-8")
        with needed_by("a tokenizer.json", "tokenizers"):
            from tokenizers import Tokenizer as Fast
        try:
            fast = Fast.from_str(text)
        except Exception as error:  # tokenizers raises Exception itself
            raise ValueError(f"{name}: not a tokenizer: {error}") from error
        return lambda tokens: str(fast.decode(tokens, skip_special_tokens=False))
    loaded = imported(str(name), "my_training:tokenizer")
    function = getattr(loaded, "decode", loaded)
    if not callable(function):
        raise ValueError(  # noqa: TRY004
            f"{str(name)!r} is {loaded!r}: expected a "
            "function of tokens, or an object with decode()"
        )
    return function  # type: ignore[no-any-return]


_FIXED = frozenset(("__key__", "data", "index", "train", "test", "images"))
"""File names that are less meaningful than the name of their folder."""


def make_shelf(
    sources: Sequence[Any],
    *,
    tags: Path | None = None,
    overlays: Mapping[str, str] | None = None,
    embeddings: Sequence[Path] = (),
    loaders: Mapping[str, Loader] | None = None,
    tokenizer: Tokenizer | None = None,
    **options: Any,
) -> Shelf:
    """Open datasets for the viewer.

    Args:
        sources: For each dataset, a `Dataset` or what `bushel.open` takes. A `Loader` is its
            dataset, and one of the loaders.
        tags: The file that keeps the tags; None if they are lost when the viewer closes.
        overlays: How fields annotate pictures, by field, such as `{"boxes": "xywh,relative"}`.
        embeddings: Files `.npy` with a vector for each sample of one of the datasets.
        loaders: Loaders whose batches the page of batches shows, by name.
        tokenizer: Returns the text of tokens; None to show their numbers.
        options: Arguments of `bushel.open`.

    Raises:
        BushelError: As `bushel.open`.
        OSError: As `bushel.open`.
        ValueError: The file of the tags or of vectors holds something else, a declaration of an
            overlay is malformed, or a file has another number of vectors than each dataset has
            samples.
        KeyError: No dataset has the field of an overlay.
    """
    shown: list[Shown] = []
    named_loaders = dict(loaders or {})
    for number, source in enumerate(sources):
        if isinstance(source, Loader):
            named_loaders[f"loader {number + 1}" if len(sources) > 1 else "loader"] = source
            source = _dataset_of(source)
        if isinstance(source, Dataset):
            whole = [str(shard.path(0)) for shard in source.shards[:1000] if shard.stamps]
            name = _name_of(_folder_of(whole)) if whole else "dataset"
            shown.append(Shown(number, name, whole, source))
        else:
            opened = open_dataset(files_named(source), **options)
            shown.append(
                Shown(number, _name_of(source), source, opened, f"bushel.open({_plain(source)!r})")
            )
    for name, text in (overlays or {}).items():
        checked_overlay(name, text)
        if not any(name in dataset.dataset.spec for dataset in shown):
            raise KeyError(f"the overlay {name}={text}: no dataset has a field {name!r}")
    file = None
    if tags is not None:
        file = TagFile(tags, {plain_text(str(dataset.source)): dataset.tags for dataset in shown})
    for path in embeddings:
        _add_vectors(path, shown)
    return Shelf(tuple(shown), file, dict(overlays or {}), named_loaders, tokenizer)


def _dataset_of(loader: Loader) -> Dataset:
    """Return the dataset of a loader.

    Raises:
        TypeError: It is a view that the viewer does not show, such as one of `ds.map`.
    """
    if isinstance(loader.dataset, Dataset):
        return loader.dataset
    raise TypeError(
        f"the samples of this loader come from {loader.dataset!r}, which has no index to look "
        'at: give the dataset beside it, such as bushel.view(ds, loaders={"train": loader})'
    )


def _add_vectors(path: Path, shown: Sequence[Shown]) -> None:
    """Add the vectors in a file to each dataset that has as many samples."""
    fitting = [
        (dataset, vectors)
        for dataset in shown
        if (vectors := vectors_of_file(path, len(dataset.dataset))) is not None
    ]
    if not fitting:
        counts = ", ".join(
            f"{dataset.name} has {len(dataset.dataset):,} samples" for dataset in shown
        )
        raise ValueError(f"{path}: expected as many vectors as a dataset has samples: {counts}")
    for dataset, vectors in fitting:
        dataset.vectors[path.name] = vectors


def _plain(source: Any) -> Any:
    """Return a source as people write it: paths as text."""
    if isinstance(source, list | tuple):
        return [_plain(part) for part in source]
    return plain_text(str(source))


def _folder_of(files: Sequence[str]) -> str:
    """Return the file of a dataset, or the folder of several or of one whose name is fixed, such as `__key__.bag`."""
    first = Path(files[0])
    alone = len(files) == 1 and first.stem not in _FIXED and not re.search(r"\d{3,}", first.stem)
    if alone:
        return files[0]
    return str(first.parent)


def _name_of(source: Any) -> str:
    first = source[0] if isinstance(source, list | tuple) and source else source
    name = plain_text(str(first)).rstrip("/").rpartition("/")[2] or "dataset"
    if isinstance(source, list | tuple) and len(source) > 1:
        return f"{name} …"
    return name
