"""Datasets of the Hugging Face Hub by configuration and split, from servers that answer as it does."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.containers.read_in_place import FOREIGN
from tests.containers.zip_archives import written
from tests.storage.objects.datasets import write
from tests.storage.objects.hub_server import COMMIT, Hub, hub_for

import bushel
from bushel.errors import FormatError, SpecError
from bushel.storage.objects import hub as hub_files

URL = "hf://datasets/org/photos"
PARQUET = FOREIGN / "hf-parquet/data/train-00000-of-00001.parquet"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    yield from hub_for(tmp_path, monkeypatch)


def _put(hub: Hub, *names: str, source: Path = PARQUET) -> None:
    for name in names:
        (hub.folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, hub.folder / name)


def _card(hub: Hub, text: str) -> None:
    (hub.folder / "README.md").write_text(f"---\n{text}\n---\n# Photos\n")


def test_one_split_needs_no_name(hub: Hub) -> None:
    _put(hub, "data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet")
    (hub.folder / "README.md").write_text("# Photos\n")
    ds = bushel.open(URL)
    footers = [path for method, path in hub.asked if method == "GET" and "/resolve/" in path]
    assert sum(path.endswith(".parquet") for path in footers) == 2  # one request a file
    assert not [path for method, path in hub.asked if method == "HEAD"]
    assert (len(ds), ds.spec["image"], ds.labels["label"][0]) == (48, "image", "class a")
    local = bushel.open(PARQUET, index="memory")
    assert bytes(ds.read([30], decode=False)[0]["image"]) == bytes(local.read([6], decode=False)[0]["image"])
    assert ds.location(0, "image")[0] == f"{URL}@{COMMIT}/data/train-00000-of-00002.parquet"
    assert bushel.open(f"{URL}/", split="train").fingerprint == ds.fingerprint


def test_several_splits_are_named_in_errors(hub: Hub) -> None:
    _put(hub, "data/train-00000-of-00001.parquet", "data/validation-00000-of-00001.parquet")
    with pytest.raises(SpecError, match="several splits: train, validation. Name one: split='train'"):
        bushel.open(URL)
    with pytest.raises(SpecError, match=r"no split 'valdation'.*it has train, validation; did you mean 'validation'"):
        bushel.open(URL, split="valdation")
    assert len(bushel.open(URL, split="valid")) == len(bushel.open(URL, split="validation"))
    assert len(bushel.open(URL, split="validation")) == 24


def test_configurations_of_the_readme(hub: Hub) -> None:
    pytest.importorskip("yaml")
    _put(hub, "en/a.parquet", "en/b.parquet", "de/a.parquet")
    _card(
        hub,
        "license: mit\nconfigs:\n- config_name: english\n  data_files:\n  - split: train\n    path: en/a.parquet\n"
        '  - split: test\n    path: "en/b*.parquet"\n- config_name: german\n  data_dir: de',
    )
    with pytest.raises(SpecError, match="several configurations: english, german. Name one: config='english'"):
        bushel.open(URL)
    with pytest.raises(SpecError, match="no configuration 'germn'.*did you mean 'german'"):
        bushel.open(URL, config="germn")
    assert len(bushel.open(URL, config="german")) == 24
    test = bushel.open(URL, config="english", split="test")
    assert test.location(0, "image")[0].endswith("en/b.parquet")
    copy = bushel.open(hub.folder, config="english", split="test", index="memory")  # a local copy
    assert [bytes(each["image"]) for each in copy.read([3], decode=False)] == [
        bytes(each["image"]) for each in test.read([3], decode=False)
    ]
    assert copy.fingerprint != test.fingerprint  # the commit is pinned
    _card(hub, "configs: [")
    hub_files._listings.clear()
    with pytest.raises(FormatError, match="front matter is not YAML"):
        bushel.open(hub.folder, split="train")


def test_tars_zips_and_folders(hub: Hub) -> None:
    write(hub.folder / "train", "tar", None, shard_samples=15)
    shutil.rmtree(hub.folder / "train/.bushel")
    _put(
        hub,
        "test/a.zip",
        source=FOREIGN / "zip-stored" / next(each.name for each in (FOREIGN / "zip-stored").glob("*.zip")),
    )
    assert len(bushel.open(URL, split="train")) == 40
    assert bushel.open(URL, split="test").info.container == "zip"


@pytest.mark.parametrize(
    "names",
    [
        ("train.zip", "test.zip"),
        ("data/train.zip", "data/test.zip"),
        ("train/photos-000.zip", "train/photos-001.zip", "test/photos.zip"),
        ("data/train-00000-of-00002.zip", "data/train-00001-of-00002.zip", "data/test-00000-of-00001.zip"),
    ],
)
def test_splits_of_zips(hub: Hub, names: tuple[str, ...]) -> None:
    for number, name in enumerate(names):
        (hub.folder / name).parent.mkdir(parents=True, exist_ok=True)
        written(hub.folder / name, {f"{kind}/{number}.txt": name.encode() for kind in ("cat", "dog")})
    for split in ("train", "test"):
        own = [name for name in names if split in name]
        for root in (URL, hub.folder):
            dataset = bushel.open(root, split=split)
            assert [sample["txt"] for sample in dataset] == [name for name in own for _ in range(2)]
            assert dataset.info.container == "zip"
            assert list(dataset.keys) == [f"{kind}/{names.index(name)}" for name in own for kind in ("cat", "dog")]


def test_folders_of_photos(hub: Hub) -> None:
    shutil.copytree(FOREIGN / "folder/photos", hub.folder / "photos/train")
    shutil.copytree(FOREIGN / "folder/photos/class1", hub.folder / "photos/test/class1")
    train = bushel.open(URL, split="train")
    assert (len(train), len(train.labels["label"])) == (24, 7)
    assert train[0]["image"].ndim == 3
    assert len(bushel.open(URL, split="test")) == 5


def test_lists_named_json(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text('[{"a": 1}, {"a": 2}]')
    (tmp_path / "test.json").write_text('{"a": 3}\n{"a": 4}\n')
    (tmp_path / "dataset_infos.json").write_text("{}")
    assert [sample["a"] for sample in bushel.open(tmp_path, split="train")] == [1, 2]
    assert [sample["a"] for sample in bushel.open(tmp_path, split="test")] == [3, 4]


def test_nothing_to_read(hub: Hub) -> None:
    (hub.folder / "notes.xyz").write_text("no data")
    with pytest.raises(FormatError, match="no container reads the 1 files of the split"):
        bushel.open(URL)
    with pytest.raises(FileNotFoundError, match="no such dataset"):
        bushel.open("hf://datasets/org/other")
    with pytest.raises(TypeError, match="for one dataset"):
        bushel.open([URL], split="train")


def test_private_datasets_need_a_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    _put(hub, "data/train-00000-of-00001.parquet")
    hub.token = "secret"
    with pytest.raises(PermissionError, match="private, gated or misspelt; the token comes from HF_TOKEN"):
        bushel.open(URL)
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert len(bushel.open(URL)) == 24
    assert not hub.leaked


def test_what_was_packed_is_opened_whole(hub: Hub) -> None:
    write(hub.folder, "tar", None, shard_samples=15)
    assert len(bushel.open(URL)) == 40
    assert bushel.open(URL).info.indexed


def test_a_folder_of_splits_names_them(tmp_path: Path) -> None:
    for name in ("data/test", "data/train"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(SpecError, match=r"has several splits: train, test. Name one: split='train', or join them"):
        bushel.open(tmp_path)
    bushel.open(tmp_path / "data", split="train")  # leaves its table in the folder
    assert (tmp_path / "data/train/.bushel").is_dir()
    with pytest.raises(SpecError, match="has several splits: train, test"):
        bushel.open(tmp_path / "data")
    pytest.importorskip("yaml")
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- {config_name: a, data_dir: data}\n- {config_name: b, data_dir: c}\n---\n"
    )
    with pytest.raises(FormatError, match=r"it has the configurations a, b: .*config='a', split='train'\) reads one"):
        bushel.open(tmp_path)
    with pytest.raises(FormatError, match="does not belong to any container"):
        bushel.open(tmp_path / "README.md")


def test_options_of_a_configuration_are_not_applied_silently(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "a.csv").write_text("1;x\n2;y\n")
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files: a.csv\n  sep: ';'\n  names: [id, text]\n---\n"
    )
    bushel.open(tmp_path, split="train", index="memory")
    assert "gives configuration 'default' the options names, which are not applied" in caplog.text
    found = bushel.open(tmp_path, split="train", index="memory", spec={"id": "int", "text": "utf8"})
    assert [sample["text"] for sample in found] == ["x", "y"]


def test_samples_in_a_field_of_an_object(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "a.json").write_text('{"data": [{"x": 1}]}')
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files: a.json\n  field: data\n---\n"
    )
    with pytest.raises(bushel.errors.UnsupportedError, match=r"configuration 'default' .* \(field:\), .* jq -c"):
        bushel.open(tmp_path, split="train")
