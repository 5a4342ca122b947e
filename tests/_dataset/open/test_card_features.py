"""Names of classes and types that a repository of the Hub gives in README.md or dataset_info.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.containers.read_in_place import FOREIGN
from tests.storage.objects.hub_server import Hub, hub_for

import bushel
from bushel._dataset.open.data_files import features_of_card, features_of_info
from bushel.containers.features import Feature
from bushel.errors import FormatError

URL = "hf://datasets/org/photos"
CARD = """---
dataset_info:
- config_name: other
  features:
  - name: label
    dtype:
      class_label:
        names:
          '0': never
- config_name: default
  features:
  - name: text
    dtype: string
  - name: photos
    list: image
  - name: label
    dtype:
      class_label:
        names:
          '1': good
          '0': bad
---
# Reviews
"""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    yield from hub_for(tmp_path, monkeypatch)


def reviews(folder: Path, kind: str) -> None:
    rows = [{"text": f"review {number}", "label": number % 2} for number in range(6)]
    lines = [json.dumps(row) for row in rows]
    if kind == "csv":
        lines = ["text,label", *(f"{row['text']},{row['label']}" for row in rows)]
    (folder / f"train.{kind}").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_the_readme_names_classes(hub: Hub, kind: str) -> None:
    pytest.importorskip("yaml")
    reviews(hub.folder, kind)
    (hub.folder / "README.md").write_text(CARD)
    for dataset in (bushel.open(URL), bushel.open(hub.folder, split="train", index="memory")):
        assert dataset.labels == {"label": ("bad", "good")}
        assert len(dataset.where("label == 'good'")) == 3
        assert dataset.select_fields(["text"]).labels == {}


def test_dataset_info_names_classes(tmp_path: Path) -> None:
    reviews(tmp_path, "jsonl")
    info = {"features": {"label": {"_type": "ClassLabel", "names": ["bad", "good"]}, "gone": {"_type": "Image"}}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    bushel.index(tmp_path / "train.jsonl")
    dataset = bushel.open(tmp_path, split="train")
    assert (dataset.labels, dataset[1]["label"]) == ({"label": ("bad", "good")}, 1)
    assert bushel.open(tmp_path / "train.jsonl").labels == {}
    (tmp_path / "dataset_info.json").write_text('{"features": 3}')
    with pytest.raises(FormatError, match=r"dataset_info\.json: `features` is not a mapping"):
        bushel.open(tmp_path, split="train")


def test_images_that_no_footer_tells(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    photo = next((FOREIGN / "folder/photos").rglob("*.jpg")).read_bytes()
    table = pa.table({"photo": pa.array([b"\0" * 20, photo], pa.binary()), "label": [0, 1]})
    parquet.write_table(table, tmp_path / "train.parquet")
    assert bushel.open(tmp_path, split="train", index="memory").spec["photo"] == "bytes"
    info = {"features": {"photo": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    dataset = bushel.open(tmp_path, split="train", index="memory")
    assert (dataset.spec["photo"], dataset.labels) == ("image", {"label": ("cat", "dog")})
    assert dataset[1]["photo"].ndim == 3
    own = bushel.open(tmp_path, split="train", index="memory", spec={"photo": "bytes"})
    assert own.spec["photo"] == "bytes"  # what the caller says


def test_lists_of_classes_have_names(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name, names in (("a", ["cat", "dog"]), ("b", ["dog", "cat", "cow"])):
        feature = {"_type": "List", "feature": {"_type": "ClassLabel", "names": names}}
        info = json.dumps({"info": {"features": {"kinds": feature}}})
        table = pa.table({"kinds": pa.array([[0, 1], [1]], pa.list_(pa.int64()))})
        parquet.write_table(table.replace_schema_metadata({"huggingface": info}), tmp_path / f"{name}.parquet")
    first = bushel.open(tmp_path / "a.parquet", index="memory")
    assert (first.labels, first[0]["kinds"].tolist()) == ({"kinds": ("cat", "dog")}, [0, 1])
    bushel.convert(tmp_path / "a.parquet", tmp_path / "a.tar", sync=False)
    assert bushel.open(tmp_path / "a.tar").labels == first.labels
    second = bushel.open(tmp_path / "b.parquet", index="memory")
    with pytest.raises(bushel.errors.SpecError, match="class 0 is 'cat' .* and 'dog'"):
        bushel.concat([first, second])
    bushel.merge([tmp_path / "a.parquet", tmp_path / "b.parquet"], tmp_path / "both.tar", sync=False)
    both = bushel.open(tmp_path / "both.tar")
    assert both.labels == {"kinds": ("cat", "dog", "cow")}
    assert [sample["kinds"].tolist() for sample in both] == [[0, 1], [1], [1, 0], [0]]


def test_what_a_card_says() -> None:
    yaml = pytest.importorskip("yaml")
    card = yaml.safe_load(CARD.split("---")[1])
    assert features_of_card(card, "default") == {
        "text": Feature(),
        "photos": Feature("image"),
        "label": Feature(names=("bad", "good")),
    }
    assert features_of_card(card, "third") == {}
    assert features_of_card({"dataset_info": {"features": [{"name": "x", "sequence": "int32"}]}}, "any") == {
        "x": Feature()
    }
    assert (features_of_card(None, "x"), features_of_info([]), features_of_info({})) == ({}, {}, {})


@pytest.mark.parametrize(
    "features", ["text", [3], [{"name": "x", "dtype": {"class_label": {"names": {"0": "a", "2": "b"}}}}]]
)
def test_a_damaged_card(features: object) -> None:
    with pytest.raises(ValueError, match=r"is not a list of fields|not numbered from 0"):
        features_of_card({"dataset_info": {"features": features}}, "default")
