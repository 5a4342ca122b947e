"""A data card in Markdown, from the facts of a dataset. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from bushel._runtime.amounts import count, size
from bushel.cards.about import About
from bushel.cards.facts import Counted, Facts

_CLASSES = 100  # classes that are listed; the others are counted
_ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_[]|#~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"})


def body(splits: Sequence[Facts], about: About) -> str:
    """Return the card without its front matter."""
    parts = [
        _head(about),
        _contents(splits),
        *(_fields(each) for each in _different(splits)),
        *(_classes(splits, name) for name in dict.fromkeys(name for each in splits for name in each.classes)),
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
    rows = []
    for each in splits:
        info = each.dataset.info
        name = [each.name] if len(splits) > 1 else []
        numbers = [f"{number:,}" for number in (info.samples, info.removed, info.shards, info.files)]
        rows.append([*name, info.container, *numbers, size(info.bytes), "yes" if info.complete else info.shortfall])
    header = ["container", "samples", "removed", "shards", "files", "bytes", "complete"]
    return _section("Contents", _table(["split", *header] if len(splits) > 1 else header, rows))


def _different(splits: Sequence[Facts]) -> Iterator[Facts]:
    """Yield the splits: the first alone if all have the same fields."""
    same = len({tuple(each.dataset.spec.items()) for each in splits}) == 1 and len(splits) > 1
    yield from splits[:1] if same else splits


def _fields(facts: Facts) -> str:
    rows = [
        [
            each.name,
            each.type,
            each.codecs,
            f"{each.samples:,}",
            f"{each.elements:,}",
            size(each.mean),
            size(each.max),
            size(each.bytes),
        ]
        for each in facts.fields
    ]
    header = ["field", "type", "stored as", "samples", "values", "mean size", "largest", "bytes"]
    note = ["These numbers include the removed samples.", ""] if facts.dataset.info.removed else []
    return _section(f"Fields{_of(facts)}", [*_table(header, rows), *note])


def _of(facts: Facts) -> str:
    return f" of {_text(facts.name)}" if facts.name else ""


def _classes(splits: Sequence[Facts], field: str) -> str:
    own = [dict(each.classes.get(field, ())) for each in splits]
    names = list(dict.fromkeys(name for each in own for name in each))
    rows = []
    for number, name in enumerate(names[:_CLASSES]):
        counts = [each.get(name, 0) for each in own]
        rows.append([str(number), name, *("" if many is None else f"{many:,}" for many in counts)])
    header = ["number", "class", *(each.name or "samples" for each in splits)]
    more = [f"and {len(names) - _CLASSES:,} more classes", ""] if len(names) > _CLASSES else []
    if any(many is None for each in own for many in each.values()):
        more += [f"No column in the index counts them: `bushel index --columns {field}` makes it.", ""]
    return _section(f"Classes of {_text(field)}", [*_table(header, rows), *more])


def _titled(splits: Sequence[Facts], title: str, lines_of: Any) -> Iterator[str]:
    for each in splits:
        if lines := lines_of(each):
            yield _section(f"{title}{_of(each)}", lines)


def _columns(facts: Facts) -> list[str]:
    rows = []
    for each in facts.columns:
        numbers = ["" if value is None else f"{value:,.6g}" for value in (each.min, each.mean, each.max)]
        top = ", ".join(f"{str(value)[:40]} ({many:,})" for value, many in each.top)
        more = ", …" if each.top and len(each.top) < each.distinct else ""
        counts = [f"{each.values:,}", f"{each.missing:,}", f"{each.distinct:,}"]
        rows.append([each.name, each.kind, *counts, *numbers, top + more])
    header = ["column", "kind", "values", "missing", "different", "min", "mean", "max", "most frequent"]
    return _table(header, rows) if rows else []


def _counts(counted: Counted | None, noun: str) -> list[str]:
    if counted is None:
        return []
    what = "The servers in the column" if counted.hosts else "By the column"
    lines = [f"{what} {_text(counted.column)}:", ""]
    lines += _table([noun, "samples"], [[value, f"{many:,}"] for value, many in counted.values])
    if counted.more:
        lines += [f"and {counted.more:,} others", ""]
    if counted.missing:
        lines += [f"{count(counted.missing, 'sample')} without a {noun}", ""]
    return lines


def _removed(facts: Facts) -> list[str]:
    rows = [[_day(each.time), f"{each.samples:,}", f"{each.missing:,}", each.reason] for each in facts.removals]
    if not rows:
        return []
    erased = not any(each.samples for each in facts.removals)
    note = "" if erased else "Samples that are still stored are in the files, where other tools read them."
    return [*_table(["day", "still stored", "not stored any more", "reason"], rows), *([note, ""] if note else [])]


def _views(facts: Facts) -> list[str]:
    rows = [
        [each.name, each.made, f"{each.samples:,}", _day(each.time), "stale" if each.stale else "current"]
        for each in facts.views
    ]
    return _table(["view", "made by", "samples", "day", "state"], rows) if rows else []


def _integrity(facts: Facts) -> list[str]:
    info = facts.dataset.info
    sums = "of every value" if info.checksums else "not of every field: `bushel index` records them"
    lines = [f"- CRC-32 in the index: {sums}", f"- Fingerprint: `{facts.dataset.fingerprint}`"]
    return [*lines, "", "This card was made from the index. `bushel verify` compares the data with it.", ""]


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"## {title}", "", *lines])


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [_row(header), _row(["---"] * len(header)), *(_row([_text(cell) for cell in row]) for row in rows)]
    return [*lines, ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    one_line = "".join(sign if sign.isprintable() else " " for sign in str(text))
    return one_line.translate(_ESCAPED)


def _link(text: str, url: str | None) -> str:
    safe = url is not None and url.startswith(("https://", "http://")) and not set(url) & set(" ()<>\"'\n")
    return f"[{_text(text)}]({url})" if safe else _text(text)
