"""Cross-references in the site's reference: a public name in a docstring becomes a link to its entry.

Griffe, which reads the docstrings for mkdocstrings, calls it for each object. `help()` shows docstrings as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import griffe

_NAME = re.compile(r"(?<![`\[])`(?P<name>[A-Za-z_][\w.]*)(?P<call>\(\))?`(?![`\]])")

_PAGE = re.compile(r"(?<!`)docs/[\w-]+\.md")


class PublicNames(griffe.Extension):
    """Links the public names that docstrings mention.

    Args:
        names: What docstrings call them, such as `open` and `bushel.open`, to their entries.
        titles: Pages that docstrings name, such as `docs/video.md`, to links of the site.
    """

    def __init__(self, names: Mapping[str, str], titles: Mapping[str, str]) -> None:
        self._names, self._titles = names, titles

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace the names in the text of a docstring, up to its examples."""
        if obj.docstring is None:
            return
        text, mark, examples = obj.docstring.value.partition("\nExamples:")
        text = _PAGE.sub(lambda page: self._titles.get(page[0], page[0]), text)
        obj.docstring.value = _NAME.sub(lambda found: self._link(found, obj), text) + mark + examples

    def _link(self, found: re.Match[str], obj: griffe.Object) -> str:
        entry = self._names.get(found["name"])
        return found[0] if entry is None or entry == obj.path else f"[{found[0]}][{entry}]"
