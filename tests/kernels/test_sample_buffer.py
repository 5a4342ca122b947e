"""SampleBuffer: what it takes and refuses, and that arrays of it do not change."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.kernels import KeySet, SampleBuffer

UNLIMITED = 1 << 62


def made(
    *names: str, keyed: bool = False, numbered: bool = False, refused: bytes = b"", known: KeySet | None = None
) -> SampleBuffer:
    def encode(value: Any) -> bytes:
        if isinstance(value, Exception):
            raise value
        return str(value).encode()

    buffer = SampleBuffer([(name, encode) for name in names or ("a",)], "__key__", keyed, numbered, 20, refused)
    buffer.restart(UNLIMITED, UNLIMITED, 60, 0, 0, known)
    return buffer


def listed(column: tuple[Any, Any]) -> list[bytes]:
    data, offsets = column
    return [data[first:last].tobytes() for first, last in zip(offsets, offsets[1:], strict=False)]


def contents(buffer: SampleBuffer, first: int = 0) -> tuple[list[bytes] | None, dict[str, list[bytes]]]:
    keys, columns = buffer.rows(first)
    return None if keys is None else listed(keys), {name: listed(column) for name, column in columns.items()}


VALUES = st.binary(max_size=40) | st.binary(max_size=40).map(bytearray) | st.integers()


@given(st.lists(st.tuples(VALUES, VALUES), max_size=20), st.integers(0, 20), st.integers(0, 3))
def test_samples_become_columns(samples: list[tuple[Any, Any]], first: int, dropped: int) -> None:
    known = KeySet()
    buffer = made("a", "b", keyed=True, known=known)
    for number, (a, b) in enumerate(samples):
        assert buffer.add({"b": b, "a": a}, f"k{number}") == number
    assert len(known) == len(samples)
    assert known.first_of(f"k{number}" for number in reversed(range(len(samples) + 1))) == (
        f"k{len(samples) - 1}" if samples else None
    )
    for _ in range(min(dropped, len(samples))):
        assert buffer.drop_last() == f"k{len(samples) - 1}"
        samples = samples[:-1]
    assert buffer.count == len(samples)
    if first > len(samples):
        with pytest.raises(IndexError):
            buffer.rows(first)
        return
    keys, columns = contents(buffer, first)
    assert keys == [f"k{number}".encode() for number in range(first, len(samples))]
    for place, name in enumerate("ab"):
        stored = [sample[place] for sample in samples[first:]]
        assert columns[name] == [bytes(v) if not isinstance(v, int) else str(v).encode() for v in stored]


def test_keys() -> None:
    known = KeySet()
    known.add("taken")
    buffer = made(keyed=True, numbered=True, known=known)
    assert buffer.add({"a": 1, "__key__": "x"}) == 0
    assert buffer.add({"a": 1, "__key__": "x"}, "given") == 1
    assert buffer.add({"a": 1}) == 2
    for key in ("taken", "x", "000000002", "", "_x", "/a", "b/", "a.b", "é", "k" * 21, "\udcff", 5, b"x"):
        assert buffer.add({"a": 1}, key) == -1, key
    assert contents(buffer)[0] == [b"x", b"given", b"000000002"]
    assert len(known) == 4
    assert all(key in known for key in ("taken", "x", "given", "000000002"))
    assert made(keyed=True).add({"a": 1}, "y") == -1
    assert made(keyed=True, known=KeySet()).add({"a": 1}) == -1
    unkeyed = made()
    assert (unkeyed.add({"a": 1}, "0"), unkeyed.add({"a": 1, "__key__": None})) == (-1, 0)
    assert unkeyed.rows(0)[0] is None
    assert unkeyed.drop_last() is None


def test_keys_that_are_counted() -> None:
    buffer = made(keyed=True, numbered=True)
    buffer.restart(UNLIMITED, UNLIMITED, 60, position=7, number=999_999_990)
    assert [buffer.add({"a": 1}) for _ in range(4)] == [7, 8, 9, 10]
    assert buffer.add({"a": 1}, "own") == -1
    assert contents(buffer)[0] == [b"999999997", b"999999998", b"999999999", b"1000000000"]
    short = SampleBuffer([("a", str.encode)], "__key__", True, True, 8, b"")
    short.restart(UNLIMITED, UNLIMITED, 60)
    assert short.add({"a": b""}) == -1


def test_a_paused_buffer_takes_nothing() -> None:
    buffer = SampleBuffer([("a", bytes)], "__key__", False, False, 9, b"")
    assert (buffer.add({"a": b"x"}), buffer.next) == (-1, 0)
    buffer.restart(UNLIMITED, UNLIMITED, 60, position=5)
    assert (buffer.add({"a": b"x"}), buffer.pause(), buffer.add({"a": b"x"}), buffer.count) == (5, 6, -1, 1)
    buffer.clear()
    assert (buffer.count, buffer.next, buffer.add({"a": b"x"})) == (0, 6, -1)


@pytest.mark.parametrize("change", ["pause", "add", "key"])
def test_an_encoder_may_change_the_buffer(change: str) -> None:
    """As another thread may, which runs in the meantime."""
    known = KeySet()

    def encode(value: int) -> bytes:
        if value == 1 and change == "pause":
            buffer.pause()
        elif value == 1:
            assert buffer.add({"a": 2}, "k" if change == "key" else "other") == 0
        return b"%d" % value

    buffer = SampleBuffer([("a", encode)], "__key__", True, False, 9, b"")
    buffer.restart(UNLIMITED, UNLIMITED, 60, 0, 0, known)
    assert buffer.add({"a": 1}, "k") == {"pause": -1, "add": 1, "key": -1}[change]
    assert buffer.count == {"pause": 0, "add": 2, "key": 1}[change]
    expected = {"pause": set(), "add": {"other", "k"}, "key": {"k"}}[change]
    assert {key for key in ("other", "k") if key in known} == expected
    assert len(known) == len(expected)


@pytest.mark.parametrize(
    "sample",
    [
        {},
        {"a": None},
        {"b": 1},
        {"a": 1, "b": 2},
        {"a": 1, "__key__": None, "b": 2},
        {"a": b"magic and more"},
        {"a": bytes(32769)},
        {"a": memoryview(b"abcdef")[::2]},
        [("a", 1)],
        None,
    ],
)
def test_samples_that_are_refused(sample: Any) -> None:
    buffer = made(refused=b"magic")
    assert buffer.add(sample) == -1
    assert buffer.count == 0
    assert buffer.add({"a": b"magi"}) == 0


def test_an_error_of_an_encoder_adds_nothing() -> None:
    known = KeySet()
    buffer = made("a", "b", keyed=True, known=known)
    with pytest.raises(ZeroDivisionError, match="x"):
        buffer.add({"a": 1, "b": ZeroDivisionError("x")}, "k")
    assert (buffer.count, len(known)) == (0, 0)
    wrong = SampleBuffer([("a", lambda value: value)], "__key__", False, False, 9, b"")
    wrong.restart(9, UNLIMITED, 60)
    assert wrong.add({"a": 1.5}) == -1


def test_room() -> None:
    buffer = made()
    buffer.restart(3, UNLIMITED, 60)
    assert [buffer.add({"a": number}) for number in range(5)] == [0, 1, -4, -1, -1]
    buffer.restart(UNLIMITED, 10000, 60)
    assert [buffer.add({"a": b"x"}) for _ in range(4)] == [0, 1, -4, -1]
    buffer.restart(UNLIMITED, UNLIMITED, 0)
    assert [buffer.add({"a": 1}) for _ in range(2)] == [-2, -1]
    buffer.restart(0, UNLIMITED, 60)
    assert (buffer.add({"a": 1}), buffer.count) == (-1, 0)
    buffer.restart(UNLIMITED, UNLIMITED, 60)
    states = [buffer.add({"a": bytes(30000)}) for _ in range(10)]
    assert states == [*range(8), -10, -1]
    buffer.restart(UNLIMITED, UNLIMITED, 60)
    large = SampleBuffer([("a", lambda size: bytes(size))], "__key__", False, False, 9, b"")
    large.restart(9, UNLIMITED, 60)
    assert large.add({"a": 1 << 20}) == -2  # it is encoded only once


def test_arrays_do_not_change() -> None:
    buffer = made()
    for number in range(5):
        buffer.add({"a": number})
    before = contents(buffer)
    _, columns = buffer.rows(2)
    data, offsets = columns["a"]
    kept = data.copy(), offsets.copy()
    buffer.drop_last()
    for number in range(1000):
        buffer.add({"a": number})
    buffer.restart(UNLIMITED, UNLIMITED, 60)
    for number in range(1000):
        buffer.add({"a": -number})
    del buffer
    assert np.array_equal(data, kept[0])
    assert np.array_equal(offsets, kept[1])
    assert before[1]["a"] == [b"0", b"1", b"2", b"3", b"4"]
    with pytest.raises(ValueError, match="read-only"):
        data[0] = 0


def test_wrong_arguments() -> None:
    for fields in ([], [("a",)], ["a"], [(1, str)], [("a", None)]):
        with pytest.raises((TypeError, ValueError)):
            SampleBuffer(fields, "__key__", False, False, 9, b"")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="empty"):
        made().drop_last()


KEYS = st.text(st.sampled_from("abé€😀\udcff0"), max_size=5)


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "add_all", "first_of"]), st.lists(KEYS, max_size=40))))
def test_a_set_of_keys(steps: list[tuple[str, list[str]]]) -> None:
    keys, expected = KeySet(), set[str]()
    for step, texts in steps:
        if step == "add":
            for key in texts:
                assert keys.add(key) == (key not in expected)
                expected.add(key)
        elif step == "discard":
            for key in texts:
                keys.discard(key)
            expected -= set(texts)
        elif step == "first_of":
            assert keys.first_of(iter(texts)) == next((key for key in texts if key in expected), None)
        else:
            repeated = [key for place, key in enumerate(texts) if key in expected or key in texts[:place]]
            assert keys.add_all(texts) == next(iter(repeated), None)
            expected |= set(texts)
        assert len(keys) == len(expected)
        assert all((key in keys) == (key in expected) for key in texts)
    assert all(key in keys for key in expected)


def test_many_keys_in_any_order() -> None:
    keys, texts = KeySet(), [f"{number:06}" for number in range(50_000)]
    assert keys.add_all(texts) is None
    for key in texts[::3]:
        keys.discard(key)
    assert len(keys) == 50_000 - len(texts[::3])
    assert [number for number, key in enumerate(texts) if key not in keys] == list(range(0, 50_000, 3))


@pytest.mark.parametrize("key", [None, 5, b"k"])
def test_a_key_that_is_no_text(key: Any) -> None:
    keys = KeySet()
    for call in (keys.add, keys.discard, keys.__contains__):
        with pytest.raises(TypeError):
            call(key)
    with pytest.raises(TypeError, match="a key must be a str"):
        keys.add_all(["a", key])
    assert len(keys) == 1
