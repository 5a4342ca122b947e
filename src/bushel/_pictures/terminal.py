"""Samples and batches in a terminal: a line for each field instead of all of their pixels."""

from __future__ import annotations

import builtins
import reprlib
import sys
from collections.abc import Mapping
from typing import Any

from bushel._runtime.public import public

_KEY = "__key__"
_FEW = 8  # largest number of elements that are printed
_LONGEST = 60  # characters of a text that are printed

_brief = reprlib.Repr()
_brief.maxstring = _brief.maxother = _LONGEST


def is_brief(value: Any) -> bool:
    """Return whether Python's own text of a value fits a line or two."""
    if isinstance(value, str | bytes):
        return len(value) <= _LONGEST
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return len(value) <= _FEW and all(map(is_brief, value))
    size = getattr(value, "size", 1)  # a method of tensors
    return isinstance(size, int) and size <= _FEW


def lines_of(fields: Mapping[str, Any]) -> str:
    """Return a line for each field of a sample or a batch, such as `image  uint8[480, 640, 3]`."""
    width = max(map(len, fields), default=0)
    return "\n".join(f"{name:{width}}  {_described(value)}" for name, value in fields.items())


def _described(value: Any) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and shape and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
    if isinstance(value, bytes) and not is_brief(value):
        return f"bytes[{len(value):,}]"
    if isinstance(value, list) and not is_brief(value):
        return f"list of {len(value):,}: {_described(value[0])}, …"
    try:
        return _brief.repr(value)
    except ValueError:  # Python refuses to print integers of more than 4300 digits
        return f"a {type(value).__name__} too large to print"


@public()
def show(value: object) -> None:
    """Show a dataset, a sample or a batch: pictures in a notebook, lines of text elsewhere.

    A sample or a batch has a line for each field, with the shape and type of its arrays; a dataset
    has its first samples. An interactive Python shows samples and batches so by itself.

    Args:
        value: A dataset, a sample, or a batch of a loader.

    Examples:
        >>> bushel.show(ds[3])
        __key__  'cat/3'
        image    uint8[48, 64, 3]
        label    0
        >>> for batch in bushel.Loader(ds, 12):
        ...     bushel.show(batch)
        __key__  list of 12: 'cat/0', …
        image    uint8[12, 48, 64, 3]
        label    int64[12]
    """
    notebook = sys.modules.get("IPython.display")
    gallery = getattr(value, "show", None)
    if callable(gallery):
        value = gallery()
    if notebook is not None and type(_shell()).__name__ == "ZMQInteractiveShell":
        notebook.display(value)
    elif isinstance(value, Mapping):
        print(lines_of(value))
    else:
        print(value)


def _shell() -> Any:
    """Return the interactive shell of IPython that runs; None without one."""
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


def _is_shown(value: Any) -> bool:
    return type(value) is dict and _KEY in value and not is_brief(value)


def install() -> None:
    """Let the interactive Python that runs show plain dicts that are samples or batches as lines."""
    shell = _shell()
    if shell is not None:
        _install_in_ipython(shell.display_formatter.formatters)
        return
    show_other = sys.displayhook

    def displayhook(value: object) -> None:
        if _is_shown(value):
            print(lines_of(value))  # type: ignore[arg-type]
            builtins._ = value  # type: ignore[attr-defined]
        else:
            show_other(value)

    sys.displayhook = displayhook


def _install_in_ipython(formatters: Any) -> None:
    printers = formatters["text/plain"].type_printers
    print_other = printers[dict]

    def pretty(value: Any, printer: Any, cycle: bool) -> None:
        if _is_shown(value):
            printer.text(lines_of(value))
        else:
            print_other(value, printer, cycle)

    def html(value: Any) -> str | None:
        from .notebook import batch_html, sample_html

        if not _is_shown(value):
            return None
        if isinstance(value[_KEY], list):
            return batch_html(value)
        return sample_html(value)

    printers[dict] = pretty
    formatters["text/html"].for_type(dict, html)
