"""Containers by name and by the names of files: Bushel's own, registered ones, and containers of other packages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import bushel
from bushel.containers import (
    Container,
    ReadOptions,
    Shard,
    ShardIndex,
    candidates,
    container_by_suffix,
    container_names,
    get_container,
    get_writable,
    is_data_file,
    is_forward_only,
    needs_index,
    registry,
    table_of,
)
from bushel.storage import AnyPath


@dataclass(frozen=True, slots=True)
class Empty(Container):
    """A container whose files have no samples."""

    name: str = "empty"
    suffixes: tuple[str, ...] = (".empty",)

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of one file."""
        return [Shard.of(path)] if path.name.endswith(self.suffixes) else None

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return a table without rows."""
        return table_of(self.name, shard, 0, {})


@pytest.fixture(autouse=True)
def _only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def names_of(found: list[Container]) -> list[str]:
    return [each.name for each in found]


def test_five_are_written() -> None:
    assert container_names(written=True) == ("bag", "tar", "ffrecord", "gulp", "recordio")
    for name in container_names(written=True):
        container = get_writable(name)
        assert container.is_written
        assert container.name == name


@pytest.mark.parametrize("name", container_names())
def test_a_registration_says_what_the_container_says(name: str) -> None:
    container, known = get_container(name), registry._registered[name]
    assert isinstance(container, Container)
    assert known.suffixes == container.suffixes
    assert known.file_names == container.file_names
    assert known.first_bytes == container.has_first_bytes
    assert known.suffix == (container.suffix if container.is_written else None)


@pytest.mark.parametrize(
    ("names", "owners"),
    [
        (["a.tar", "b.tar"], ["tar"]),
        (["photo.jpg", "README"], []),
        (["000000", "000001"], ["bag"]),
        (["spec.json", "image.bag"], ["bag"]),
        (["x.rec", "x.idx"], ["recordio"]),
        (["x.rec.part000"], ["recordio"]),
        (["data_0.gulp", "meta_0.gmeta", "label2idx.json"], ["gulp"]),
        (["a.tar", "b.ffr"], ["tar", "ffrecord"]),
        ([".tar"], ["tar"]),
        ([], []),
    ],
)
def test_names_of_files_determine_the_candidates(names: list[str], owners: list[str]) -> None:
    assert [name for name in names_of(candidates(names)) if name in container_names(written=True)] == owners


@pytest.mark.parametrize(
    "chosen",
    [lambda: candidates(["x.tar"]), registry.containers_with_first_bytes, lambda: registry.last_candidates("x.json")],
)
def test_another_thread_may_register_a_container_while_one_is_imported(
    chosen: Callable[[], list[Container]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = chosen()

    def registering(name: str) -> Container:
        registry._registered[f"more-{name}"] = registry._registered[name]
        return get_container(name)

    monkeypatch.setattr(registry, "get_container", registering)
    assert chosen() == found != []


def test_opening_imports_only_the_container_that_owns_the_files(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "one.tar", {"x": "int"}) as writer:
        writer.append({"x": 1})
    code = (
        "import json, sys, bushel; bushel.open(sys.argv[1])[0]\n"
        "print(json.dumps([name for name in sys.modules if name.startswith(('bushel.containers', 'importlib.meta'))]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "one.tar"], capture_output=True, text=True, check=True
    )
    imported = set(json.loads(done.stdout))
    assert "bushel.containers.tar" in imported
    others = {f"bushel.containers.{name}" for name in container_names() if name != "tar"}
    assert not imported & others
    assert "importlib.metadata" not in imported, "entry points are looked for when nothing else owns the files"


def test_suffixes() -> None:
    assert container_by_suffix("x.tar") is get_container("tar")
    assert container_by_suffix("x.jpg") is None
    assert is_data_file("train-000.tar")
    assert is_data_file("x.rec.part012")
    assert is_data_file("x.tfrecord-00000-of-00010.gz")
    assert not is_data_file("train.txt")
    assert is_forward_only("a.tar.xz")
    assert not is_forward_only("a.tar.gz")
    assert not is_forward_only("a.tar")
    assert needs_index("a.tar.gz")
    assert not needs_index("a.tar")


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="unknown container 'nonsense': use one of bag, tar"):
        get_container("nonsense")


@pytest.mark.parametrize(
    ("package", "name"),
    [("webdataset", "tar"), ("Granular", "bag"), ("gulpio", "gulp"), ("gulpio2", "gulp"), ("mxnet", "recordio")],
)
def test_names_of_the_original_packages_propose_their_containers(package: str, name: str) -> None:
    for get in (get_container, get_writable):
        with pytest.raises(ValueError, match=rf"unknown container '{package}': did you mean '{name}'\?"):
            get(package)


def test_a_registered_container_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.empty"
    path.write_bytes(b"")
    with pytest.raises(bushel.errors.FormatError, match="does not belong to any container"):
        bushel.open(path)
    bushel.register_container(Empty())
    assert len(bushel.open(path)) == 0
    assert bushel.open(path).info.container == "empty"
    assert bushel.open(path, container="empty").info.container == "empty"


class Numbered(Container):
    """A container whose shards are the files with its suffix."""

    name, suffixes = "numbered", (".part#",)

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return a table without rows."""
        return table_of(self.name, shard, 0, {})


