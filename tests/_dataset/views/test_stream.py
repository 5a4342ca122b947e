"""Streams: archives that are read forward only."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import pickle
import random
import subprocess
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.containers.tar.archives import archive, as_webdataset

import bushel
from bushel._dataset.open.sources import is_stream
from bushel._dataset.views.stream import StreamDataset
from bushel.errors import BushelError, CodecError, FormatError, SpecError, UnsupportedError
from bushel.loader import RandomWindow
from bushel.storage.forward import output_of

SAMPLES = [("a", {"cls": b"3", "txt": b"hi"}), ("d/b", {"cls": b"-4", "json": b"[1]", "bin": b""})]
VALUES = [
    {"__key__": "a", "cls": 3, "txt": "hi"},
    {"__key__": "d/b", "cls": -4, "json": [1], "bin": b""},
]
PLAIN = as_webdataset(SAMPLES)
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    "": bytes,
}


class Trickle:
    """A pipe: a handle that gives a few bytes at a time and cannot seek."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def read(self, size: int, /) -> bytes:
        return self._data.read(min(size, 37))


@pytest.mark.parametrize("packer", PACKERS)
def test_the_first_bytes_determine_the_packing(tmp_path: Path, packer: str) -> None:
    data = PACKERS[packer](PLAIN)
    path = tmp_path / "x.tar.gz"  # whatever it says
    path.write_bytes(data)
    stream = bushel.open_stream(path)
    assert list(stream) == VALUES
    assert list(stream) == VALUES
    assert list(bushel.open_stream(str(path))) == VALUES
    assert list(bushel.open_stream(Trickle(data))) == VALUES  # type: ignore[arg-type]


def test_golden_streams(golden: Path) -> None:
    for folder in ("webdataset-1.0.2/compressed", "gnu-tar-1.34/gz"):
        manifest = json.loads((golden / folder / "manifest.json").read_text())
        path = golden / folder / manifest["open"]
        assert is_stream(path)
        stored = list(bushel.open_stream(path, decode=False))
        assert [sample["__key__"] for sample in stored] == [sample["key"] for sample in manifest["samples"]]
        for found, decoded, wanted in zip(stored, bushel.open_stream(path), manifest["samples"], strict=True):
            assert set(found) - {"__key__"} == set(wanted["fields"])
            for name, expected in wanted["fields"].items():
                assert hashlib.sha256(found[name]).hexdigest() == expected["sha256"]
                if "value" in expected:
                    assert decoded[name] == expected["value"]


def test_a_spec_names_fields_and_joins_sequences() -> None:
    data = archive(
        [("a.frames.2.txt", b"two"), ("a.label.cls", b"1"), ("a.frames.1.txt", b"one"), ("b.label.cls", b"2")]
    )
    spec = {"frames": "utf8[]", "label": "int"}
    stream = bushel.open_stream(io.BytesIO(data), spec=spec)
    assert stream.spec == spec
    assert list(stream) == [
        {"__key__": "a", "frames": ["one", "two"], "label": 1},
        {"__key__": "b", "frames": [], "label": 2},
    ]


def test_only_the_wanted_fields_are_read() -> None:
    stream = bushel.open_stream(io.BytesIO(PLAIN), fields=["txt", "json"])
    assert list(stream) == [{"__key__": "a", "txt": "hi"}, {"__key__": "d/b", "json": [1]}]
    assert stream.spec == {"txt": "utf8", "json": "json"}


def test_elements_of_fields_are_refused() -> None:
    for elements in (slice(0, 2), RandomWindow(4)):
        with pytest.raises(TypeError, match="no index by which to read elements.*use bushel.open and a Loader"):
            bushel.open_stream(io.BytesIO(), fields={"frames": elements})
    with pytest.raises(TypeError, match="give names as a list, such as"):
        bushel.open_stream(io.BytesIO(), fields="jpg")
    some = bushel.open_stream(io.BytesIO(), fields={"a": True, "b": False}, spec={"a": "int", "b": "int"})
    assert some.spec == {"a": "int"}


