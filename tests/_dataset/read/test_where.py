"""Conditions on columns: the answers equal Python's own `eval`, for each sample, and DuckDB's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bushel
from bushel._dataset.read.where import choose
from bushel._index.columns import Part, join_pieces
from bushel._index.object_columns import of_objects

Row = Mapping[str, Any]
Truth = bool | None
Condition = tuple[str, Callable[[Row], Truth]]
"""An expression, and what it is for a sample: None if a value is missing, or a divisor is 0."""

EDGES = [edge + more for edge in (-(1 << 63), -(1 << 53), 0, 1 << 53, 1 << 63, 1 << 64) for more in (-1, 0, 1)]
INTEGERS = st.one_of(st.integers(-5, 5), st.sampled_from(EDGES), st.integers(-(1 << 70), 1 << 70))
FLOATS = st.one_of(st.sampled_from([0.0, -0.0, 0.5, -1.5, 2.0**53, 2.0**63, 1e300]), st.floats())
TEXTS = st.one_of(st.sampled_from(["", "a", "a\0", "ab", "b", "\0"]), st.text(max_size=3))
NUMBERS: Mapping[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-(1 << 63), (1 << 63) - 1),
    "small": st.integers(-3, 3),
    "u": st.integers(0, (1 << 64) - 1),
    "f": FLOATS,
    "b": st.booleans(),
    "mixed": st.one_of(INTEGERS, FLOATS, st.booleans()),
}


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Samples with a column of each kind, in which values are missing."""
    count = draw(st.integers(1, 6))
    columns = {
        name: draw(st.lists(st.none() | values, min_size=count, max_size=count))
        for name, values in {**NUMBERS, "t": TEXTS}.items()
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def numeric(deeper: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operand = st.one_of(deeper, INTEGERS.map(repr), st.floats(-10, 10).map(repr))
    joined = st.tuples(deeper, st.sampled_from(["+", "-", "*", "/", "//", "%"]), operand)
    return st.one_of(joined.map(lambda each: f"({each[0]} {each[1]} {each[2]})"), deeper.map(lambda each: f"(-{each})"))


ARITHMETIC = st.recursive(st.sampled_from(list(NUMBERS)), numeric, max_leaves=4)
COMPARISONS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
LEAVES = st.one_of(
    st.tuples(ARITHMETIC, COMPARISONS, ARITHMETIC | INTEGERS.map(repr) | st.floats(-10, 10).map(repr)).map(" ".join),
    st.tuples(ARITHMETIC, st.lists(INTEGERS, min_size=1, max_size=3)).map(lambda each: f"{each[0]} in {each[1]}"),
    st.tuples(TEXTS.map(repr), COMPARISONS, st.just("t")).map(" ".join),
    TEXTS.map(lambda text: f"{text!r} in t"),
    st.lists(TEXTS, min_size=1, max_size=3).map(lambda texts: f"t not in {texts}"),
)


def leaf(text: str) -> Condition:
    code = compile(text, "condition", "eval")
    return text, lambda row: evaluated(code, row)


def evaluated(code: Any, row: Row) -> Any:
    """What Python says, or None."""
    if any(row[name] is None for name in code.co_names):
        return None
    try:
        return eval(code, {}, dict(row))
    except ZeroDivisionError:
        return None


def absence(text: str) -> Condition:
    code = compile(text, "condition", "eval")
    return f"{text} is None", lambda row: evaluated(code, row) is None


def joined(deeper: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    def negated(one: Condition) -> Condition:
        return f"(not {one[0]})", lambda row: None if (own := one[1](row)) is None else not own

    def both(pair: Sequence[Condition]) -> Condition:
        return f"({pair[0][0]} and {pair[1][0]})", lambda row: kleene(False, pair[0][1](row), pair[1][1](row))

    def either(pair: Sequence[Condition]) -> Condition:
        return f"({pair[0][0]} or {pair[1][0]})", lambda row: kleene(True, pair[0][1](row), pair[1][1](row))

    pairs = st.tuples(deeper, deeper)
    return st.one_of(deeper.map(negated), pairs.map(both), pairs.map(either))


def kleene(decides: bool, *values: Truth) -> Truth:
    return decides if decides in values else None if None in values else not decides


CONDITIONS = st.recursive(LEAVES.map(leaf) | ARITHMETIC.map(absence), joined, max_leaves=4)


def parts_of(rows: Sequence[Row], cuts: Sequence[int]) -> dict[str, Part]:
    """The columns of samples that are divided into shards."""
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    shards = [rows[first:last] for first, last in zip(bounds, bounds[1:], strict=False)]
    return {
        name: join_pieces([of_objects([row[name] for row in shard]).piece(slice(None)) for shard in shards])
        for name in rows[0]
    }


@settings(max_examples=max(200, settings().max_examples))
@given(tables(), CONDITIONS, st.lists(st.integers(0, 6), max_size=3))
def test_answers_are_those_of_python(rows: list[dict[str, Any]], condition: Condition, cuts: list[int]) -> None:
    text, expected = condition
    parts = parts_of(rows, cuts)
    plain = {name: array.tolist() for name, (array, _) in parts.items()}
    masks = {name: missing for name, (_, missing) in parts.items()}
    kept = [  # integers in a column of floats are floats
        {name: None if (own := masks[name]) is not None and own[at] else plain[name][at] for name in plain}
        for at in range(len(rows))
    ]
    try:
        wanted = [expected(row) is True for row in kept]
    except OverflowError:  # Python has no result for a sample: nor is there an answer
        with pytest.raises(ValueError, match="cannot be computed: .* too large"):
            choose(text, len(rows), parts.__getitem__)
        return
    assert choose(text, len(rows), parts.__getitem__).tolist() == wanted


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i * 2 > 0", [True, False, False, True]),
        ("i * i > 0", [True, True, False, True]),
        ("-u < 0", [True, True, False, True]),
        ("i // zero == 0", [False] * 4),
        ("i / zero is None", [True] * 4),
        ("i % zero == 0 or i == 3", [False, False, False, True]),
        ("18446744073709551615 // i > 0", [True, False, False, True]),
        ("i == 9223372036854775807.0", [False] * 4),
        ("u / 3 == 6148914691236517205.0", [True, False, False, False]),
        ("t == 'a'", [True, False, True, False]),
        ("t in ('a\\0', 'b')", [False, True, False, True]),
        ("i + 0.5 > 0", [True, False, True, True]),
    ],
)
def test_numbers_and_texts_are_exact(condition: str, expected: list[bool]) -> None:
    columns: dict[str, Part] = {
        "i": (np.array([(1 << 63) - 1, -(1 << 63), 0, 3]), None),
        "u": (np.array([(1 << 64) - 1, 1, 0, 7], np.uint64), None),
        "zero": (np.zeros(4, np.int64), None),
        "t": (np.array(["a", "a\0", "a", "b"], object), None),
    }
    assert choose(condition, 4, columns.__getitem__).tolist() == expected


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("label == 1 / 0", r"'1 / 0' cannot be computed: division by zero"),
        ("label * 1.0 * 1" + "0" * 400 + " == 0", "cannot be computed: int too large to convert to float"),
        ("*".join(["(label + 1" + "0" * 200 + ")"] * 8) + " == 0", "can have more than 4096 bits"),
    ],
)
def test_operations_without_a_result_are_named(condition: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose(condition, 2, {"label": (np.array([1, 2]), None)}.__getitem__)


@pytest.mark.parametrize("condition", ["t == 'a'", "t == 3", "'a' in t", "t", "t + 1 > 2", "t in (1, 'a')", "-t < 0"])
def test_a_column_without_values_may_be_of_any_type(condition: str) -> None:
    part: Part = (np.zeros(3, np.int64), np.ones(3, np.bool_))
    assert choose(condition, 3, {"t": part}.__getitem__).tolist() == [False] * 3
    assert choose("t is None", 3, {"t": part}.__getitem__).all()


def written(root: Path, rows: Sequence[Row], shard_samples: int) -> bushel.Dataset:
    with bushel.Writer(root, {"m": "json"}, container="tar", shard_samples=shard_samples) as writer:
        for row in rows:
            writer.append({"m": {name: value for name, value in row.items() if value is not None}})
    bushel.index(root, columns=[f"m.{name}" for name in rows[0]])
    return bushel.open(root)


MEMBERS: list[dict[str, Any]] = [
    {"x": True, "y": 1, "t": "a"},
    {"x": 1.5, "y": (1 << 53) + 1, "t": None},
    {"x": None, "y": 0.5, "t": True},
    {"x": 2, "y": (1 << 64) + 1, "t": 1},
    {"x": False, "y": -1, "t": 1.0},
    {"x": 3, "y": 1 << 63, "t": "1"},
]
"""Members of JSON, whose types differ from sample to sample."""


def test_answers_do_not_depend_on_the_shards(tmp_path: Path) -> None:
    conditions = {
        "m.x == 1": [0],
        "m.x >= 1.5": [1, 3, 5],
        "m.y == 9007199254740993": [1],
        "m.y == 9007199254740992.0": [],
        "m.y > 18446744073709551616": [3],
        "m.y - 1 == -2": [4],
        "m.t == 'true'": [2],
        "m.t in ('1', '1.0')": [3, 4, 5],
    }
    shown = {
        "m.x": [1.0, 1.5, None, 2.0, 0.0, 3.0],
        "m.y": [row["y"] for row in MEMBERS],
        "m.t": ["a", None, "true", "1", "1.0", "1"],
    }
    for size in (1, 2, 3, 6):
        dataset = written(tmp_path / str(size), MEMBERS, size)
        for name, values in shown.items():
            assert dataset.column(name).tolist() == values
        for condition, positions in conditions.items():
            assert list(dataset.where(condition).keys) == [dataset.keys[at] for at in positions], (size, condition)
    assert operator.eq(*(list(map(repr, written(tmp_path / f"{n}-", MEMBERS, n).column("m.y"))) for n in (2, 6)))


SQL_LEAVES = st.one_of(
    st.tuples(
        st.sampled_from(["m_i", "m_f", "m_i + m_f", "m_i * 3 - m_i", "-m_i", "m_f / 4"]),
        COMPARISONS,
        st.sampled_from(["m_i", "m_f", "0", "2", "0.5", "m_i - 1"]),
    ).map(" ".join),
    st.tuples(st.just("m_t"), COMPARISONS, st.sampled_from(["'a'", "'ab'", "''"])).map(" ".join),
    st.sampled_from(["m_t is None", "m_i is not None", "m_i in (1, 2)", "m_t not in ('a', 'b')"]),
)
SQL_CONDITIONS = st.recursive(
    SQL_LEAVES,
    lambda deeper: st.one_of(
        deeper.map(lambda one: f"(not {one})"),
        st.tuples(deeper, st.sampled_from([" and ", " or "]), deeper).map(lambda each: f"({''.join(each)})"),
    ),
    max_leaves=4,
)


def test_answers_are_those_of_duckdb(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    values: list[tuple[int | None, float | None, str | None]] = [
        (1, 0.5, "a"), (2, None, "ab"), (None, -1.5, "b"), (-3, 2.0, None), (0, 0.0, ""), (None, None, "a")
    ]  # fmt: skip
    rows = [{"i": i, "f": f, "t": t} for i, f, t in values]
    dataset = written(tmp_path / "data", rows, 4)
    database = duckdb.connect()
    database.register("samples", dataset.to_arrow())

    @given(SQL_CONDITIONS)
    def compare(condition: str) -> None:
        own = [str(key) for key in dataset.where(condition.replace("m_", "m.")).keys]
        sql = condition.replace(" is None", " IS NULL").replace(" is not None", " IS NOT NULL")
        for name in "ift":
            sql = sql.replace(f"m_{name}", f'"m.{name}"')
        sql = sql.replace("==", "=").replace("!=", "<>")
        found = database.execute(f"SELECT __key__ FROM samples WHERE {sql} ORDER BY __key__").fetchall()
        assert sorted(own) == [key for (key,) in found]

    compare()


@pytest.mark.parametrize(
    ("condition", "advice"),
    [
        ("label = 3", "write == to compare"),
        ("label == 3 && label < 4", "write and, or"),
        ("label <> 3", "write != for unequal"),
    ],
)
def test_usual_slips_are_named(condition: str, advice: str) -> None:
    with pytest.raises(ValueError, match=f"is malformed.*: {advice}"):
        choose(condition, 1, lambda name: (np.zeros(1, np.int64), None))


@pytest.mark.parametrize(
    ("condition", "advice"),
    [
        ("(label > 3) & (label < 5)", True),
        ("(label > 3) ^ (label < 5)", True),
        ("~(label > 3)", True),
        ("label > 0 | label > 2", True),
        ("len(label) > 3", False),
        ("label ** 2 > 3", False),
        ("label << 2 > 1", False),
        ("3 if label else 4", False),
        ("f(label & 3)", False),
    ],
)
def test_operators_of_arrays_are_refused_with_the_words_for_them(condition: str, advice: bool) -> None:
    words = ": write and, or, not, in and is" if advice else ""
    with pytest.raises(ValueError, match=f"is not allowed in a condition{words}$"):
        choose(condition, 1, lambda name: (np.zeros(1, np.int64), None))