def test_by_default_the_files_with_a_suffix_are_shards(tmp_path: Path) -> None:
    for name in ("b.part12", "a.PART3", ".c.part4", "d.part", "e.txt"):
        (tmp_path / name).write_bytes(b"")
    bushel.register_container(Numbered())
    assert [shard.shard.name for shard in bushel.open(tmp_path, container="numbered").shards] == ["a.PART3", "b.part12"]
    assert bushel.open(tmp_path / "b.part12").info.container == "numbered"
    assert Numbered().shards(tmp_path / "d.part") is None


def test_it_is_not_written(tmp_path: Path) -> None:
    bushel.register_container(Empty())
    expected = "empty datasets are read in place, and not written: choose one of bag, tar, ffrecord, gulp, record"
    with pytest.raises(ValueError, match=expected):
        bushel.Writer(tmp_path / "out", {"x": "int"}, container="empty")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.empty").write_bytes(b"")
    (tmp_path / "a.empty").write_bytes(b"")
    with pytest.raises(ValueError, match=expected):
        bushel.Writer(tmp_path / "a.empty", {"x": "int"}, mode="append")
    with pytest.raises(ValueError, match=expected):
        bushel.convert(tmp_path / "a.empty", tmp_path / "out", container="empty")


@pytest.mark.parametrize("name", ["Empty", "", "a b", "9"])
def test_malformed_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a container"):
        bushel.register_container(Empty(name))


def test_names_that_are_taken() -> None:
    bushel.register_container(Empty())
    with pytest.raises(ValueError, match="container 'empty' exists already"):
        bushel.register_container(Empty())
    bushel.register_container(Empty(), replace=True)
    with pytest.raises(ValueError, match="container 'tar' exists already: choose another name$"):
        bushel.register_container(Empty("tar"), replace=True)


class Nameless(Empty):
    """A container whose author has forgotten its name."""

    def __init__(self) -> None:
        """Set nothing."""


def test_what_is_no_container_is_refused() -> None:
    broken: Any = object()
    with pytest.raises(TypeError, match=r"^object is not a container: its class must inherit from bushel\.cont"):
        bushel.register_container(broken)
    with pytest.raises(TypeError, match="Nameless is not a container: it has no name"):
        bushel.register_container(Nameless())


def test_a_class_without_the_two_methods_makes_no_container() -> None:
    class Half(Container):
        name = "half"

        def shards(self, path: AnyPath) -> list[Shard] | None:
            return None

    half: Any = Half
    with pytest.raises(TypeError, match="abstract .*index"):
        half()


@pytest.mark.parametrize("name", container_names())
def test_flags_and_methods_of_a_container_go_together(name: str) -> None:
    kind = type(get_container(name))
    methods = {method: getattr(kind, method) is not getattr(Container, method) for method in vars(Container)}
    for flag, method in [
        ("has_first_bytes", "begins_with"),
        ("has_sections", "outline"),
        ("has_sections", "index_section"),
        ("keeps_folders", "empty_folders"),
        ("is_written", "layout"),
        ("is_written", "writer"),
    ]:
        assert getattr(kind, flag) == methods[method], f"{flag} and {method}"
    assert (kind.names_file is not None) == methods["class_names"]


def test_a_misspelt_container_is_recognised() -> None:
    with pytest.raises(ValueError, match=r"unknown container 'bagg': did you mean 'bag'\?"):
        get_container("bagg")
    with pytest.raises(ValueError, match=r"unknown container 'xyz': use one of bag, tar"):
        get_container("xyz")


@pytest.mark.parametrize("end", ["zip", "arrow", "tfrecord", "npy", "jsonl", "csv", "parquet", "ffr", "tar", "rec"])
def test_a_pointer_of_git_lfs_is_said_to_be_one(end: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{end}").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(bushel.errors.FormatError, match="pointer of Git LFS.*git lfs pull"):
        bushel.open(tmp_path / f"a.{end}")
