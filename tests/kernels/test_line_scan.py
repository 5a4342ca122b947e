"""LineScanner, csv_record and scan_byte_arrays: any chunks give the same values, and numbers are exact."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.some_lines import CELLS, LINES
from tests.paths import GOLDEN, ROOT

from bushel.kernels import LineScanner, csv_record, scan_byte_arrays


def values(scanner: LineScanner, data: bytes, chunk: int) -> list[tuple[Any, ...]]:
    """Return all values, as tuples of field, sample and the rest, of a file that is fed in chunks of this size."""
    found, at, before, size = [], 0, 0, chunk
    while at < len(data):
        used = scanner.feed(data[at : at + size], at, at + size >= len(data))
        for field in range(len(scanner.names)):
            first, *_, kinds, _, _ = own = scanner.values(field)
            offset, length, kind, number = (each.tolist() for each in own[1:5])
            assert kinds == sum(1 << each for each in set(kind))
            rows = zip(offset, length, kind, number or [0] * len(kind), strict=True)
            found += [(field, before + first + i, *row) for i, row in enumerate(rows) if row[2]]
        assert scanner.problem is None
        before += scanner.rows
        scanner.clear()
        at, size = at + used, chunk if used else 2 * size
    return sorted(found)


@pytest.mark.parametrize("chunk", [1, 31, 100, 1000, 4096])
def test_chunks_do_not_matter(chunk: int) -> None:
    assert values(LineScanner([]), LINES, chunk) == values(LineScanner([]), LINES, len(LINES))
    names = [b"a", b"", b"c"]
    whole = LineScanner(names, ord(","))
    assert values(LineScanner(names, ord(",")), CELLS, chunk) == values(whole, CELLS, len(CELLS))
    assert whole.lines == CELLS.count(b"\n")


@given(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(alphabet="0123456789", max_size=30))
@settings(deadline=None)
def test_numbers_are_exact(whole: int, real: float, digits: str) -> None:
    texts = [str(whole), repr(real), f"{real:.30f}", f"1{digits}.{digits}5e-{len(digits)}", f"-0.{digits}0"]
    for text in texts:
        scanner = LineScanner([])
        line = f'{{"x": {text}}}\n'.encode()
        assert scanner.feed(line, 0, False) == len(line), scanner.problem
        _, offset, length, [kind], [number], *facts = scanner.values(0)
        kind = int(kind)
        assert line[offset[0] : offset[0] + length[0]].decode() == text
        wanted = json.loads(text)
        if kind == 10:
            assert struct.pack("<q", number) == struct.pack("<d", wanted)
        else:
            assert isinstance(wanted, int)
            assert facts == ([1 << kind, wanted, wanted] if kind == 7 else [1 << kind, 0, 0])
            inside = 7 if -(1 << 63) <= wanted < 1 << 63 else 8 if 0 <= wanted < 1 << 64 else 9
            assert (kind, int(number) % (1 << 64)) == (inside, wanted % (1 << 64) if inside < 9 else 0)


def test_nested_values_end_at_their_brackets() -> None:
    rng = random.Random(0)
    for _ in range(300):
        parts = ['"a"', '"\\""', '"]}"', "[1,2]", "{}", '"' + "x" * rng.randrange(70) + '"', "3"]
        text = "".join(rng.choice(parts) + "," for _ in range(rng.randrange(40)))
        nested = f"[[{text}{{}}]]"
        line = f'{{"n": {nested}, "z": 1}}'.encode()
        scanner = LineScanner([])
        assert scanner.feed(line, 0, True) == len(line), scanner.problem
        _, offset, length, kind, *_ = scanner.values(0)
        assert (line[offset[0] : offset[0] + length[0]].decode(), int(kind[0])) == (nested, 11)


def test_problems_leave_the_lines_before_them() -> None:
    scanner = LineScanner([], most_names=3)
    data = b'{"a": 1}\n{"a": 2, "b": x}\n{"a": 3}\n{"c": 1, "d": 1}\n'
    assert scanner.feed(data, 100, True) == 9
    assert (scanner.rows, scanner.problem, scanner.problem_offset) == (1, "expected a value", 100 + data.index(b"x"))
    assert [each.tolist() for each in scanner.values(1)[1:5]] == [[], [], [], []]
    assert scanner.feed(data[26:], 126, True) == 9
    assert scanner.problem == "the lines have too many different names"
    with pytest.raises(IndexError):
        scanner.values(3)


def test_values_collect_until_they_are_dropped() -> None:
    scanner = LineScanner([])
    assert scanner.feed(b'{"a": 1}\n{"b": null}\n', 0, False) == 21
    assert scanner.feed(b'{"b": true}\n{"a": "x"}\n', 21, True) == 23
    assert scanner.rows == 4
    a, b = ([each.tolist() if isinstance(each, np.ndarray) else each for each in scanner.values(i)] for i in range(2))
    assert a == [0, [6, 0, 0, 40], [1, -1, -1, 1], [7, 0, 0, 3], [1, 0, 0, 0], 0b10001001, 1, 1]
    assert b == [1, [0, 27], [-1, 4], [1, 6], [0, 1], 0b1000010, 0, 0]
    scanner.clear()
    assert (scanner.rows, scanner.lines, scanner.names) == (0, 4, [b"a", b"b"])
    assert len(scanner.values(0)[1]) == 0


def test_values_are_taken_out_once() -> None:
    scanner = LineScanner([])
    scanner.feed(b'{"a": 1}\n{"a": 2}\n', 0, False)
    assert scanner.values(0)[4].tolist() == [1, 2]
    again = scanner.values(0)
    assert [each.tolist() for each in again[1:5]] == [[], [], [], []]
    assert again[5] == 0
    scanner.feed(b'{"a": 3}\n', 18, True)
    first, offset, _, _, number, *_ = scanner.values(0)
    assert (first, offset.tolist(), number.tolist()) == (2, [24], [3])


def test_extents_include_quotes_from_then_on() -> None:
    scanner, line = LineScanner([]), b'{"a": "x", "b": "y"}\n'
    scanner.feed(line, 0, False)
    scanner.include_quotes(1)
    scanner.feed(line.replace(b'"y"', b'"\\n"'), len(line), False)
    scanner.feed(line.replace(b'"y"', b"12345"), 2 * len(line) + 1, True)
    assert [each.tolist() for each in scanner.values(0)[1:3]] == [[7, 28, 50], [1, 1, 1]]
    assert [each.tolist() for each in scanner.values(1)[1:3]] == [[17, 37, 59], [1, 4, 5]]
    with pytest.raises(IndexError):
        scanner.include_quotes(2)


def test_a_full_scanner_stops() -> None:
    scanner, line = LineScanner([]), b'{"a": 1, "b": 2}\n'
    data = line * 100_000
    used = scanner.feed(data, 0, True)
    assert scanner.full
    assert used == scanner.rows * len(line) < len(data)
    assert scanner.feed(data[used:], used, True) == 0
    scanner.clear()
    assert not scanner.full
    assert scanner.feed(data[used : used + 10 * len(line)], used, True) == 10 * len(line)
    many = b"{}\n" * 1000 + b"{" + b",".join(b'"%d": 1' % i for i in range(9000)) + b"}\n" + b"{}\n" * 1000
    scanner = LineScanner([])
    assert scanner.feed(many, 0, True) == len(many) - 3000
    assert scanner.full


def test_unwanted_names_are_passed_over() -> None:
    scanner = LineScanner([b"b"], closed=True)
    scanner.feed(b'{"a": [1], "b": 2, "c": "x"}\n', 0, True)
    assert scanner.names == [b"b"]
    assert scanner.values(0)[4].tolist() == [2]


def test_the_first_record_of_csv() -> None:
    offset, length, kind, end = csv_record(b'a,"b ""c""",\r\n1', ord(","), False, 10)
    assert (offset.tolist(), length.tolist(), kind.tolist(), end) == ([0, 3, 12], [1, 7, 0], [2, 4, 1], 14)
    assert csv_record(b"a,b", ord(","), False, 10)[3] == -1
    assert csv_record(b"a,b", ord(","), True, 10)[3] == 3
    with pytest.raises(ValueError, match="too many cells"):
        csv_record(b"a,b,c\n", ord(","), True, 2)


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_byte_arrays(found: list[bytes]) -> None:
    data = b"".join(struct.pack("<I", len(each)) + each for each in found)
    offset, length = scan_byte_arrays(data, len(found))
    assert [data[a : a + n] for a, n in zip(offset.tolist(), length.tolist(), strict=True)] == found
    for cut in range(len(data)):
        with pytest.raises(ValueError, match="announced|before the length|are left"):
            scan_byte_arrays(data[:cut], len(found))


