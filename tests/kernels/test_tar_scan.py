"""The tar scan against tarfile, and against archives that tarfile cannot write."""

import io
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.kernels import ExtentError, MappedFile, TarMembers, TarScanner, decode_keys, scan_tar

Row = tuple[str, int, int, int]  # name, offset and size of the data, offset of the first header


def rows_of(found: TarMembers) -> list[Row]:
    names = decode_keys(found.names, found.name_offsets, np.arange(len(found)))
    return list(zip(names, found.offset.tolist(), found.size.tolist(), found.header.tolist(), strict=True))


def reference_rows(data: bytes) -> list[Row]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [(member.name, member.offset_data, member.size, member.offset) for member in archive]


def slashless(rows: list[Row]) -> list[Row]:
    """Remove the slash of directory names, as tarfile does; the scan returns names as they are stored."""
    return [(name.rstrip("/"), *rest) for name, *rest in rows]  # type: ignore[misc]


def all_of(found: TarMembers) -> tuple[object, ...]:
    ends = (found.end, found.zero_blocks, found.trailing_bytes, found.problem, found.problem_offset)
    return rows_of(found), found.type.tolist(), *ends


def same(a: TarMembers, b: TarMembers) -> bool:
    return all_of(a) == all_of(b)


def archive(members: list[tuple[str, bytes]], format: int = tarfile.USTAR_FORMAT, **fields: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format, pax_headers=fields) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def header(name: bytes, size: int = 0, type: bytes = b"0", **fields: bytes) -> bytes:
    """Make a header block. Fields are given by their offset (``at345=b"prefix"``)."""
    block = bytearray(512)
    block[0 : len(name)] = name
    block[124:136] = b"%011o\0" % size
    block[156:157] = type
    for place, value in fields.items():
        start = int(place.removeprefix("at"))
        block[start : start + len(value)] = value
    return sealed(block)


