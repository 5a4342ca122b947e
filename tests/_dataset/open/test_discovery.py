from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.read_in_place import FOREIGN

import bushel
from bushel._dataset.open.sources import expand_paths
from bushel.errors import FormatError


def write(path: Path, count: int = 6, shard_samples: int | None = None) -> None:
    with bushel.Writer(path, {"txt": "utf8"}, container="tar", sync=False, shard_samples=shard_samples) as writer:
        for number in range(count):
            writer.append({"txt": f"{number}"}, key=f"{number:03d}")


def texts(source: Any) -> list[str]:
    return [sample["txt"] for sample in bushel.open(source)]


def test_every_way_to_name_a_dataset(tmp_path: Path) -> None:
    write(tmp_path / "ds", shard_samples=2)
    files = sorted((tmp_path / "ds").glob("*.tar"))
    everything = ["0", "1", "2", "3", "4", "5"]
    assert texts(tmp_path / "ds") == everything
    assert texts(str(tmp_path / "ds")) == everything
    assert texts(str(tmp_path / "ds" / "*.tar")) == everything
    assert texts([str(file) for file in files]) == everything
    assert texts(files[::-1]) == ["4", "5", "2", "3", "0", "1"]
    assert texts(files[1]) == ["2", "3"]
    pattern = str(files[0]).replace("000000", "{000001..000002}")
    assert texts(pattern) == ["2", "3", "4", "5"]
    assert texts(f"file://{tmp_path}/ds") == everything


def test_a_name_that_looks_like_a_pattern(tmp_path: Path) -> None:
    write(tmp_path / "odd{1..2}[x]")
    assert len(texts(str(tmp_path / "odd{1..2}[x]"))) == 6


def test_nothing_there(tmp_path: Path) -> None:
    sources: list[Any] = [tmp_path / "no", str(tmp_path / "*.tar"), str(tmp_path / "{1..2}.tar"), []]
    for source in sources:
        with pytest.raises(FileNotFoundError):
            bushel.open(source)
    with pytest.raises(TypeError):
        bushel.open(3)  # type: ignore[arg-type]
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "notes.md").write_bytes(b"x")
    with pytest.raises(bushel.errors.FormatError, match="any container that Bushel reads"):
        bushel.open(tmp_path / "plain")
    with pytest.raises(bushel.errors.FormatError, match="no bag dataset"):
        bushel.open(tmp_path / "plain", container="bag")


def test_a_folder_of_two_containers_asks_which(tmp_path: Path) -> None:
    write(tmp_path / "x.tar")
    with bushel.Writer(tmp_path / "y.rec", {"data": "bytes"}) as writer:
        writer.append({"data": b"abc"})
    with pytest.raises(bushel.errors.FormatError, match="tar and recordio.*container="):
        bushel.open(tmp_path)
    assert len(bushel.open(tmp_path, container="tar")) == 6
    assert len(bushel.open(tmp_path, container="recordio")) == 1


def test_a_scan_is_kept_beside_the_data_when_it_may_be(tmp_path: Path) -> None:
    write(tmp_path / "ds")
    sidecar = tmp_path / "ds" / ".bushel" / "shard-000000.tar.safetensors"
    sidecar.unlink()
    bushel.open(tmp_path / "ds", index="memory")
    assert not sidecar.exists()
    with pytest.raises(bushel.errors.FormatError, match="bushel index"):
        bushel.open(tmp_path / "ds", index="require")
    bushel.open(tmp_path / "ds")
    assert sidecar.exists()
    bushel.open(tmp_path / "ds", index="require")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_no_problem(tmp_path: Path) -> None:
    write(tmp_path / "ds")
    (tmp_path / "ds" / ".bushel" / "shard-000000.tar.safetensors").unlink()
    (tmp_path / "ds" / ".bushel").chmod(0o555)
    assert len(texts(tmp_path / "ds")) == 6


def test_a_stale_index_is_never_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "ds")
    write(tmp_path / "other", 9)
    [file] = (tmp_path / "ds").glob("*.tar")
    [other] = (tmp_path / "other").glob("*.tar")
    file.write_bytes(other.read_bytes())
    with pytest.raises(bushel.errors.FormatError, match="its index is stale"):
        bushel.open(tmp_path / "ds", index="require")
    with caplog.at_level(logging.INFO, "bushel"):
        assert len(bushel.open(tmp_path / "ds")) == 9
    assert "the index is stale" in caplog.text
    assert "has changed since it was indexed: it is read without the checksums of its index" in caplog.text
    with pytest.raises(bushel.errors.FormatError, match="its index is stale"):
        bushel.open(tmp_path / "ds", index="require")  # the table with checksums was kept
    bushel.index(tmp_path / "ds")  # the six samples that it knew are among the nine
    assert len(bushel.open(tmp_path / "ds", index="require")) == 9


@pytest.mark.parametrize("damage", ["truncated", "one bit"])
def test_a_damaged_sidecar_is_not_used_and_kept(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "ds")
    sidecar = tmp_path / "ds" / ".bushel" / "shard-000000.tar.safetensors"
    data = bytearray(sidecar.read_bytes())
    data[-1] ^= damage == "one bit"
    sidecar.write_bytes(data if damage == "one bit" else data[:100])
    for _ in range(2):
        caplog.clear()
        assert len(texts(tmp_path / "ds")) == 6
        assert "the shard is read without it, until `bushel index` makes it again" in caplog.text
    assert [problem.kind for problem in bushel.verify(tmp_path / "ds").problems] == ["index"]
    bushel.index(tmp_path / "ds")
    caplog.clear()
    assert len(texts(tmp_path / "ds")) == 6
    assert caplog.text == ""


