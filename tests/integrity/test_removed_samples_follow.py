"""The list of removed samples names samples, not rows: it holds whatever happens to the files."""

from __future__ import annotations

import json
import logging
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.running import run
from tests.integrity.removed import COUNT, GONE, KEPT, keys, restore_all, write

import bushel
from bushel._index.removal_list import EMPTY, encode_removal_list, parse_removal_list

FEW = ["k00", "k11"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = write(tmp_path / "data")
    bushel.remove(path, keys=FEW, reason="opt-out")
    return path


def tars(path: Path) -> list[Path]:
    return sorted(path.glob("*.tar"))


def in_another_order(path: Path) -> None:
    for archive in tars(path):
        with tarfile.open(archive) as old:
            members = [(member, old.extractfile(member)) for member in old.getmembers()]
            samples = [(member, file.read()) for member, file in members if file is not None]
        with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as new:
            import io

            for member, data in samples[::-1]:
                new.addfile(member, io.BytesIO(data))


def renamed(path: Path) -> None:
    for number, archive in enumerate(tars(path)[::-1]):
        archive.rename(path / f"other-{number}.tar")
    (path / ".bushel/manifest.json").unlink()


def joined(path: Path) -> None:
    with tarfile.open(path / "all.tar", "w", format=tarfile.USTAR_FORMAT) as whole:
        for archive in tars(path):
            if archive.name != "all.tar":
                with tarfile.open(archive) as part:
                    for member in part.getmembers():
                        whole.addfile(member, part.extractfile(member))
                archive.unlink()
    (path / ".bushel/manifest.json").unlink()


def a_shard_less(path: Path) -> None:
    tars(path)[3].unlink()
    (path / ".bushel/manifest.json").unlink()


def indexed_in_another_order(path: Path) -> None:
    in_another_order(path)
    bushel.index(path, force=True)


def without_index(path: Path) -> None:
    for table in (path / ".bushel").iterdir():
        if table.name != "removed.safetensors":
            table.unlink()


def _label(sample: dict[str, Any]) -> int:
    label: int = sample.get("label", sample.get("label.cls", -1))
    return label


CHANGES: dict[str, Callable[[Path], object]] = {
    "another order": in_another_order,
    "renamed": renamed,
    "joined": joined,
    "without index": without_index,
    "indexed again": lambda path: bushel.index(path, force=True, keys=True),
    "in another order, indexed again": indexed_in_another_order,
    "a shard less": a_shard_less,
    "appended": lambda path: write_more(path, [("new", 99)]),
}


def write_more(path: Path, samples: list[tuple[str, int]], **options: Any) -> None:
    with bushel.Writer(path, sync=False, **{"mode": "append"} | options) as writer:
        for key, label in samples:
            writer.append({"data": b"%03d" % label * 5, "label": label}, key=key)


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_change(change: str, path: Path) -> None:
    before = (
        {sample["__key__"]: sample["label"] for sample in bushel.open(path, allow_incomplete=True)} if change else {}
    )
    CHANGES[change](path)
    for dataset in (bushel.open(path), bushel.open(path, index="memory")):
        found = {sample["__key__"]: _label(sample) for sample in dataset}
        assert not {*FEW} & found.keys()
        assert len(found) >= 18 - 2 * (change == "a shard less")
        assert all(label in (-1, before.get(key, label)) for key, label in found.items())
    assert bushel.removals(path)[0].samples == 2
    assert not {*FEW} & {sample["__key__"] for sample in bushel.open_stream(str(path / "*.tar"))}
    bushel.erase(path)
    assert sorted(bushel.open(path).keys) == sorted(found)
    assert bushel.verify(path).ok


def test_one_file_that_is_renamed_or_divided(tmp_path: Path) -> None:
    path = write(tmp_path / "set/one.tar", shard_samples=None)
    other = write(tmp_path / "set/other.tar", shard_samples=None)
    bushel.remove(path, keys=FEW, reason="opt-out")
    assert len(bushel.open(other)) == COUNT  # which has its own list, though the samples are the same
    assert len(bushel.open(tmp_path / "set")) == 2 * COUNT - 2
    other.unlink()
    path.rename(tmp_path / "set/renamed.tar")
    assert len(bushel.open(tmp_path / "set/renamed.tar")) == COUNT - 2
    assert [call.reason for call in bushel.removals(tmp_path / "set/renamed.tar")] == ["opt-out"]


def test_missing_names_are_reported_and_take_no_other(path: Path) -> None:
    tars(path)[0].unlink()
    (path / ".bushel/manifest.json").unlink()
    [call] = bushel.removals(path)
    assert (call.samples, call.missing) == (1, 1)
    assert "1 (1 more are not stored any more)" in run("remove", path, "--list")
    assert len(bushel.open(path)) == COUNT - 6 - 1


def test_another_sample_with_a_removed_key(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_more(path, [("k00", 77)])
    assert bushel.open(path)["k00"]["label"] == 77
    bushel.remove(path, keys=["k00"], reason="later")
    with caplog.at_level(logging.WARNING):
        write_more(path, [("k00", 0), ("k11", 11), ("k00x", 5)])
    assert "2 of the new samples stay removed" in caplog.text
    assert not {*FEW} & set(bushel.open(path).keys)
    assert "k00x" in bushel.open(path)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "gulp", "recordio"])
