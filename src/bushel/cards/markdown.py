"""A data card in Markdown, from the facts of a dataset. Pure: no I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from bushel._runtime.messages import count, size
from bushel._runtime.public import command

from .facts import About, Counted, Facts

_CLASSES = 100  # classes that are listed; the others are counted
_ESCAPED = str.maketrans(
    {sign: f"\\{sign}" for sign in "\\`*_[]|#~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)


def body(splits: Sequence[Facts], about: About) -> str:
    """Return the card without its front matter."""
    parts = [
        _head(about),
        _contents(splits),
        *(_fields(split) for split in _different(splits)),
        *(
            _classes(splits, name)
            for name in dict.fromkeys(name for split in splits for name in split.classes)
        ),
        *_titled(splits, "Columns", _columns),
        *_titled(splits, "Licences", lambda each: _counts(each.licenses, "licence")),
        *_titled(splits, "Sources", lambda each: _counts(each.sources, "source")),
        *_titled(splits, "Removed samples", _removed),
        *_titled(splits, "Saved views", _views),
        *_titled(splits, "Integrity", _integrity),
        f"Made on {datetime.now(UTC):%Y-%m-%d} by `bushel card`.\n",
    ]
    return "\n".join(part for part in parts if part)


def _head(about: About) -> str:
    lines = [f"# {_text(about.title)}", ""]
    if about.description:
        lines += [about.description.strip(), ""]
    facts = []
    if about.license is not None:
        facts.append(f"Licence: {_link(about.license, about.license_url)}")
    if about.url is not None:
        facts.append(f"Page: {_link(about.url, about.url)}")
    if about.creators:
        facts.append(f"Made by: {_text(', '.join(about.creators))}")
    return "\n".join([*lines, *(f"- {fact}" for fact in facts), ""])


def _contents(splits: Sequence[Facts]) -> str:
    several = len(splits) > 1
    rows = []
    for split in splits:
        info = split.dataset.info
        numbers = [info.samples, info.removed, info.shards, info.files]
        counts = [f"{number:,}" for number in numbers]
        ends = [size(info.bytes), "yes" if info.complete else info.shortfall]
        rows.append([split.name] * several + [info.container, *counts, *ends])
    header = "container | samples | removed | shards | files | bytes | complete"
    return _section("Contents", _table("split | " * several + header, rows))


def _different(splits: Sequence[Facts]) -> Iterator[Facts]:
    """Yield the splits: the first alone if all have the same fields."""
    different = {tuple(split.dataset.spec.items()) for split in splits}
    yield from splits[: len(splits) if len(different) > 1 else 1]


def _fields(facts: Facts) -> str:
    rows = [
        [
            field.name,
            field.type,
            field.codecs,
            f"{field.samples:,}",
            f"{field.elements:,}",
            size(field.mean),
            size(field.max),
            size(field.bytes),
        ]
        for field in facts.fields
    ]
    header = "field | type | stored as | samples | values | mean size | largest | bytes"
    note = ["These numbers include the removed samples.", ""] * bool(facts.dataset.info.removed)
    return _section(f"Fields{_of(facts)}", [*_table(header, rows), *note])


def _of(facts: Facts) -> str:
    if facts.name:
        return f" of {_text(facts.name)}"
    return ""


def _classes(splits: Sequence[Facts], field: str) -> str:
    counts_of_splits = [dict(split.classes.get(field, ())) for split in splits]
    names = list(dict.fromkeys(chain(*counts_of_splits)))
    rows = []
    for number, name in enumerate(names[:_CLASSES]):
        counts = [counts_of_split.get(name, 0) for counts_of_split in counts_of_splits]
        rows.append([f"{number}", name, *("" if many is None else f"{many:,}" for many in counts)])
    header = ["number", "class", *(_text(split.name or "samples") for split in splits)]
    lines = _table(" | ".join(header), rows)
    if len(names) > _CLASSES:
        lines += [f"and {len(names) - _CLASSES:,} more classes", ""]
    if any(None in counts_of_split.values() for counts_of_split in counts_of_splits):
        columns = command("index", "--columns", field)
        lines += [f"No column in the index counts them: {columns} makes it.", ""]
    return _section(f"Classes of {_text(field)}", lines)


def _titled(splits: Sequence[Facts], title: str, lines_of: Any) -> Iterator[str]:
    for split in splits:
        if lines := lines_of(split):
            yield _section(f"{title}{_of(split)}", lines)


def _columns(facts: Facts) -> list[str]:
    header = "column | kind | values | missing | different | mean | min | max | most frequent"
    return _table(header, [[*column.cells, column.frequent] for column in facts.columns])


def _counts(counted: Counted | None, noun: str) -> list[str]:
    if counted is None:
        return []
    what = "The servers in the column" if counted.hosts else "By the column"
    lines = [f"{what} {_text(counted.column)}:", ""]
    lines += _table(f"{noun} | samples", [[value, f"{many:,}"] for value, many in counted.values])
    if counted.more:
        lines += [f"and {counted.more:,} others", ""]
    if counted.missing:
        lines += [f"{count(counted.missing, 'sample')} without a {noun}", ""]
    return lines


def _removed(facts: Facts) -> list[str]:
    rows = [
        [_day(removal.time), f"{removal.samples:,}", f"{removal.missing:,}", removal.reason]
        for removal in facts.removals
    ]
    lines = _table("day | still stored | not stored any more | reason", rows)
    if any(removal.samples for removal in facts.removals):
        lines += [
            "Samples that are still stored are in the files, where other tools read them.",
            "",
        ]
    return lines


def _views(facts: Facts) -> list[str]:
    states = "current", "stale"
    rows = [
        [view.name, view.made, f"{view.samples:,}", _day(view.time), states[view.stale]]
        for view in facts.views
    ]
    return _table("view | made by | samples | day | state", rows)


def _integrity(facts: Facts) -> list[str]:
    sums = "of every value"
    if not facts.dataset.info.checksums:
        sums = "not of every field: `bushel index` records them"
    return [
        f"- CRC-32 in the index: {sums}",
        f"- Fingerprint: `{facts.dataset.fingerprint}`",
        "",
        "This card was made from the index. `bushel verify` compares the data with it.",
        "",
    ]


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"## {title}", "", *lines])


def _table(header: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; none without rows. In `header`, ` | ` is between the names of its columns."""
    if not rows:
        return []
    ruler = " | ".join(["---"] * len(rows[0]))
    cells = (" | ".join(map(_text, row)) for row in rows)
    return [*(f"| {line} |" for line in (header, ruler, *cells)), ""]


def _text(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    one_line = "".join(sign if sign.isprintable() else " " for sign in str(text))
    return one_line.translate(_ESCAPED)


def _link(text: str, url: str | None) -> str:
    if url is None or not re.fullmatch(r"https?://[^ ()<>\"'\n]*", url):
        return _text(text)
    return f"[{_text(text)}]({url})"