def sealed(block: bytes | bytearray) -> bytes:
    """Return the block with a valid checksum."""
    block = bytearray(block)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def blocks(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def pax(**records: str) -> bytes:
    """Return the data of a pax header."""
    out = b""
    for key, value in records.items():
        body = f" {key.replace('__', '.')}={value}\n".encode()
        length = len(body) + 1
        while len(str(length)) + len(body) != length:
            length += 1
        out += str(length).encode() + body
    return out


def extra(type: bytes, data: bytes) -> bytes:
    return header(b"extra", len(data), type) + blocks(data)


END = bytes(1024)

names = st.one_of(
    st.text(st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.text("abc/", min_size=90, max_size=300).map(lambda text: "x" + text.replace("//", "/b") + "x"),
)


Plan = tuple[int, list[tuple[str, bytes, float, int]]]  # format; name, type, mtime and size of each member

# No old type (NUL): tarfile takes it for a directory when a long name, cut to 100 bytes, happens to end in a slash.
types = st.sampled_from([tarfile.REGTYPE, tarfile.REGTYPE, tarfile.CONTTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE])
plans: st.SearchStrategy[Plan] = st.tuples(
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.lists(st.tuples(names, types, st.sampled_from([0, 1.5]), st.integers(0, 1500)), max_size=8),
)


def planned(plan: Plan) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=plan[0], encoding="utf-8") as tar:
        for name, type, mtime, size in plan[1]:
            info = tarfile.TarInfo(name)
            info.type = type
            info.mtime = mtime  # a float takes a pax header
            info.linkname = name[::-1] if info.issym() else ""
            info.size = size if info.isreg() else 0
            tar.addfile(info, io.BytesIO(b"d" * info.size))
    return out.getvalue()


def fed(data: bytes, most: int = 10**9) -> TarMembers:
    scanner = TarScanner(len(data))
    while (window := scanner.next_window()) is not None:
        offset, length = window
        assert scanner.need <= length <= len(data) - offset
        scanner.feed(data[offset : offset + max(scanner.need, min(most, length))])
    return scanner.take()


@given(plans, st.sampled_from([0, 512, 5000, 10**9]))
def test_agrees_with_tarfile(plan: Plan, most: int) -> None:
    data = planned(plan)
    found = scan_tar(data)
    assert slashless(rows_of(found)) == slashless(reference_rows(data))
    assert (found.problem, found.problem_offset, found.trailing_bytes) == (None, -1, 0)
    assert found.terminated
    assert same(fed(data, most), found)


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names(format: int) -> None:
    long = "d" * 60 + "/" + "e" * 90 + ".jpg"
    data = archive([(long, b"1"), ("b.cls", b"22"), ("é" * 20, b"")], format)
    assert rows_of(scan_tar(data)) == reference_rows(data)
    assert rows_of(scan_tar(data))[0][0] == long


def test_files_are_scanned_as_buffers_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    # Small members, then some larger than any window, then small ones again.
    sizes = [*rng.integers(0, 2000, 700), *rng.integers(20_000, 700_000, 30), *rng.integers(0, 2000, 100)]
    members = [(f"{i:06}.jpg", bytes(size)) for i, size in enumerate(sizes)]
    data = archive(members, tarfile.PAX_FORMAT)
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    found = scan_tar(MappedFile(path))
    assert rows_of(found) == reference_rows(data)
    assert same(found, scan_tar(data))
    assert same(found, fed(data))
    middle = int(found.header[350])
    assert rows_of(scan_tar(MappedFile(path), middle)) == rows_of(found)[350:]


@pytest.mark.parametrize("most", [1, 10, 10**6])
def test_a_file_is_scanned_in_steps(most: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sizes = [*rng.integers(0, 2000, 300), *rng.integers(4000, 90_000, 60), *rng.integers(0, 2000, 50)]
    members = [(f"{'long' * 40 * (i % 50 == 0)}{i:06}.jpg", bytes(size)) for i, size in enumerate(sizes)]
    data = archive(members, tarfile.PAX_FORMAT)
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    file, scanner, steps = MappedFile(path), TarScanner(len(data)), []
    while not scanner.over:
        steps.append(scanner.read(file, most))
        assert scanner.members == 0
    assert [row for step in steps for row in rows_of(step)] == rows_of(scan_tar(data))
    assert steps[-1].terminated
    assert steps[-1].end == scan_tar(data).end
    assert len(scanner.read(file, most)) == len(scanner.take()) == 0
    with pytest.raises(ValueError, match="of another size"):
        TarScanner(512).read(file, 1)


def test_few_bytes_are_read_where_members_are_large() -> None:
    data = archive([(f"{i}", bytes(100_000)) for i in range(50)])
    scanner = TarScanner(len(data))
    lengths = []
    while (window := scanner.next_window()) is not None:
        lengths.append(window[1])
        scanner.feed(data[window[0] : sum(window)])
    assert len(scanner.take()) == 50
    assert sum(lengths[1:-1]) < 50 * 5000  # all windows but the first, before distances are known, and the last


def test_members_of_many_gigabytes(tmp_path: Path) -> None:
    size = 9 * 2**30 + 5  # too large for eleven octal digits
    info = tarfile.TarInfo("huge")
    info.size = size
    path = tmp_path / "x.tar"
    for format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        with path.open("wb") as file:
            start = file.write(info.tobuf(format))
            file.seek(-(-size // 512) * 512, os.SEEK_CUR)  # a hole: it takes no space
            file.write(archive([("after", b"x")]))
        found = scan_tar(MappedFile(path))
        assert rows_of(found)[0] == ("huge", start, size, 0)
        assert rows_of(found)[1][0] == "after"
        assert found.problem is None


def test_headers_before_ustar() -> None:
    data = header(b"a.txt", 2, b"\0") + blocks(b"hi") + header(b"dir/", 7, b"\0") + header(b"b", 1, b"7") + blocks(b"x")
    found = scan_tar(data + END)
    assert rows_of(found) == [("a.txt", 512, 2, 0), ("dir/", 1536, 0, 1024), ("b", 2048, 1, 1536)]
    assert found.type.tolist() == [0, ord("5"), ord("7")]


def test_prefix_is_joined_in_ustar_only() -> None:
    prefix = b"some/where"
    data = header(b"a", at257=b"ustar\00000", at345=prefix)
    data += header(b"b", at257=b"ustar  \0", at345=prefix)
    data += header(b"c", at345=prefix)
    assert [row[0] for row in rows_of(scan_tar(data + END))] == ["some/where/a", "b", "c"]


def test_names_that_fill_their_fields() -> None:
    data = header(b"n" * 100, at257=b"ustar\00000", at345=b"p" * 155) + END
    assert rows_of(scan_tar(data))[0][0] == "p" * 155 + "/" + "n" * 100


def test_checksums_of_signed_bytes() -> None:
    block = bytearray(header("é".encode()))
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(byte - 256 if byte > 127 else byte for byte in block)
    assert rows_of(scan_tar(bytes(block) + END)) == [("é", 512, 0, 0)]


def test_pax_records() -> None:
    member = header(b"short", 1) + blocks(b"x" * 600)
    data = extra(b"x", pax(path="lång/name", size="600", mtime="1.5")) + member + header(b"next") + END
    assert rows_of(scan_tar(data)) == [("lång/name", 1536, 600, 0), ("next", 3072, 0, 2560)]
    assert scan_tar(data).problem is None


def test_global_pax_records_hold_until_they_are_taken_back() -> None:
    data = extra(b"g", pax(path="all")) + header(b"a") + extra(b"x", pax(path="own")) + header(b"b") + header(b"c")
    data += extra(b"g", pax(path="")) + header(b"d") + END
    named = [(row[0], row[3]) for row in rows_of(scan_tar(data))]
    assert named == [("all", 1024), ("own", 1536), ("all", 3072), ("d", 4608)]


def test_gnu_long_names_and_links() -> None:
    long = b"n" * 3000
    data = extra(b"K", b"target\0") + extra(b"L", long + b"\0") + header(b"n" * 100, 1) + blocks(b"x") + header(b"b")
    assert [(row[0], row[3]) for row in rows_of(scan_tar(data + END))] == [(long.decode(), 0), ("b", 5632)]


def test_sparse_members_are_named_and_stepped_over() -> None:
    maps = bytes(504) + b"\1" + bytes(7) + bytes(512)
    data = header(b"s", 700, b"S", at482=b"\1") + maps + blocks(b"d" * 700)
    data += extra(b"x", pax(GNU__sparse__major="1", GNU__sparse__name="real", path="GNUSparseFile.1/real"))
    data += header(b"GNUSparseFile.1/real", 5) + blocks(b"0\n") + header(b"next") + END
    found = scan_tar(data)
    assert rows_of(found) == [("s", 1536, 700, 0), ("real", 4096, 5, 2560), ("next", 5120, 0, 4608)]
    assert bytes(found.type) == b"SS0"
    assert same(fed(data), found)
    endless = header(b"s", 0, b"S", at482=b"\1") + (bytes(504) + b"\1" + bytes(7)) * 3000
    assert scan_tar(endless).problem == "sparse map of more than 1 MiB"
    assert scan_tar(endless[:5120]).problem == "sparse map goes beyond the end of the file"


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (b"garbage" * 100, "checksum is wrong"),
        (b"garbage", "header is cut"),
        (header(b"x")[:511], "header is cut"),
        (header(b"x", 513) + bytes(512), "data goes beyond"),
        (sealed(header(b"x")[:124] + b"\x80" + b"\xff" * 11 + header(b"x")[136:]), "not a size"),
        (sealed(header(b"x")[:124] + b"\xff" * 12 + header(b"x")[136:]), "not a size"),
        (sealed(header(b"x")[:124] + b"\x80\0\0\0\x7f" + b"\xff" * 7 + header(b"x")[136:]), "data goes beyond"),
        (sealed(header(b"x")[:124] + b"12345678x\0\0\0" + header(b"x")[136:]), "not a size"),
        (header(b"l", 2**20 + 1, b"L"), "more than 1 MiB"),
        (header(b"l", 2**20 + 1, b"x"), "more than 1 MiB"),
        (header(b"l", 2**20, b"x"), "block goes beyond"),
        (extra(b"L", b"name"), "without its member"),
        (extra(b"L", b"name") + END, "without its member"),
        (extra(b"x", b"nonsense") + header(b"x"), "pax record"),
        (extra(b"x", b"99 path=x\n") + header(b"x"), "pax record"),
        (extra(b"x", b"0 path=x\n") + header(b"x"), "pax record"),
        (extra(b"x", b"99999999999999999999 path=x\n") + header(b"x"), "pax record"),
        (extra(b"x", b"8 path=xy") + header(b"x"), "pax record"),
        (extra(b"x", b"6 =abc\n") + header(b"x"), "pax record"),
        (extra(b"x", pax(size="-1")) + header(b"x"), "pax record"),
        (extra(b"x", pax(size="9223372036854775808")) + header(b"x"), "pax record"),
        (extra(b"x", pax(size="9223372036854775807")) + header(b"x"), "data goes beyond"),
        (extra(b"g", pax(path="p" * 5000)) + header(b"x") * 40, "names are larger"),
    ],
)
def test_damage_ends_the_scan_and_is_named(damage: bytes, problem: str) -> None:
    good = header(b"a", 3) + blocks(b"abc")
    found = scan_tar(good + damage)
    assert found.problem is not None
    assert problem in found.problem
    assert rows_of(found)[0] == ("a", 512, 3, 0)
    assert len(found) == 1 or "names" in problem
    assert found.problem_offset >= found.end >= 1024
    assert not found.terminated
    assert same(fed(good + damage), found)


@pytest.mark.parametrize(
    ("end", "zero_blocks", "tail"),
    [
        (b"", 0, 0),
        (bytes(100), 0, 0),
        (bytes(512), 1, 0),
        (bytes(700), 1, 0),
        (END, 2, 0),
        (END + bytes(9216), 2, 0),
        (END + bytes(100) + b"x" + bytes(7), 2, 8),
        (bytes(512) + header(b"b"), 1, 512),
        (END + bytes(600_000) + b"x", 2, 1),
    ],
)
def test_ends_of_an_archive(end: bytes, zero_blocks: int, tail: int, tmp_path: Path) -> None:
    data = header(b"a", 3) + blocks(b"abc") + end
    (tmp_path / "x.tar").write_bytes(data)
    for found in (scan_tar(data), scan_tar(MappedFile(tmp_path / "x.tar")), fed(data)):
        assert rows_of(found) == [("a", 512, 3, 0)]
        assert (found.end, found.zero_blocks, found.trailing_bytes, found.problem) == (1024, zero_blocks, tail, None)
        assert found.terminated == (zero_blocks == 2)


def test_data_whose_padding_is_cut_is_whole() -> None:
    found = scan_tar(header(b"a", 3) + b"abc")
    assert (rows_of(found), found.end, found.problem) == ([("a", 512, 3, 0)], 515, None)


def test_nothing_at_all(tmp_path: Path) -> None:
    (tmp_path / "x.tar").touch()
    for found in (scan_tar(b""), scan_tar(MappedFile(tmp_path / "x.tar")), fed(b"")):
        assert (len(found), found.end, found.problem, found.terminated) == (0, 0, None, False)
        assert found.name_offsets.tolist() == [0]


def test_the_scan_goes_on_after_damage() -> None:
    member = header(b"a", 3) + blocks(b"abc")
    data = member + b"?" * 1024 + member + END
    assert scan_tar(data).problem_offset == 1024
    found = scan_tar(data, 2048)
    assert (rows_of(found), found.problem, found.terminated) == ([("a", 2560, 3, 2048)], None, True)
    for start in (-512, 100, len(data) + 512):
        with pytest.raises(ValueError, match="start must be a multiple of 512"):
            scan_tar(data, start)
        with pytest.raises(ValueError, match="start must be a multiple of 512"):
            TarScanner(len(data), start)


def test_the_scanner_is_fed_as_it_asks() -> None:
    data = archive([("a", b"abc")])
    scanner = TarScanner(len(data))
    with pytest.raises(ValueError, match="fed 100 bytes at 0, but at least 512 are needed"):
        scanner.feed(data[:100])
    scanner.feed(data[:600])  # less than the window, but enough to go on
    assert scanner.next_window() == (1024, len(data) - 1024)
    scanner.feed(data[1024:])
    assert len(scanner.take()) == 1
    with pytest.raises(ValueError, match="is over"):
        scanner.feed(data)


def test_a_file_that_shrinks_while_it_is_scanned(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(archive([("a", bytes(5000))]))
    file = MappedFile(path)
    os.truncate(path, 700)
    with pytest.raises(ExtentError, match="shrunk"):
        scan_tar(file)


@given(plans, st.data())
def test_mutated_bytes_never_crash_and_rows_stay_inside(plan: Plan, draw: st.DataObject) -> None:
    mutated = bytearray(planned(plan))
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, len(mutated) - 1))
        mutated[at] ^= 1 << draw.draw(st.integers(0, 7))
        if draw.draw(st.booleans()):  # make the checksum match the damage
            block = at // 512 * 512
            mutated[block : block + 512] = sealed(mutated[block : block + 512])
    del mutated[draw.draw(st.integers(0, len(mutated))) :]
    found = scan_tar(mutated)
    assert 0 <= found.end <= len(mutated)
    for name, offset, size, first in rows_of(found):
        assert name is not None
        assert 0 <= first < offset <= offset + size <= found.end
    assert (found.problem is None) == (found.problem_offset == -1)
    assert same(fed(bytes(mutated), 512), found)


def test_golden_files(golden: Path) -> None:
    files = sorted([*golden.glob("webdataset-*/**/*.tar"), *golden.glob("gnu-tar-*/**/*.tar")])
    assert files
    for path in files:
        found = scan_tar(MappedFile(path))
        assert slashless(rows_of(found)) == slashless(reference_rows(path.read_bytes()))
        assert (found.problem, found.terminated, found.trailing_bytes) == (None, True, 0)
        assert same(found, fed(path.read_bytes()))


def test_golden_damage(golden: Path) -> None:
    cases = golden / "damaged" / "cases" / "tar"
    problems = {
        "data-cut": "data goes beyond the end of the file",
        "header-cut": "header is cut by the end of the file",
        "header-name-bit": "header checksum is wrong",
        "header-size-bit": "header checksum is wrong",
        "garbage-instead-of-a-header": "header checksum is wrong",
        "no-tar": "header checksum is wrong",
        "cut-at-a-border": None,
        "garbage-behind-the-end": None,
    }
    found = {name: scan_tar(MappedFile(cases / name / "train-000000.tar")) for name in problems}
    assert {name: members.problem for name, members in found.items()} == problems
    assert not found["cut-at-a-border"].terminated
    assert found["garbage-behind-the-end"].trailing_bytes == 800