def test_overwriting_keeps_the_list(container: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path / "data", container)
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    with caplog.at_level(logging.WARNING):
        write(path, container, mode="overwrite", shard_samples=4)
    assert "5 of the new samples stay removed" in caplog.text
    assert list(bushel.open(path).keys) == keys(KEPT)
    bushel.convert(
        write(tmp_path / "other", container, count=12), path, container=container, mode="overwrite", sync=False
    )
    assert list(bushel.open(path).keys) == [key for key in keys(KEPT) if key < "k12"]
    write(path, container, mode="overwrite", forget_removed=True)
    assert (list(bushel.open(path).keys), bushel.removals(path)) == (keys(range(COUNT)), [])


@pytest.mark.parametrize(("old", "new"), [("bag", "tar"), ("tar", "bag"), ("bag", "bag")])
def test_overwriting_in_another_container_finds_the_list(old: str, new: str, tmp_path: Path) -> None:
    """Several bags have their list elsewhere than other folders: it was not compared, and removed samples were back."""
    path = write(tmp_path / "data", old, shard_samples=4)
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    again = write(tmp_path / "again", old)
    for samples in (5, 1000, 5):
        bushel.convert(again, path, container=new, mode="overwrite", shard_samples=samples, sync=False)
        assert list(bushel.open(path).keys) == keys(KEPT)
        assert [(removal.samples, removal.missing) for removal in bushel.removals(path)] == [(len(GONE), 0)]


def test_overwriting_one_file(tmp_path: Path) -> None:
    path = write(tmp_path / "one.tar", shard_samples=None)
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    write(path, shard_samples=None, mode="overwrite")
    assert list(bushel.open(path).keys) == keys(KEPT)
    run("convert", write(tmp_path / "other"), path, "--overwrite", "--forget-removed")
    assert list(bushel.open(path).keys) == keys(range(COUNT))


def test_folders_of_links_keep_the_list(path: Path, tmp_path: Path) -> None:
    """The list is beside the files, not beside the links, of which some have other names."""
    folder = tmp_path / "links"
    folder.mkdir()
    for number, archive in enumerate(tars(path)):
        (folder / (f"x{number}.tar" if number else archive.name)).symlink_to(archive)
    bushel.remove(tars(path)[1], keys=["k06"], reason="also")
    wanted = list(bushel.open(path).keys)
    assert len(wanted) == COUNT - len(FEW) - 1
    for source in (folder, f"{folder}/*.tar"):
        assert sorted(bushel.open(source).keys) == sorted(wanted)
    assert sorted(sample["__key__"] for sample in bushel.open_stream(f"{folder}/*.tar")) == sorted(wanted)


def test_the_list_beside_a_link_holds_when_the_file_gets_a_table(tmp_path: Path) -> None:
    """Its readers went to the file then, and saw the removed sample again."""
    (tmp_path / "real").mkdir()
    real = write(tmp_path / "real/one.tar", shard_samples=None)
    shutil.rmtree(tmp_path / "real/.bushel")
    link = tmp_path / "link.tar"
    link.symlink_to(real)
    bushel.remove(link, keys=FEW, reason="opt-out")
    bushel.index(real)
    bushel.remove(real, keys=["k05"], reason="also")
    assert not {*FEW, "k05"} & {*bushel.open(link).keys}
    assert len(bushel.open(link)) == COUNT - len(FEW) - 1