def test_fields_are_known_as_far_as_it_was_read() -> None:
    stream = bushel.open_stream(io.BytesIO(PLAIN))
    assert stream.spec == {}
    samples = iter(stream)
    next(samples)
    assert {"cls": "cls", "txt": "utf8"}.items() <= stream.spec.items()
    assert list(samples) == VALUES[1:]
    assert stream.spec == {"cls": "cls", "txt": "utf8", "bin": "bytes", "json": "json"}


def test_equal_keys_of_two_sources_stay_two_samples(tmp_path: Path) -> None:
    for number in range(3):
        packed = gzip.compress(as_webdataset([("same", {"cls": b"%d" % number})]))
        (tmp_path / f"x-{number:03d}.tgz").write_bytes(packed)
    wanted = [{"__key__": "same", "cls": number} for number in range(3)]
    assert list(bushel.open_stream(str(tmp_path / "x-{000..002}.tgz"))) == wanted
    assert list(bushel.open_stream(str(tmp_path / "x-*.tgz"))) == wanted
    assert list(bushel.open_stream([tmp_path / "x-001.tgz", str(tmp_path / "x-000.tgz")])) == [wanted[1], wanted[0]]


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("x.tar.gz", True),
        ("x.tgz", True),
        ("x-{00..11}.tar.xz", True),
        (Path("x.tar.bz2"), True),
        ("x.tar.zst", True),
        ("pipe:curl x", True),
        ("-", True),
        (io.BytesIO(), True),
        (["x.tar", "y.tar.gz"], True),
        ("x.tar", False),
        ("folder", False),
        (Path("x.tar"), False),
        (["x.tar"], False),
        ("x.tar.gz.index", False),
        (3, False),
    ],
)
def test_streams_are_recognised_by_name(source: object, answer: bool) -> None:
    assert is_stream(source) is answer


def test_a_folder_is_not_a_stream_under_any_name(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "x", {"text": "utf8"}, container="tar", shard_samples=1) as writer:
        writer.append({"text": "abc"}, key="a")
    (tmp_path / "x").rename(tmp_path / "x.tar.gz")
    for source in (str(tmp_path / "x.tar.gz"), [tmp_path / "x.tar.gz"]):
        assert not is_stream(source)
        assert bushel.open(source)[0]["text"] == "abc"


@pytest.mark.parametrize("source", ["x.tar.gz", Path("x.tgz"), "pipe:cat x.tar", "-", ["x.tar", "y.tar.gz"]])
def test_open_of_a_stream_names_open_stream(source: Any) -> None:
    with pytest.raises(UnsupportedError) as caught:
        bushel.open(source, spec={"cls": "int"})
    assert f"bushel.open_stream({source!r}, spec={{'cls': 'int'}})" in str(caught.value)


