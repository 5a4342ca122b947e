from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources.folders import jpeg

import bushel
from bushel._dataset.views.dataset import Dataset
from bushel._writer.dataset_writer import DatasetWriter
from bushel._writer.publishing import continued_shards
from bushel._writer.target import Target, WriterOptions, choose_container
from bushel.codecs import get_codec
from bushel.errors import SpecError
from bushel.storage import parse_bytes

SPEC = {"text": "utf8", "label": "int"}
CONTAINERS = ["bag", "tar", "ffrecord", "recordio"]


def opened(path: Path, **options: Any) -> Dataset:
    return bushel.open(path, index="memory", verify=True, **options)


def sample(number: int) -> dict[str, Any]:
    return {"text": f"text {number}", "label": number}


def write(path: Path, first: int, last: int, **options: Any) -> None:
    options = {"sync": False, **options}
    with bushel.Writer(path, SPEC, **options) as writer:
        for number in range(first, last):
            assert writer.append(sample(number), key=f"k{number}") == number
        assert len(writer) == last


def contents(path: Path, **options: Any) -> list[tuple[str, str, int]]:
    return [(s["__key__"], s["text"], s["label"]) for s in opened(path, **options)]


def expected(count: int) -> list[tuple[str, str, int]]:
    return [(f"k{number}", f"text {number}", number) for number in range(count)]


def files_of(path: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and ".bushel" not in file.parts
    }


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("one_file", [True, False])
def test_keys_of_the_samples_that_were_there_are_refused_each_time(
    tmp_path: Path, container: str, one_file: bool
) -> None:
    options: dict[str, Any] = {"container": container, "shard_samples": None if one_file else 2}
    write(tmp_path / "x", 0, 3, **options)
    with bushel.Writer(tmp_path / "x", SPEC, mode="append", **options) as writer:
        for number in range(3, 6):
            with pytest.raises(ValueError, match="key 'k1' is in the dataset already"):
                writer.append(sample(9), key="k1")
            writer.append(sample(number), key=f"k{number}")
    assert contents(tmp_path / "x") == expected(6)


@pytest.mark.parametrize(("text", "size"), [("1GB", 10**9), ("2 MiB", 2 << 20), ("1.5k", 1500), ("7", 7), (12, 12)])
def test_sizes_as_people_write_them(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GB", "1XB", "-1MB", "1e9"])
def test_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="invalid size"):
        parse_bytes(text)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("limit", [{}, {"shard_samples": 4}, {"shard_bytes": 40}])
def test_shards_by_count_and_by_bytes(tmp_path: Path, container: str, limit: dict[str, int]) -> None:
    write(tmp_path / "ds", 0, 10, container=container, **limit)
    dataset = opened(tmp_path / "ds")
    assert contents(tmp_path / "ds") == expected(10)
    sizes = [shard.samples for shard in dataset.shards]
    if limit.get("shard_samples"):
        assert sizes == [4, 4, 2]
    elif limit:
        assert len(sizes) > 1
    else:
        assert sizes == [10]
    assert dataset.info.checksums
    assert dataset.info.indexed


@pytest.mark.parametrize(("name", "container"), [("x.tar", "tar"), ("x.ffr", "ffrecord"), ("x.rec", "recordio")])
def test_a_file_name_makes_one_file(tmp_path: Path, name: str, container: str) -> None:
    write(tmp_path / "out" / name, 0, 5)
    assert contents(tmp_path / "out" / name) == expected(5)
    assert opened(tmp_path / "out" / name).info.container == container
    write(tmp_path / "out" / name, 5, 8, mode="append")
    assert contents(tmp_path / "out" / name) == expected(8)
    with pytest.raises(ValueError, match="one file"):
        bushel.Writer(tmp_path / "out" / f"y{Path(name).suffix}", SPEC, shard_samples=3)