def test_announced_numbers_take_no_memory() -> None:
    for count in (1 << 40, -1, 2):
        with pytest.raises(ValueError, match="announced"):
            scan_byte_arrays(bytes(4), count)
    assert scan_byte_arrays(np.zeros(4, np.uint8), 1)[0].tolist() == [4]


def test_damaged_lines_with_sanitizers(tmp_path: Path) -> None:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    kernels, program = ROOT / "src/bushel/kernels", tmp_path / "lines_test"
    sources = [
        kernels / f"scans/{name}.cpp"
        for name in ("lines", "csv_lines", "fast_lines", "fast_records", "line_values", "byte_arrays")
    ]
    flags = ["-std=c++17", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", f"-I{kernels}"]
    command = [compiler, *flags, ROOT / "tests/kernels/lines_test.cpp", *sources, "-o", program]
    built = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if built.returncode and "sanitize" in built.stderr + built.stdout or "asan" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert not built.returncode, built.stderr
    files = [GOLDEN / "foreign/jsonl/rows.jsonl", GOLDEN / "foreign/csv/rows.csv"]
    for simd in ("", "scalar"):
        environment = {**os.environ, "BUSHEL_SIMD": simd}
        done = subprocess.run([program, "20", *files], capture_output=True, text=True, env=environment)
        assert (done.returncode, done.stdout) == (0, "1600 cases\n"), done.stderr
