"""The site's reference: a public name in a docstring becomes a link to its entry, and signatures have no private names.

Griffe, which reads the docstrings for mkdocstrings, calls it for each object. `help()` shows docstrings as they are.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import griffe

_NAME = re.compile(r"(?<![`\[])`(?P<name>[A-Za-z_][\w.]*)(?P<call>\(\))?`(?![`\]])")

_PAGE = re.compile(r"(?<!`)docs/[\w-]+\.md")


class PublicNames(griffe.Extension):
    """Links the public names that docstrings mention, and writes out the private ones of signatures.

    Args:
        names: What docstrings call them, such as `open` and `bushel.open`, to their entries.
        titles: Pages that docstrings name, such as `docs/video.md`, to links of the site.
    """

    def __init__(self, names: Mapping[str, str], titles: Mapping[str, str]) -> None:
        self._names, self._titles = names, titles
        self._public = frozenset(names.values())

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace private names of types by the types."""
        for parameter in func.parameters:
            parameter.annotation = self._written_out(parameter.annotation)
        func.returns = self._written_out(func.returns)

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Replace private names of types by the types."""
        attr.annotation = self._written_out(attr.annotation)

    def _written_out(self, expression: Any, within: frozenset[str] = frozenset()) -> Any:
        """Return a type without private names, except for one that its own definition names."""
        if isinstance(expression, list):
            return [self._written_out(part, within) for part in expression]
        if isinstance(expression, griffe.ExprName):
            meaning = None if expression.name in within else self._meaning(expression)
            return expression if meaning is None else self._written_out(meaning, within | {expression.name})
        if not isinstance(expression, griffe.Expr):
            return expression
        parts = {field.name: getattr(expression, field.name) for field in dataclasses.fields(expression)}
        return type(expression)(**{name: self._written_out(part, within) for name, part in parts.items()})

    def _meaning(self, name: griffe.ExprName) -> griffe.Expr | None:
        """Return the type that a private name of the house stands for, or None for any other name."""
        path = name.canonical_path
        if not path.startswith("bushel.") or path in self._public:
            return None
        try:
            attribute = name.resolved
            value = attribute.value  # type: ignore[union-attr]
        except (AttributeError, KeyError, griffe.AliasResolutionError, griffe.CyclicAliasError):
            return None
        if isinstance(value, str) and value[:1] in ("'", '"'):  # a type in quotes
            written = ast.parse(ast.literal_eval(value), mode="eval").body
            value = griffe.get_annotation(written, attribute.parent)  # type: ignore[union-attr, arg-type]
        types = griffe.ExprBinOp | griffe.ExprName | griffe.ExprAttribute | griffe.ExprSubscript
        return value if isinstance(value, types) else None

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