def test_files_named_by_a_table_are_beside_its_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    table, link = tmp_path / "real/t.jsonl", tmp_path / "t.jsonl"
    for folder, image in ((table.parent, b"other"), (tmp_path, b"own")):
        (folder / "a.bin").write_bytes(image)
    table.write_text('{"file_name": "a.bin"}\n')
    link.symlink_to(table)
    bushel.index(table)
    assert bushel.open(link, spec={"file_name": "bytes(path)"})[0]["file_name"] == b"own"


def test_one_of_several_bags(tmp_path: Path) -> None:
    """The others still showed what was removed, and the first one was refused, with advice that lost the manifest."""
    path = write(tmp_path / "data", "bag", shard_samples=4)
    before = (path / "000000/.bushel/manifest.json").read_bytes()
    bushel.remove(path / "000001", keys=["k05"], reason="opt-out")
    assert list(bushel.index(path / "000000").keys) == list(bushel.open(path / "000000").keys) == keys(range(4))
    assert (path / "000000/.bushel/manifest.json").read_bytes() == before
    assert list(bushel.open(path).keys) == [key for key in keys(range(COUNT)) if key != "k05"]
    assert list(bushel.open(path / "000001").keys) == keys([4, 6, 7])


def test_one_of_several_parts(tmp_path: Path) -> None:
    """Overwriting the whole lost the list of one part."""
    path, again = tmp_path / "data", write(tmp_path / "again")
    bushel.pack(again, path, container="tar", parts=2, sync=False)
    bushel.remove(path / "part-00000", keys=["k01"], reason="opt-out")
    wanted = [key for key in keys(range(COUNT)) if key != "k01"]
    assert list(bushel.open(path).keys) == wanted
    bushel.convert(again, path, container="tar", mode="overwrite", sync=False)
    assert list(bushel.open(path).keys) == wanted


def test_copies_keep_the_list(path: Path, tmp_path: Path) -> None:
    shutil.copytree(path, tmp_path / "copy")
    shutil.move(path, tmp_path / "moved")
    for folder in ("copy", "moved"):
        assert not {*FEW} & set(bushel.open(tmp_path / folder).keys)


def test_calls_are_sets(path: Path) -> None:
    """What is removed is the union of the calls in force."""
    first = bushel.removals(path)[0]
    second = bushel.remove(path, keys=["k11", "k12"], reason="also")
    assert (second.samples, len(bushel.open(path))) == (2, COUNT - 3)
    assert bushel.remove(path, keys=["k12", "k11"], reason="also").call == second.call
    assert bushel.restore(path, first.call).samples == 1
    assert bushel.restore(path, first.call).samples == 0
    assert "k00" in bushel.open(path)
    assert "k11" not in bushel.open(path)
    last = bushel.restore(path)
    assert (last.call, last.samples) == (second.call, 2)
    assert bushel.restore(path) == bushel.integrity.Removal("", "", 0.0, 0)
    assert not (path / ".bushel/removed.safetensors").exists()


def test_equal_keys_in_two_shards(tmp_path: Path) -> None:
    path = tmp_path / "data"
    for name, labels in (("a", [1, 2]), ("b", [1, 3])):
        write_more(path / f"{name}.tar", [(f"k{n}", label) for n, label in enumerate(labels)], mode="create", spec=SPEC)
    assert bushel.remove(path, positions=[0], reason="x").samples == 2  # the same sample is in both
    assert [sample["label"] for sample in bushel.open(path)] == [2, 3]
    assert bushel.remove(path, positions=[0], reason="y").samples == 1  # another sample has the same key
    assert [sample["label"] for sample in bushel.open(path)] == [3]


SPEC = {"data": "bytes", "label": "int"}