def test_open_stream_takes_fields_specs_and_plain_archives(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(PLAIN)
    stream: StreamDataset = bushel.open_stream(path, spec={"cls": "utf8"}, fields=["cls"], decode=False)
    assert list(stream) == [{"__key__": "a", "cls": b"3"}, {"__key__": "d/b", "cls": b"-4"}]
    with pytest.raises(SpecError):
        bushel.open_stream(path, spec={"cls": "nonsense"})


@pytest.mark.parametrize("name", ["folder", "folder/", "fold*"])
def test_a_folder_is_no_archive_and_the_error_names_the_way(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UnsupportedError, match=r"folder is a folder, .*bushel\.open\(.*folder'\).*folder/\*\.tar'\)"):
        bushel.open_stream(f"{tmp_path}/{name}")


def test_what_a_stream_cannot_do_it_says(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(PLAIN))
    stream = bushel.open_stream(path)
    for attempt in (
        lambda: len(stream),
        lambda: stream[0],
        lambda: stream["a"],
        lambda: "a" in stream,
        lambda: stream.read([0]),
    ):
        with pytest.raises(UnsupportedError, match=r"gunzip .*x\.tar\.gz.*bushel convert"):
            attempt()
    assert stream
    assert "x.tar.gz" in repr(stream)
    with pytest.raises(UnsupportedError, match="write it into a file"):
        len(bushel.open_stream("-"))


def test_it_pickles(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(PLAIN))
    stream = pickle.loads(pickle.dumps(bushel.open_stream(path, spec={"frames": "jpg[]"}, fields=["txt"])))
    assert list(stream) == [{"__key__": "a", "txt": "hi"}, {"__key__": "d/b"}]


def test_an_open_handle_is_read_once() -> None:
    stream = bushel.open_stream(io.BytesIO(PLAIN))
    assert list(stream) == VALUES
    with pytest.raises(UnsupportedError, match="read already"):
        list(stream)
    with pytest.raises(TypeError, match="binary"):
        bushel.open_stream(io.StringIO("x"))  # type: ignore[arg-type]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(PLAIN))))
    assert list(bushel.open_stream("-")) == VALUES


def test_missing_files_are_missed_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bushel.open_stream(tmp_path / "x.tar.gz")


def test_zstd_is_refused_with_the_way_around() -> None:
    with pytest.raises(UnsupportedError, match="zstd -dc"):
        list(bushel.open_stream(io.BytesIO(b"\x28\xb5\x2f\xfd" + bytes(100))))


def test_undecodable_bytes_name_their_member() -> None:
    data = as_webdataset([("a", {"cls": b"x1"})])
    with pytest.raises(CodecError, match=r"'a\.cls' \(.*@512\)") as caught:
        list(bushel.open_stream(io.BytesIO(data)))
    assert caught.value.details["field"] == "cls"


# Commands


def test_commands_run_only_when_allowed(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    with pytest.raises(UnsupportedError, match="allow_commands=True"):
        bushel.open_stream(f"pipe:touch {trace}")
    with pytest.raises(UnsupportedError, match="allow_commands=True"):
        bushel.open_stream(["-", f"pipe:touch {trace}"])
    assert not trace.exists()


def test_commands_are_shell_commands_with_ranges(tmp_path: Path) -> None:
    for number in range(2):
        packed = gzip.compress(as_webdataset([(f"k{number}", {"cls": b"%d" % number})]))
        (tmp_path / f"x-{number:02d}.tgz").write_bytes(packed)
    source = f"pipe:cat {tmp_path}/x-{{00..01}}.tgz | gunzip | awk '1 {{print}}' RS='x' ORS='x' | head -c 10240"
    stream = bushel.open_stream(source, allow_commands=True)
    assert list(stream) == [{"__key__": f"k{number}", "cls": number} for number in range(2)]


def test_a_failing_command_is_an_error_after_its_data(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(PLAIN)
    samples = iter(bushel.open_stream(f"pipe:cat {path}; exit 3", allow_commands=True))
    assert [next(samples), next(samples)] == VALUES
    with pytest.raises(FormatError, match="exit status 3") as caught:
        next(samples)
    assert caught.value.file == f"pipe:cat {path}; exit 3"


def test_a_command_that_failed_is_blamed_for_missing_data() -> None:
    with pytest.raises(FormatError, match="exit status 127"):
        list(bushel.open_stream("pipe:exec bushel-no-such-command 2>/dev/null", allow_commands=True))
    with pytest.raises(FormatError, match="not a tar"):
        list(bushel.open_stream("pipe:true", allow_commands=True))


def test_a_command_ends_with_its_reader(tmp_path: Path) -> None:
    path, note = tmp_path / "x.tar", tmp_path / "pid"
    path.write_bytes(PLAIN)
    stream = bushel.open_stream(f"pipe:echo $$ > {note}; cat {path} {path}; sleep 600 | cat", allow_commands=True)
    samples = iter(stream)
    assert next(samples) == VALUES[0]
    process = int(note.read_text())
    samples.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_command_that_will_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    wait, patience = subprocess.Popen.wait, iter((0.1, 60.0))  # after SIGTERM, and after SIGKILL
    monkeypatch.setattr(subprocess.Popen, "wait", lambda process, _: wait(process, next(patience)))
    context = output_of("trap '' TERM; echo $$; while :; do sleep 1; done")
    digits = b""
    output = context.__enter__()
    while not digits.endswith(b"\n"):
        digits += output.read(1)
    interrupt = KeyboardInterrupt()
    assert not context.__exit__(KeyboardInterrupt, interrupt, None)
    with pytest.raises(ProcessLookupError):
        os.kill(int(digits), 0)


# Damage


@pytest.mark.parametrize("packer", PACKERS)
def test_a_stream_cut_anywhere_is_an_error(packer: str) -> None:
    data = PACKERS[packer](PLAIN)
    stop = len(data) if packer else len(PLAIN.rstrip(b"\0")) + 511
    for size in range(0, stop, 7 if packer else 61):
        seen: list[dict[str, Any]] = []
        with pytest.raises(FormatError):
            seen.extend(bushel.open_stream(io.BytesIO(data[:size])))
        assert seen in ([], VALUES[:1])  # whole samples only


def test_what_came_before_the_damage_was_whole() -> None:
    data = bytearray(as_webdataset([(f"{n}", {"txt": b"%d" % n}) for n in range(5)]))
    data[3 * 1024 + 5] ^= 1
    samples = iter(bushel.open_stream(io.BytesIO(bytes(data))))
    assert [next(samples)["txt"], next(samples)["txt"]] == ["0", "1"]
    with pytest.raises(FormatError, match="checksum") as caught:
        next(samples)
    assert caught.value.offset == 3072


@pytest.mark.parametrize("packer", PACKERS)
def test_only_errors_of_bushel_come_out_of_mutated_streams(packer: str) -> None:
    draw = random.Random(packer)
    good = PACKERS[packer](PLAIN)
    for _ in range(150):
        data = bytearray(good)
        for _ in range(draw.choice([1, 2, 8])):
            data[draw.randrange(min(len(data), 3000))] = draw.randrange(256)
        with contextlib.suppress(BushelError):
            list(bushel.open_stream(io.BytesIO(bytes(data)), decode=False))


def test_a_claimed_size_is_not_allocated() -> None:
    data = bytearray(PLAIN)
    for claim in (b"%011o\0" % (1 << 32), b"\x80\0\0\0" + (1 << 40).to_bytes(8, "big")):
        data[124:136] = claim
        data[148:156] = b" " * 8
        data[148:156] = b"%06o\0 " % sum(data[:512])
        tracemalloc.start()
        with pytest.raises(FormatError):
            list(bushel.open_stream(io.BytesIO(bytes(data))))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 32 << 20


def test_one_sample_is_in_memory_at_a_time() -> None:
    samples = [(f"{n:03d}", {"bin": bytes(1 << 20)}) for n in range(40)]
    packed = gzip.compress(as_webdataset(samples), 1)
    tracemalloc.start()
    total = sum(len(sample["bin"]) for sample in bushel.open_stream(io.BytesIO(packed)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 40 << 20
    assert peak < 16 << 20


@pytest.mark.parametrize("names", [("a.jpg", "a.JPG"), ("a.__key__", "a.txt")])
def test_two_members_for_one_field_are_an_error(names: tuple[str, str]) -> None:
    data = archive([(name, b"") for name in names])
    with pytest.raises(FormatError, match="already"):
        list(bushel.open_stream(io.BytesIO(data), decode=False))


def test_samples_are_dicts_that_the_reader_owns() -> None:
    first: list[dict[str, Any]] = list(bushel.open_stream(io.BytesIO(PLAIN)))
    first[0]["txt"] = "changed"
    assert list(bushel.open_stream(io.BytesIO(PLAIN))) == VALUES
