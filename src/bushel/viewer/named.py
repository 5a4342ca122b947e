"""Objects that the caller of a viewer names, such as `my_training:augment`: transforms, loaders, a tokenizer."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bushel.errors import needed_by

if TYPE_CHECKING:
    from bushel.loader import Loader

Tokenizer = Callable[[list[int]], str]
"""Returns the text of tokens."""


def transforms_named(name: str) -> list[Any]:
    """Import the transforms that a name such as `my_training:augment` refers to.

    It is a transform, a list of transforms, or a function without arguments that returns either.
    Modules are also looked for in the current directory.

    Raises:
        ValueError: The name is malformed, or what it refers to is not one of these.
    """
    loaded = _called(imported(name, "my_training:augment"))
    listed = list(loaded) if isinstance(loaded, list | tuple) else [loaded]
    if not all(callable(transform) for transform in listed):
        raise ValueError(f"{name!r} is {loaded!r}: expected a transform or a list of transforms")
    return listed


def loader_named(name: str) -> Loader:
    """Import the loader that a name such as `my_training:make_loader` refers to.

    It is a `bushel.Loader`, or a function without arguments that returns one.

    Raises:
        ValueError: The name is malformed, or what it refers to is not one of these.
    """
    from bushel.loader import Loader

    loader = _called(imported(name, "my_training:make_loader"))
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
            f"{str(name)!r} is {loaded!r}: expected a function of tokens, or an"
            " object with decode()"
        )
    return function  # type: ignore[no-any-return]


def imported(name: str, example: str) -> Any:
    """Return the object of a name such as `my_training:augment`. Modules are also looked for in the current directory.

    Raises:
        ValueError: The name is malformed, or refers to nothing.
    """
    module, colon, attribute = name.partition(":")
    if not module or not colon or not attribute:
        raise ValueError(f"{name!r}: expected MODULE:NAME, such as {example}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return attrgetter(attribute)(import_module(module))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from error


def _called(found: Any) -> Any:
    """Call a function without arguments, and return its result; return anything else as it is."""
    if inspect.isfunction(found) and not inspect.signature(found).parameters:
        return found()
    return found