def test_files_without_checksums_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.jpg").write_bytes(b"\xff\xd8\xff photo %d" % (number % 4))
    bushel.remove(folder, keys=["1", "4"], reason="opt-out")
    assert list(bushel.open(folder).keys) == ["0", "2", "3", "5"]
    (folder / "1.jpg").write_bytes(b"\xff\xd8\xff another")
    (folder / "4.jpg").rename(folder / "7.jpg")
    assert list(bushel.open(folder).keys) == ["0", "1", "2", "3", "5", "7"]
    assert bushel.removals(folder)[0].missing == 2
    (folder / "1.jpg").write_bytes(b"\xff\xd8\xff photo 1")
    assert list(bushel.open(folder).keys) == ["0", "2", "3", "5", "7"]


def test_rows_without_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"text": f"row {number}", "n": number} for number in (0, 1, 2, 3, 1)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with caplog.at_level(logging.WARNING):
        assert bushel.remove(file, positions=[1], reason="opt-out").samples == 2
    assert "1 other samples are removed with them" in caplog.text
    assert [sample["n"] for sample in bushel.open(file)] == [0, 2, 3]
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows[::-1], {"text": "more", "n": 9}]))
    assert [sample["n"] for sample in bushel.open(file)] == [3, 2, 0, 9]


def test_types_that_the_caller_declares(tmp_path: Path) -> None:
    """A spec changes names and types of fields, not the samples."""
    with tarfile.open(tmp_path / "data.tar", "w") as archive:
        import io

        for number in range(4):
            for name in ("cls", "txt"):
                info = tarfile.TarInfo(f"{number}.{name}")
                info.size = 1
                archive.addfile(info, io.BytesIO(b"%d" % number))
    bushel.remove(tmp_path / "data.tar", keys=["2"], reason="opt-out")
    for spec in ({"txt": "bytes"}, {"cls": "int"}, {"cls": "utf8", "txt": "int"}):
        assert list(bushel.open(tmp_path / "data.tar", spec=spec).keys) == ["0", "1", "3"], spec


def test_windows_joins_and_mixtures(tmp_path: Path) -> None:
    path = tmp_path / "clips"
    with bushel.Writer(path, {"frames": "bytes[]", "label": "int"}, container="bag", sync=False) as writer:
        for number in range(6):
            writer.append({"frames": [b"%d%d" % (number, n) for n in range(4)], "label": number}, key=f"c{number}")
    bushel.open(path).where("label > 1").save_view("some")
    bushel.remove(path, keys=["c0", "c3"], reason="opt-out")
    dataset = bushel.open(path)
    windows = dataset.windows("frames", 2, hop=2)
    assert {window["frames"][0][:1] for window in windows} == {b"1", b"2", b"4", b"5"}
    assert list(
        bushel.join(dataset.select_fields(["label"]), dataset.select_fields(["frames"]), on="key").keys
    ) == list(dataset.keys)
    with pytest.warns(UserWarning, match="stale"):
        assert list(bushel.open(path, view="some", allow_stale=True).keys) == ["c2", "c4", "c5"]
    mixture = bushel.mix({"a": dataset, "b": dataset}, weights={"a": 1, "b": 1})
    assert not {"c0", "c3"} & {key for batch in bushel.Loader(mixture, 2) for key in batch["__key__"]}
    restore_all(path)
    assert len(bushel.open(path)) == 6


@pytest.mark.parametrize("at", range(0, 900, 23))
def test_a_damaged_list_is_an_error(path: Path, at: int) -> None:
    place = path / ".bushel/removed.safetensors"
    data = bytearray(place.read_bytes())
    data[at % len(data)] ^= 0x41
    place.write_bytes(data)
    with pytest.raises(bushel.errors.FormatError, match=r"removed\.safetensors"):
        bushel.open(path)


def test_the_format() -> None:
    assert parse_removal_list(encode_removal_list(EMPTY), Path("x")).calls == ()
    assert np.array_equal(parse_removal_list(None, Path("x")).starts, [0])


def test_verify_accepts_another_sample_under_a_removed_key(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "d", {"x": "int"}, container="tar", shard_samples=2, sync=False) as writer:
        writer.extend({"x": [0, 1, 2]}, keys=["a", "b", "c"])
    bushel.remove(tmp_path / "d", keys=["b"], reason="opt-out")
    with bushel.Writer(tmp_path / "d", mode="append", sync=False) as writer:
        writer.append({"x": 7}, key="b")
    assert bushel.open(tmp_path / "d")["b"]["x"] == 7
    assert not bushel.verify(tmp_path / "d").problems
    bushel.restore(tmp_path / "d")
    assert [problem.kind for problem in bushel.verify(tmp_path / "d").problems] == ["key"]