@pytest.mark.parametrize(("text", "container"), [("webdataset", "tar"), ("tar", "tar"), ("Granular", "bag")])
def test_a_container_in_the_place_of_the_spec(tmp_path: Path, text: Any, container: str) -> None:
    with pytest.raises(SpecError, match=f"pass container='{container}'.*bag, tar, ffrecord, gulp, recordio"):
        bushel.Writer(tmp_path / "out", text)
    with pytest.raises(SpecError, match="a spec is a mapping"):
        bushel.Writer(tmp_path / "out", "jpg")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_no_container_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bag, tar, ffrecord, gulp, recordio"):
        bushel.Writer(tmp_path / "ds", SPEC)
    with pytest.raises(ValueError, match="unknown container 'rar'"):
        bushel.Writer(tmp_path / "ds", SPEC, container="rar")


@pytest.mark.parametrize("container", CONTAINERS)
def test_nothing_has_a_final_name_before_it_is_whole(tmp_path: Path, container: str) -> None:
    writer = bushel.Writer(tmp_path / "ds", SPEC, container=container, sync=False)
    for number in range(5):
        writer.append(sample(number), key=f"k{number}")
        assert files_of(tmp_path / "ds") == {}
    writer.close()
    assert contents(tmp_path / "ds") == expected(5)
    assert not (tmp_path / "ds" / ".bushel" / "staging").exists()


@pytest.mark.parametrize("container", CONTAINERS)
def test_create_refuses_what_is_there(tmp_path: Path, container: str) -> None:
    write(tmp_path / "ds", 0, 3, container=container)
    before = files_of(tmp_path / "ds")
    with pytest.raises(FileExistsError, match="append"):
        bushel.Writer(tmp_path / "ds", SPEC, container=container)
    other = "tar" if container != "tar" else "bag"
    with pytest.raises(FileExistsError, match=f"{container} dataset"):
        bushel.Writer(tmp_path / "ds", SPEC, container=other)
    assert files_of(tmp_path / "ds") == before


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("limit", [{}, {"shard_samples": 4}])
def test_append_adds_and_keeps(tmp_path: Path, container: str, limit: dict[str, int]) -> None:
    write(tmp_path / "ds", 0, 6, container=container, **limit)
    write(tmp_path / "ds", 6, 11, container=container, mode="append", **limit)
    write(tmp_path / "ds", 11, 12, mode="append", **limit)
    assert contents(tmp_path / "ds") == expected(12)
    assert bushel.open(tmp_path / "ds")[11]["label"] == 11


def test_append_needs_a_dataset_of_the_same_spec(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="to append to"):
        bushel.Writer(tmp_path / "ds", SPEC, container="bag", mode="append")
    write(tmp_path / "ds", 0, 3, container="bag")
    for spec in ({"text": "utf8"}, {**SPEC, "label": "float"}, {**SPEC, "more": "int"}):
        with pytest.raises(bushel.errors.StateError, match="fields"):
            bushel.Writer(tmp_path / "ds", spec, container="bag", mode="append")
    assert contents(tmp_path / "ds") == expected(3)


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_doubled_key_is_refused_and_the_writer_goes_on(tmp_path: Path, container: str) -> None:
    write(tmp_path / "ds", 0, 3, container=container)
    with bushel.Writer(tmp_path / "ds", SPEC, mode="append") as writer:
        for key in ("k1", "k3", "k3"):
            if key == "k3" and len(writer) == 3:
                writer.append(sample(3), key=key)
                continue
            with pytest.raises(ValueError, match=f"'{key}' is in the dataset"):
                writer.append(sample(9), key=key)
    assert contents(tmp_path / "ds") == expected(4)