def test_a_large_sidecar_is_compared_with_its_checksum_by_verify_and_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "ds")
    sidecar = tmp_path / "ds" / ".bushel" / "shard-000000.tar.safetensors"
    data = bytearray(sidecar.read_bytes())
    data[data.index(b"001002", 8 + int.from_bytes(data[:8], "little"))] ^= 1  # the text of a key
    sidecar.write_bytes(data)
    monkeypatch.setattr("bushel._index.sidecar.ALWAYS_CHECKED", 0)
    assert len(bushel.open(tmp_path / "ds", index="require")) == 6
    assert [problem.kind for problem in bushel.verify(tmp_path / "ds").problems] == ["index"]
    bushel.index(tmp_path / "ds")
    assert bushel.verify(tmp_path / "ds").ok


def test_index_adds_checksums_and_a_manifest(tmp_path: Path) -> None:
    write(tmp_path / "ds", shard_samples=2)
    for sidecar in (tmp_path / "ds" / ".bushel").iterdir():
        sidecar.unlink()
    assert not bushel.open(tmp_path / "ds").info.checksums
    done: list[bushel.runs.Progress] = []
    dataset = bushel.index(tmp_path / "ds", progress=done.append)
    assert [(each.done, each.total, each.unit) for each in done] == [(n, 3, "shards") for n in (1, 2, 3)]
    assert done[-1].bytes == sum(file.stat().st_size for file in (tmp_path / "ds").glob("*.tar"))
    assert dataset.info.checksums
    assert bushel.open(tmp_path / "ds", index="require").info.checksums
    assert (tmp_path / "ds" / ".bushel" / "manifest.json").exists()
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "ds" / ".bushel").glob("*.safetensors")}
    done.clear()
    bushel.index(tmp_path / "ds", progress=done.append)
    assert [each.bytes for each in done] == [0, 0, 0]
    assert before == {file: file.stat().st_mtime_ns for file in before}
    bushel.index(tmp_path / "ds", force=True)
    assert before != {file: file.stat().st_mtime_ns for file in before}


def test_a_large_dataset_opens_by_its_manifest_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "ds", 9, shard_samples=1)
    monkeypatch.setattr("bushel._dataset.open.shards._STAT_ALL", 3)
    for sidecar in (tmp_path / "ds" / ".bushel").glob("*.safetensors"):
        sidecar.rename(sidecar.with_suffix(".hidden"))
    dataset = bushel.open(tmp_path / "ds")
    assert (len(dataset), dataset.spec) == (9, {"txt": "utf8"})
    for sidecar in (tmp_path / "ds" / ".bushel").glob("*.hidden"):
        sidecar.rename(sidecar.with_suffix(".safetensors"))
    assert dataset[7]["txt"] == "7"
    [file] = (tmp_path / "ds").glob("*3.tar")
    os.utime(file, (1, 1))
    assert dataset[3]["txt"] == "3"
    file.write_bytes(file.read_bytes()[::-1])
    with pytest.raises(bushel.errors.FormatError, match="changed since it was indexed"):
        bushel.open(tmp_path / "ds")[3]


def test_patterns_in_lists_keep_their_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    assert [path.name for path in expand_paths([str(tmp_path / "{b,a}"), tmp_path / "a"])] == ["b", "a", "a"]


def test_files_of_several_kinds_in_one_folder_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(FormatError, match=r"several kinds: npy \(a\.npy\), jsonl \(rows\.jsonl\).*\*\.npy'") as caught:
        bushel.open(tmp_path)
    assert "does not belong" not in str(caught.value)
    assert len(bushel.open(f"{tmp_path}/*.npy")) == 2
    (tmp_path / "rows.jsonl").rename(tmp_path / "weights.pt")
    with pytest.raises(FormatError, match=r"several kinds: npy \(a\.npy\), others \(weights\.pt\)"):
        bushel.open(tmp_path)


def test_files_of_other_kinds_that_are_not_read_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(FOREIGN / "mds-plain", tmp_path / "data")
    bushel.open(tmp_path / "data")
    assert not caplog.records
    (tmp_path / "data/rows.jsonl").write_text('{"a": 1}\n')
    assert bushel.open(tmp_path / "data").info.container == "mds"
    assert "read as mds; other files are not read: rows.jsonl" in caplog.text


def test_metadata_of_photos_are_not_logged_as_unread(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(FOREIGN / "folder/photos/class0", tmp_path / "photos")
    (tmp_path / "photos/metadata.jsonl").write_text('{"file_name": "img 000.jpg", "n": 1}')
    assert bushel.open(tmp_path / "photos").spec == {"image": "jpg", "n": "int"}
    assert "read as folder" not in caplog.text


def test_links_whose_files_have_other_names_are_files_as_others(tmp_path: Path) -> None:
    """So the Hub's cache has them, many in one folder. Nothing of Bushel's is beside those files."""
    for name in ("blob", "a.tar"):
        with bushel.Writer(tmp_path / "files/a.tar", {"label": "int"}, mode="overwrite", sync=False) as writer:
            writer.append({"label": 1}, key="k")
        if name == "blob":
            os.rename(tmp_path / "files/a.tar", tmp_path / "files/blob")
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.tar").symlink_to(tmp_path / "files" / name)
    aliases = [bushel.open(tmp_path / name).shards[0].shard.alias for name in ("blob", "a.tar")]
    assert aliases == [None, tmp_path / "files/a.tar"]
