"""LineScanner and csv_record: any chunks give the same values, and numbers are exact."""

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

from bushel.kernels import LineBlocks, LineColumn, LineScanner, csv_record

PARTS = ("offset", "length", "kind", "number")


def taken(scanner: LineScanner, *, quotes: bool = False) -> list[list[tuple[int, ...]]]:
    """Return offset, length, kind and number of the values of each field, of all samples that are taken out."""
    rows = scanner.rows
    block = scanner.take()
    blocks = LineBlocks(block, np.array([0, len(block)]), np.array([0, rows]))
    found = []
    for field in range(len(scanner.names)):
        parts = [LineColumn(blocks, field, part, quotes).read(0, rows).tolist() for part in PARTS]
        found.append(list(zip(*parts, strict=True)))
    return found


def values(scanner: LineScanner, data: bytes, chunk: int) -> list[tuple[Any, ...]]:
    """Return all values, as tuples of field, sample and the rest, of a file that is fed in chunks of this size."""
    found, at, before, size = list[tuple[Any, ...]](), 0, 0, chunk
    kinds: dict[int, int] = {}
    while at < len(data):
        used = scanner.feed(data[at : at + size], at, at + size >= len(data))
        rows = scanner.rows
        for field, own in enumerate(taken(scanner) if rows else []):
            found += [(field, before + i, *row) for i, row in enumerate(own) if row[2]]
            kinds[field] = kinds.get(field, 1 if before else 0) | sum(1 << each for each in {row[2] for row in own})
        assert scanner.problem is None
        before += rows
        at, size = at + used, chunk if used else 2 * size
    assert kinds == {field: scanner.facts(field)[0] for field in kinds}
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
        [[(offset, length, kind, number)]] = taken(scanner)
        kinds, negative, inexact = scanner.facts(0)
        assert line[offset : offset + length].decode() == text
        wanted = json.loads(text)
        if kind == 10:
            assert struct.pack("<q", number) == struct.pack("<d", wanted)
        else:
            assert isinstance(wanted, int)
            assert kinds == 1 << kind
            assert (negative, inexact) == (kind == 7 and wanted < 0, kind == 7 and abs(wanted) > 1 << 53)
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
        [(offset, length, kind, _)] = taken(scanner)[0]
        assert (line[offset : offset + length].decode(), kind) == (nested, 11)


def test_problems_leave_the_lines_before_them() -> None:
    scanner = LineScanner([], most_names=3)
    data = b'{"a": 1}\n{"a": 2, "b": x}\n{"a": 3}\n{"c": 1, "d": 1}\n'
    assert scanner.feed(data, 100, True) == 9
    assert (scanner.rows, scanner.problem, scanner.problem_offset) == (1, "expected a value", 100 + data.index(b"x"))
    assert taken(scanner) == [[(106, 1, 7, 1)], [(0, -1, 0, 0)]]
    assert scanner.feed(data[26:], 126, True) == 9
    assert scanner.problem == "the lines have too many different names"
    with pytest.raises(IndexError):
        scanner.facts(3)


def test_values_collect_until_they_are_taken() -> None:
    scanner = LineScanner([])
    assert scanner.feed(b'{"a": 1}\n{"b": null}\n', 0, False) == 21
    assert scanner.feed(b'{"b": true}\n{"a": "x"}\n', 21, True) == 23
    assert scanner.rows == 4
    a, b = taken(scanner)
    assert a == [(6, 1, 7, 1), (0, -1, 0, 0), (0, -1, 0, 0), (40, 1, 3, 0)]
    assert b == [(0, -1, 0, 0), (0, -1, 1, 0), (27, 4, 6, 1), (0, -1, 0, 0)]
    assert [scanner.facts(field) for field in range(2)] == [(0b10001001, False, False), (0b1000011, False, False)]
    assert (scanner.rows, scanner.lines, scanner.names) == (0, 4, [b"a", b"b"])
    scanner.feed(b'{"a": 3}\n', 18, True)
    assert taken(scanner) == [[(24, 1, 7, 3)], [(0, -1, 0, 0)]]
    scanner.feed(b'{"c": 3}\n', 18, True)
    scanner.take()
    assert scanner.rows == 0
    assert scanner.facts(2) == (0b10000001, False, False)


def test_extents_with_quotes() -> None:
    scanner, line = LineScanner([]), b'{"a": "x", "b": "y"}\n'
    scanner.feed(line + line.replace(b'"y"', b'"\\n"') + line.replace(b'"y"', b"12345"), 0, True)
    rows = [[each[:2] for each in field] for field in taken(scanner, quotes=True)]
    assert rows == [[(6, 3), (27, 3), (49, 3)], [(16, 3), (37, 4), (59, 5)]]


def test_a_full_scanner_stops() -> None:
    scanner, line = LineScanner([]), b'{"a": 1, "b": 2}\n'
    data = line * 100_000
    used = scanner.feed(data, 0, True)
    assert scanner.full
    assert used == scanner.rows * len(line) < len(data)
    assert scanner.feed(data[used:], used, True) == 0
    scanner.take()
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
    assert taken(scanner) == [[(16, 1, 7, 2)]]


def test_the_first_record_of_csv() -> None:
    offset, length, kind, end = csv_record(b'a,"b ""c""",\r\n1', ord(","), False, 10)
    assert (offset.tolist(), length.tolist(), kind.tolist(), end) == ([0, 3, 12], [1, 7, 0], [2, 4, 1], 14)
    assert csv_record(b"a,b", ord(","), False, 10)[3] == -1
    assert csv_record(b"a,b", ord(","), True, 10)[3] == 3
    with pytest.raises(ValueError, match="too many cells"):
        csv_record(b"a,b,c\n", ord(","), True, 2)


@pytest.mark.nightly  # it compiles seven files with sanitizers, which takes two minutes
def test_damaged_lines_with_sanitizers(tmp_path: Path) -> None:
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    kernels, program = ROOT / "src/bushel/kernels", tmp_path / "lines_test"
    names = (
        "lines",
        "csv_lines",
        "fast_lines",
        "fast_records",
        "line_blocks",
        "line_rows",
        "line_values",
    )
    sources = [kernels / f"scans/{name}.cpp" for name in names]
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