@pytest.mark.parametrize("container", [*CONTAINERS, "gulp"])
def test_a_key_that_cannot_be_stored_is_named_before_anything_is_written(tmp_path: Path, container: str) -> None:
    codec = "jpg" if container == "gulp" else "int"
    name, value = "field", bytes(get_codec(codec).encode(np.zeros((8, 8, 3), np.uint8) if codec == "jpg" else 1))
    with bushel.Writer(tmp_path / "out", {name: codec}, container=container) as writer:
        writer.append({name: value}, key="first é")
        with pytest.raises(SpecError, match=r"the key 'a\\ud800' cannot be stored as UTF-8: character 1"):
            writer.append({name: value}, key="a\ud800")
        with pytest.raises(SpecError, match=r"the key 'b\\udfff' cannot be stored as UTF-8"):
            writer.extend({name: [value, value]}, keys=["x", "b\udfff"])
        writer.append({name: value}, key="last")
    assert list(bushel.open(tmp_path / "out").keys) == ["first é", "last"]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_failing_sample_leaves_no_trace(tmp_path: Path, container: str) -> None:
    def broken() -> Iterator[bytes]:
        yield b"first"
        raise RuntimeError("from the caller's iterator")

    spec = {"label": "int", "parts": "bytes[]"}
    with bushel.Writer(tmp_path / "ds", spec, container=container) as writer:
        writer.append({"label": 0, "parts": [b"a", b"bc"]}, key="k0")
        with pytest.raises(RuntimeError, match="caller's iterator"):
            writer.append({"label": 1, "parts": broken()}, key="k1")
        with pytest.raises(bushel.errors.CodecError):
            writer.append({"label": "one", "parts": []}, key="k1")
        with pytest.raises(bushel.errors.SpecError, match="not in the spec"):
            writer.append({"label": 1, "parts": [], "more": 1}, key="k1")
        with pytest.raises(bushel.errors.SpecError, match="sequence"):
            writer.append({"label": 1, "parts": b"abc"}, key="k1")
        writer.append({"label": 1, "parts": iter([b"x"])}, key="k1")
    dataset = opened(tmp_path / "ds")
    assert [(s["label"], s["parts"]) for s in dataset] == [(0, [b"a", b"bc"]), (1, [b"x"])]


def test_a_folder_where_a_file_goes_and_a_file_where_a_folder_goes(tmp_path: Path) -> None:
    (tmp_path / "x.tar").mkdir()
    with pytest.raises(FileExistsError, match="is a folder, but the new dataset is a file"):
        bushel.Writer(tmp_path / "x.tar", {"text": "utf8"})
    (tmp_path / "x").touch()
    with pytest.raises(FileExistsError, match="is a file, but the new dataset is a folder"):
        bushel.Writer(tmp_path / "x", {"text": "utf8"}, container="bag")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["x", "x.tar"]