@pytest.mark.parametrize(("container", "name"), [("tar", "a.tar"), ("ffrecord", "a.ffr"), ("recordio", "a.rec")])
@pytest.mark.parametrize("of_folder", [False, True])
def test_drop_ins_skip_removed_samples_of_a_linked_file(
    tmp_path: Path, container: str, name: str, of_folder: bool
) -> None:
    write(tmp_path / "data" / name, container, shard_samples=None)
    bushel.remove(tmp_path / "data" / ("" if of_folder else name), keys=FEW, reason="opt-out")
    (tmp_path / "links").mkdir()
    for file in (tmp_path / "data").iterdir():
        if file.is_file():
            (tmp_path / "links" / file.name).symlink_to(file)
    link = tmp_path / "links" / name
    assert bushel.integrity.removed_positions(link, container=container).tolist() == [0, 11]


@pytest.mark.parametrize("parts", [False, True])
def test_a_folder_of_links_leaves_them_out_when_it_is_indexed(tmp_path: Path, parts: bool) -> None:
    """As it is when a manifest lists its files, and when other links are beside folders of parts."""
    folder = tmp_path / "links"
    for number in range(2):
        write(tmp_path / f"data/{number}.tar", count=5, shard_samples=None)
        place = folder / f"part-0000{number}" if parts else folder
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.tar").symlink_to(tmp_path / f"data/{number}.tar")
    bushel.remove(tmp_path / "data/1.tar", keys=["k03"], reason="opt-out")
    expected = keys([0, 1, 2, 3, 4, 0, 1, 2, 4])
    assert list(bushel.open(folder).keys) == expected
    bushel.index(folder)
    if parts:
        (folder / "stray").symlink_to(tmp_path / "data")
    assert list(bushel.open(folder).keys) == expected


def test_a_link_to_one_of_several_bags_leaves_them_out(tmp_path: Path) -> None:
    write(tmp_path / "data", "bag", count=8, shard_samples=4)
    bushel.remove(tmp_path / "data", keys=["k01", "k06"], reason="opt-out")
    for number, expected in enumerate((["k00", "k02", "k03"], ["k04", "k05", "k07"])):
        link = tmp_path / f"link{number}"
        link.symlink_to(tmp_path / f"data/00000{number}")
        assert list(bushel.open(link).keys) == expected
        assert bushel.verify(link).ok


@pytest.mark.parametrize("container", ["bag", "gulp"])
def test_links_to_the_files_of_one_dataset_leave_them_out(tmp_path: Path, container: str) -> None:
    write(tmp_path / "data", container, count=4, shard_samples=None)
    bushel.remove(tmp_path / "data", keys=["k01"], reason="opt-out")
    (tmp_path / "links").mkdir()
    for file in (tmp_path / "data").iterdir():
        if file.is_file():
            (tmp_path / "links" / file.name).symlink_to(file)
    for _ in range(2):
        assert list(bushel.open(tmp_path / "links").keys) == ["k00", "k02", "k03"]
        bushel.index(tmp_path / "links")


def test_one_of_several_bags_may_be_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of `.` does not tell that the list is beside another bag, or above a part."""
    write(tmp_path / "bags", "bag", count=8, shard_samples=4)
    bushel.remove(tmp_path / "bags", keys=["k06"], reason="opt-out")
    monkeypatch.chdir(tmp_path / "bags/000001")
    assert bushel.integrity.removed_positions(Path(), container="bag").tolist() == [2]
    with pytest.raises(FileExistsError, match="is one of the bags of"):
        bushel.convert(tmp_path / "bags", ".", container="bag", mode="overwrite")
    assert bushel.erase(tmp_path / "bags").samples == 1
    bushel.pack(tmp_path / "bags", tmp_path / "parts", container="tar", parts=2, sync=False)
    bushel.remove(tmp_path / "parts", keys=["k01"], reason="opt-out")
    monkeypatch.chdir(tmp_path / "parts/part-00000")
    [name] = Path().glob("*.tar")
    assert bushel.integrity.removed_positions(name, container="tar").tolist() == [1]