def test_keys_for_all_or_for_none(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a", SPEC, container="bag") as writer:
        writer.append(sample(0), key="x")
        with pytest.raises(ValueError, match="lacks its own"):
            writer.append(sample(1))
        with pytest.raises(TypeError, match="must be a str"):
            writer.append(sample(1), key=1)  # type: ignore[arg-type]
        writer.append({"__key__": "y", **sample(1)})
    assert list(opened(tmp_path / "a").keys) == ["x", "y"]
    with bushel.Writer(tmp_path / "b", SPEC, container="bag") as writer:
        writer.append(sample(0))
        with pytest.raises(ValueError, match="have no keys"):
            writer.append(sample(1), key="x")


@pytest.mark.parametrize(
    ("container", "spec"),
    [
        ("bag", {"a": "bytes", "b": "bytes"}),
        ("ffrecord", {"a": "bytes"}),
        ("recordio", {"a": "bytes"}),
        ("recordio", {"image": "jpg", "label": "int"}),
    ],
)
def test_a_field_that_is_needed(tmp_path: Path, container: str, spec: dict[str, str]) -> None:
    *_, last = spec
    with bushel.Writer(tmp_path / "ds", spec, container=container) as writer:
        for name in spec:
            with pytest.raises(SpecError, match=f"lacks '{name}', but a {container} needs every field"):
                writer.append({other: b"\0" * 8 for other in spec if other != name})
        with pytest.raises(SpecError, match=f"'{last}' has no column|mapping of fields to columns"):
            writer.extend({other: [b"\0" * 8] for other in spec if other != last})
        assert len(writer) == 0


def test_bytes_are_stored_as_they_are(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "ds", {"a": "json", "b": "jpg"}, container="bag") as writer:
        for value in (b'{ "x":  1 }', bytearray(b"[2]"), memoryview(b" 3 ")):
            writer.append({"a": value, "b": b"\xff\xd8 not decoded"})
    dataset = opened(tmp_path / "ds")
    assert [s["a"] for s in dataset.read(range(3), ["a"], decode=False)] == [b'{ "x":  1 }', b"[2]", b" 3 "]
    assert [s["a"] for s in dataset.select_fields(["a"])] == [{"x": 1}, [2], 3]


@pytest.mark.parametrize("container", CONTAINERS)
def test_an_empty_dataset(tmp_path: Path, container: str) -> None:
    bushel.Writer(tmp_path / "ds", SPEC, container=container).close()
    dataset = opened(tmp_path / "ds")
    assert len(dataset) == 0
    assert list(dataset) == []
    write(tmp_path / "ds", 0, 2, mode="append") if container == "tar" else None


@pytest.mark.parametrize("container", CONTAINERS)
def test_an_exception_leaves_a_write_that_can_be_resumed(tmp_path: Path, container: str) -> None:
    path = tmp_path / "ds"

    def interrupted() -> None:
        with bushel.Writer(path, SPEC, container=container, shard_samples=4) as writer:
            for number in range(6):
                writer.append(sample(number), key=f"k{number}")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert contents(path, allow_incomplete=True) == expected(4)
    with pytest.raises(FileExistsError, match="is incomplete"):
        bushel.Writer(path, SPEC, container=container, mode="append")
    with bushel.Writer(path, SPEC, container=container, mode="resume", shard_samples=4) as writer:
        assert len(writer) == 4
        with pytest.raises(ValueError, match="'k3' is in the dataset"):
            writer.append(sample(3), key="k3")
        for number in range(4, 10):
            writer.append(sample(number), key=f"k{number}")
    assert contents(path) == expected(10)
    write(tmp_path / "undisturbed", 0, 10, container=container, shard_samples=4)
    assert files_of(path) == files_of(tmp_path / "undisturbed")


KILLED = textwrap.dedent("""
    import os, signal, sys, bushel
    path, container, shard = sys.argv[1], sys.argv[2], int(sys.argv[3]) or None
    with bushel.Writer(path, {"text": "utf8", "label": "int"}, container=container, mode="resume",
                       shard_samples=shard, sync=False) as writer:
        for number in range(len(writer), len(writer) + 5000):
            writer.append({"text": f"text {number}", "label": number}, key=f"k{number}")
            if number % 10 == 9:
                writer.flush()
                os.write(1, b"%d\\n" % (number + 1))
        signal.pause()  # until the kill, which comes late on a machine that does much else
""")


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("shard", [0, 50])
def test_a_kill_costs_the_open_shard_and_doubles_nothing(tmp_path: Path, container: str, shard: int) -> None:
    path, appended = tmp_path / "ds", 0
    for _ in range(3):
        command = [sys.executable, "-c", KILLED, str(path), container, str(shard)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(20):
            appended = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().split()
        process.stdout.close()
        process.wait()
        appended = int(rest[-1]) if rest else appended
    with bushel.Writer(path, SPEC, container=container, mode="resume", shard_samples=shard or None) as writer:
        assert len(writer) >= (appended // shard * shard if shard else 0)
        assert len(writer) % (shard or 1 << 60) == 0
        total = len(writer) + 5
        for number in range(len(writer), total):
            writer.append(sample(number), key=f"k{number}")
    assert contents(path) == expected(total)
    write(tmp_path / "undisturbed", 0, total, container=container, shard_samples=shard or None)
    assert files_of(path) == files_of(tmp_path / "undisturbed")


def test_resume_is_refused_for_another_spec(tmp_path: Path) -> None:
    writer = bushel.Writer(tmp_path / "ds", SPEC, container="bag", shard_samples=1)
    writer.append(sample(0), key="k0")
    writer.suspend()
    with pytest.raises(bushel.errors.StateError, match="fields"):
        bushel.Writer(tmp_path / "ds", {"text": "utf8"}, container="bag", mode="resume")
    with pytest.raises(FileExistsError, match="bag"):
        bushel.Writer(tmp_path / "ds", SPEC, container="tar", mode="resume")
    with bushel.Writer(tmp_path / "ds", SPEC, container="bag", mode="resume") as again:
        assert len(again) == 1
    assert contents(tmp_path / "ds") == expected(1)


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = bushel.Writer(tmp_path / "ds", SPEC, container="bag")
    writer.append(sample(0))
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.append(sample(1))


def test_writing_to_a_path_like_object(tmp_path: Path) -> None:
    upath = pytest.importorskip("upath")
    target = upath.UPath("memory:///bushel-written/x.tar")
    target.parent.mkdir(exist_ok=True)
    with bushel.Writer(target, {"txt": "utf8"}) as writer:
        writer.append({"txt": "hello"}, key="a")
        assert not target.exists()
    assert bushel.open(target)["a"]["txt"] == "hello"
    with pytest.raises(bushel.errors.UnsupportedError, match="local"):
        bushel.Writer(target, {"txt": "utf8"}, mode="resume")


def test_an_unfinished_shard_is_thrown_away(tmp_path: Path) -> None:
    writer = bushel.Writer(tmp_path / "out", SPEC, container="tar", shard_samples=2, sync=False)
    for number in range(3):
        writer.append(sample(number), key=f"k{number}")
    writer.suspend()
    writer.close()
    assert len(opened(tmp_path / "out", allow_incomplete=True)) == 2
    assert not (tmp_path / "out/.bushel/staging").exists()
    with pytest.raises(ValueError, match="closed"):
        writer.append(sample(3), key="k3")


@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "gulp", "recordio"])
@pytest.mark.parametrize("mode", ["create", "resume"])
def test_a_folder_with_files_of_others_is_refused(tmp_path: Path, container: str, mode: Any) -> None:
    spec = {"frames": "jpg[]", "x": "int"}
    out = tmp_path / "out"
    (out / "photos").mkdir(parents=True)
    with pytest.raises(FileExistsError, match=r"other files \(photos\)"):
        bushel.Writer(out, spec, container=container, mode=mode)
    (out / "photos").rmdir()
    (out / "notes.txt").write_text("mine")
    photos = [{"frames": [jpeg(0)], "x": 1, "__key__": "a"}]
    for attempt in (
        lambda: bushel.Writer(out, spec, container=container, mode=mode),
        lambda: bushel.pack(photos, out, container=container, mode=mode),
        lambda: bushel.pack(photos, out, container=container, parts=2, mode=mode),
    ):
        with pytest.raises(FileExistsError, match="notes.txt"):
            attempt()
    assert [path.name for path in out.iterdir()] == ["notes.txt"]
    (out / "notes.txt").rename(out / ".notes")  # hidden files do not count
    bushel.Writer(out, spec, container=container, mode=mode).close()
    assert len(bushel.open(out)) == 0


def test_one_file_lies_beside_others(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    bushel.Writer(tmp_path / "x.tar", {"x": "int"}).close()


def test_a_writer_owns_the_list_of_the_shards_that_it_continues(tmp_path: Path) -> None:
    """The list of `pack` held the table of a file that was replaced until the run ended."""
    path = tmp_path / "x.tar"
    with bushel.Writer(path, {"x": "int"}, sync=False) as first:
        first.append({"x": 1}, key="a")
    shards = continued_shards(Target.of(path, choose_container(path, WriterOptions())), "append")
    with DatasetWriter(path, None, WriterOptions(mode="append", sync=False), existing=shards) as writer:
        writer.append({"x": 2}, key="b")
    assert [shard.samples for shard in shards] == [2]
