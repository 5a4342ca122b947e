"""Datasets whose samples belong together, as one view."""

from __future__ import annotations

import json
import logging
import pickle
import random
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._dataset.views.models import CONTAINERS, Sample, expected, make_samples, opened, plain, write
from tests._dataset.views.scattered import scattered
from tests.storage.objects.range_server import serving

import bushel
from bushel._dataset.read.join_match import Names
from bushel._dataset.views.dataset import Dataset
from bushel.errors import CorruptError
from bushel.transforms import RandomResizedCrop

RENAMED = {"label": "label_2", "text": "text_2", "parts": "parts_2"}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Dataset, list[Sample]]]:
    """Datasets of every container, in other orders, with other samples missing, and one whose files are blocks."""
    made = {}
    for number, container in enumerate(CONTAINERS):
        samples = make_samples(container, 30)
        random.Random(number).shuffle(samples)
        own = samples[: 30 - number]
        folder = tmp_path_factory.mktemp(container)
        options = {"shard_samples": 11} if number % 2 else {}
        made[container] = write(folder / "data", container, own, **options), expected(container, own)
    tar, samples = made["tar"]
    made["blocks"] = scattered(tar, tmp_path_factory.mktemp("blocks"), 3), samples
    return made


def joined(first: list[Sample], others: list[tuple[list[Sample], dict[str, str]]], how: str) -> list[Sample]:
    """What a join of samples is."""
    found = []
    for sample in first:
        whole: Sample | None = dict(sample)
        for other, names in others:
            partner = next((one for one in other if one["__key__"] == sample["__key__"]), None)
            if whole is not None and (partner is not None or how == "left"):
                whole |= {names[name]: value for name, value in (partner or {}).items() if name in names}
            elif partner is None:
                whole = None
        if whole is not None:
            found.append(whole)
    return found


@cache
def _third(names: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {old: f"{new[:-1]}3" for old, new in names}


@given(data=st.data())
def test_a_join_is_what_a_join_of_dicts_is(
    datasets: dict[str, tuple[Dataset, list[Sample]]], data: st.DataObject
) -> None:
    def view() -> tuple[Dataset, list[Sample]]:
        dataset, samples = datasets[data.draw(st.sampled_from(sorted(datasets)))]
        if data.draw(st.booleans()):
            places = data.draw(st.lists(st.integers(0, len(samples) - 1), max_size=20))
            return dataset[places], [samples[place] for place in places]
        return dataset, samples

    (first, own), (second, their), (third, last) = view(), view(), view()
    how: Literal["inner", "left"] = data.draw(st.sampled_from(["inner", "left"]))
    names = [RENAMED, _third(tuple(RENAMED.items()))]
    shape = data.draw(st.sampled_from(["two", "three", "nested", "right"]))
    model = joined(own, [(their, names[0]), (last, names[1])][: 1 if shape == "two" else 2], how)
    if shape == "two":
        whole = bushel.join(first, second, how=how, names=names[0])
    elif shape == "three":
        whole = bushel.join([first, second, third], how=how, names=names)
    elif shape == "nested":
        whole = bushel.join(bushel.join(first, second, how=how, names=names[0]), third, how=how, names=names[1])
    else:  # the second of a join is a join, of which only what belongs to the first dataset counts
        inner = bushel.join(second, third, how="left", names={old: f"x{old}" for old in RENAMED})
        renamed = {**names[0], **{f"x{old}": new for old, new in names[1].items()}}
        whole = bushel.join(first, inner, how=how, names=renamed)
        partners = joined(their, [(last, names[1])], "left")
        model = joined(own, [(partners, {**names[0], **{new: new for new in names[1].values()}})], how)
    assert len(whole) == len(model)
    assert [plain(sample) for sample in whole] == [plain(sample) for sample in model]
    assert list(whole.keys) == [sample["__key__"] for sample in model]
    order = data.draw(st.permutations(range(len(model))))[:7]
    assert plain(whole.read(order)) == plain([model[place] for place in order])
    assert plain([whole[place] for place in order]) == plain([model[place] for place in order])
    chosen = data.draw(st.lists(st.sampled_from(sorted(whole.spec)), unique=True))
    shown = [{name: value for name, value in sample.items() if name in (*chosen, "__key__")} for sample in model]
    assert plain(whole[order].select_fields(chosen).read(range(len(order)))) == plain([shown[place] for place in order])
    lengths = whole.lengths(range(len(model)), "label_2")
    assert (lengths >= 0).tolist() == ["label_2" in sample for sample in model]
    copy = pickle.loads(pickle.dumps(whole))
    assert copy.fingerprint == whole.fingerprint
    assert plain(list(copy)) == plain(model)
    both = bushel.concat([whole, first, whole[:3]])
    assert plain(list(both)) == plain([*model, *own, *model[:3]])
    if both.spec.get("label_2") and len(both):
        assert both.column("label_2.bytes").tolist() == [
            None if size < 0 else size for size in both.lengths(range(len(both)), "label_2").tolist()
        ]


PHOTO = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)


def photos(path: Path, count: int = 12, **options: Any) -> Dataset:
    with bushel.Writer(path, {"image": "jpg", "label": "int"}, **{"container": "tar", **options}) as writer:
        for number in range(count):
            writer.append({"image": np.roll(PHOTO, number, 1), "label": number}, key=f"cat/{number}")
    return bushel.open(path)


def lines(path: Path, rows: list[dict[str, Any]]) -> Dataset:
    path.write_text("\n".join(map(json.dumps, rows)))
    return bushel.open(path)


@pytest.mark.parametrize("written", ["cat/{}", "cat/{}.jpg", "./cat/{}.JPG", "./cat/{}"])
@pytest.mark.parametrize("where", ["tar", "zip", "folder", "ffrecord"])
def test_lines_name_files_of_tars_zips_and_folders(tmp_path: Path, where: str, written: str) -> None:
    dataset = photos(tmp_path / "photos.tar", seek=False)
    stored = {
        dataset.keys[place]: bytes(one["image"]) for place, one in enumerate(dataset.read(range(12), decode=False))
    }
    if where == "ffrecord":  # whose keys have the ends of names
        bushel.pack(
            {"data": list(stored.values()), "__key__": [f"{key}.jpg" for key in stored]},
            tmp_path / "records",
            container="ffrecord",
        )
        dataset = bushel.open(tmp_path / "records")
    elif where != "tar":
        import zipfile

        (tmp_path / "photos/cat").mkdir(parents=True)
        (tmp_path / "photos/notes").mkdir()
        for key, image in stored.items():
            (tmp_path / f"photos/{key}.jpg").write_bytes(image)
        (tmp_path / "photos/notes/1.txt").write_text("a note")
        if where == "zip":
            with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
                for key, image in stored.items():
                    archive.writestr(f"{key}.jpg", image)
        dataset = bushel.open(tmp_path / ("photos.zip" if where == "zip" else "photos"))
    if where == "ffrecord":
        written = written.replace("JPG", "jpg")  # a key with another suffix is another key
    rows = [{"image": written.format(number), "caption": f"cat {number}"} for number in (3, 1, 3, 99)]
    both = bushel.join(lines(tmp_path / "captions.jsonl", rows), dataset, on="image")
    [name] = [name for name, kind in both.spec.items() if kind in ("jpg", "bytes")]
    assert [bytes(one[name]) for one in both.select_fields([name]).read(range(3), decode=False)] == [
        stored[f"cat/{number}"] for number in (3, 1, 3)
    ]
    assert [one["caption"] for one in both] == ["cat 3", "cat 1", "cat 3"]
    [found] = both.info.joins
    assert (found.on, found.how, found.matched, found.lone[0]) == ("image", "inner", 3, 1)
    assert found.examples[0] == (written.format(99),)


@pytest.mark.parametrize(
    ("name", "key", "is_partner"),
    [
        *(("a.jpg", "a", True), ("a", "a.jpg", True), ("./a.JPG", "a", True), ("./a.b", "a.b", True)),
        *(("x/a.seg.png", "x/a.seg", True), ("v1.2.jpg", "v1.2", True), ("a.b", "a.b.json", True)),
        *(("a.b", "a.c", False), ("a.b", "a", False), ("a", "a.b", False), ("a.png", "a.jpg", False)),
        *(("a.seg.png", "a", False), ("a", "a.seg.png", False), ("v1.2.jpg", "v1", False), ("v1.2", "v1.3", False)),
        *((".jpg", "", False), ("x/.jpg", "x/", False), ("a.jpg", "x/a", False), ("a.jpg/b", "a", False)),
    ],
)
def test_only_the_last_suffix_of_a_file_is_left_out(tmp_path: Path, name: str, key: str, is_partner: bool) -> None:
    bushel.pack({"n": [7, 8], "__key__": [key or "empty", "else"]}, tmp_path / "keys", container="recordio")
    named = lines(tmp_path / "names.jsonl", [{"file": name}, {"file": "else"}])
    for both in (
        bushel.join(named, bushel.open(tmp_path / "keys"), on="file", how="left"),
        bushel.join(bushel.open(tmp_path / "keys"), named, on="file", how="left"),
    ):
        partners = [("n" in sample and "file" in sample) for sample in both]
        assert partners == [is_partner, True]


def test_equal_names_come_before_stems(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a", {"text": "utf8"}, container="bag") as writer:
        for key in ("x/a.png", "x/a.jpg", "b", "c.d"):
            writer.append({"text": key}, key=key)
    dataset = bushel.open(tmp_path / "a")
    named = lines(tmp_path / "named.jsonl", [{"file": each} for each in ("x/a.jpg", "b.txt", "./c.d", "c.d", "c")])
    both = bushel.join(named, dataset, on="file", how="left")
    assert [sample.get("text") for sample in both] == ["x/a.jpg", "b", "c.d", "c.d", None]
    doubtful = lines(tmp_path / "doubtful.jsonl", [{"file": "b"}, {"file": "x/a"}])
    with pytest.raises(ValueError, match=r"'x/a' may name two samples, 'x/a.png' and 'x/a.jpg', at positions 0 and 1"):
        bushel.join(doubtful, dataset, on="file")


def test_no_further_forms_of_names_are_compared_once_all_have_a_match(tmp_path: Path, monkeypatch: Any) -> None:
    with bushel.Writer(tmp_path / "a", {"text": "utf8"}, container="bag") as writer:
        for key in ("a.jpg", "b"):
            writer.append({"text": key}, key=key)
    forms: list[str] = []
    hashes = Names.hashes

    def noted(self: Names, form: Any) -> Any:
        forms.append(form)
        return hashes(self, form)

    monkeypatch.setattr(Names, "hashes", noted)
    named = lines(tmp_path / "named.jsonl", [{"file": each} for each in ("a.jpg", "./b")])
    assert len(bushel.join(named[:1], bushel.open(tmp_path / "a"), on="file")) == 1
    assert forms == ["whole"] * 2
    assert len(bushel.join(named, bushel.open(tmp_path / "a"), on="file")) == 2
    assert forms[2:] == ["whole"] * 2 + ["path"] * 2


def test_fields_name_partners_on_both_sides(tmp_path: Path) -> None:
    dataset = photos(tmp_path / "photos.tar")
    people = lines(tmp_path / "people.jsonl", [{"id": 7, "name": "Ada"}, {"id": 5, "name": "Bo"}, {"name": "No"}])
    trips = lines(
        tmp_path / "trips.jsonl", [{"id": each, "photo": f"cat/{each}.jpg", "key": str(each)} for each in (5, 5, 9)]
    )
    assert [sample["name"] for sample in bushel.join(trips, people, on="id")] == ["Bo", "Bo"]
    assert bushel.join(trips, people, on="id").spec == {"id": "int", "photo": "utf8", "key": "utf8", "name": "utf8"}
    assert [sample["label"] for sample in bushel.join(trips, dataset, on="photo")] == [5, 5, 9]
    three = bushel.join(trips, dataset, people.select_fields(["name"])[:0], on="photo", how="left")
    assert [sample["label"] for sample in three] == [5, 5, 9]
    pair = ("label", "id")
    pairs: list[Any] = [pair, list(pair), np.array(pair), iter(pair), dict.fromkeys(pair)]
    for on in pairs:
        assert [sample["name"] for sample in bushel.join(dataset, people, on=on)] == ["Bo", "Ada"]
    assert bushel.join(dataset, trips[1:], on="photo").keys[:] == ["cat/5", "cat/9"]
    assert bushel.join(dataset, trips[1:], on="photo").info.joins[0].on == "photo"
    # a dataset without keys: its field `key`, or its positions
    with bushel.Writer(tmp_path / "b", {"x": "int"}, container="bag") as writer:
        for number in range(8):
            writer.append({"x": number}, key=str(number))
    assert [sample["x"] for sample in bushel.join(trips[1:], bushel.open(tmp_path / "b"))] == [5]
    assert [sample["photo"] for sample in bushel.join(bushel.open(tmp_path / "b"), trips[1:])] == ["cat/5.jpg"]
    both = bushel.join(people, trips.select_fields(["photo"]), on="__key__")
    assert [(sample["name"], sample["photo"]) for sample in both] == [
        ("Ada", "cat/5.jpg"),
        ("Bo", "cat/5.jpg"),
        ("No", "cat/9.jpg"),
    ]


def test_repeated_names_are_refused(tmp_path: Path) -> None:
    for name, keys in (("a", "abc"), ("b", "b")):
        with bushel.Writer(tmp_path / name, {"x": "int"}, container="recordio") as writer:
            for number, key in enumerate(keys):
                writer.append({"x": number}, key=key)
    repeated = bushel.concat([bushel.open(tmp_path / "a"), bushel.open(tmp_path / "b")])
    once = repeated[:3].select_fields([])
    message = r"two samples have the key 'b', at positions 1 and 3: a join needs one match for each sample"
    with pytest.raises(ValueError, match=message):
        bushel.join(once, repeated)
    with pytest.raises(ValueError, match=message):
        bushel.join(repeated, once)
    with pytest.raises(ValueError, match="at positions 0 and 1"):
        bushel.join(once, repeated[[3, 1]])
    assert [sample["x"] for sample in bushel.join(once, repeated[[2, 1, 1]])] == [1, 2]  # twice the same sample
    named = lines(tmp_path / "n.jsonl", [{"of": "a"}, {"of": "b"}, {"of": "a"}])
    with pytest.raises(ValueError, match=r"have of == 'a', at positions 0 and 2.*Give this dataset first"):
        bushel.join(repeated, named, on="of")
    assert [sample["x"] for sample in bushel.join(named[::2], repeated[:3], on="of")] == [0, 0]


def test_wrong_arguments(tmp_path: Path) -> None:
    dataset = photos(tmp_path / "photos.tar")
    other = lines(tmp_path / "n.jsonl", [{"image": "cat/1", "score": 0.5, "tags": {"a": 1}}])
    with pytest.raises(ValueError, match=r"two datasets have a field 'image': .*names=\{'image': 'image_2'\}"):
        bushel.join(dataset, dataset)
    with pytest.raises(KeyError, match="on='imagee' is not a field .* did you mean 'image'"):
        bushel.join(other, dataset, on="imagee")
    with pytest.raises(KeyError, match="on='score' .* `bushel index --columns` adds columns, such as meta.id"):
        bushel.join(other, dataset, on="score")
    with pytest.raises(KeyError, match="names= has 'x'"):
        bushel.join(dataset, other, names={"x": "y"})
    with pytest.raises(ValueError, match="names= has 2 mappings for 1"):
        bushel.join(dataset, other, names=[{}, {}])
    with pytest.raises(ValueError, match='expected "inner" or "left"'):
        bushel.join(dataset, other, how="outer")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"not str: open paths with bushel.open"):
        bushel.join(dataset, "captions.jsonl")  # type: ignore[arg-type]
    for on in (("a", "b", "c"), None, 3, ("image", 3), b"ab"):
        with pytest.raises(TypeError, match="expected the name of a field, or a pair"):
            bushel.join(dataset, other, on=on)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one"):
        bushel.join([])
    with pytest.raises(TypeError, match="field 'tags' holds"):
        bushel.join(other, dataset.select_fields(["label"]), on="tags")
    assert bushel.join(dataset).read([0], ["label"]) == dataset.read([0], ["label"])


def test_misses_are_counted_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dataset = photos(tmp_path / "photos.tar")
    with caplog.at_level(logging.INFO, logger="bushel"):
        both = bushel.join(dataset[2:].select_fields(["image"]), dataset[:7].select_fields(["label"]), how="left")
    misses = (
        "joined by key: no match for 5 of the first dataset ('cat/7', 'cat/8', 'cat/9', …) and 2 of the second "
        "dataset ('cat/0', 'cat/1')"
    )
    assert f"{misses}; 5 samples have one" in caplog.text
    assert misses in repr(both)
    assert misses in repr(both.info)
    assert (len(both), both.info.samples) == (10, 12)
    caplog.clear()
    nothing = bushel.join(dataset.select_fields(["image"]), lines(tmp_path / "n.jsonl", [{"key": "dog"}]))
    assert (len(nothing), [record.levelname for record in caplog.records]) == (0, ["WARNING"])
    assert list(nothing) == []
    assert nothing.column("image.width").tolist() == []
    complete = bushel.join(dataset.select_fields(["image"]), dataset.select_fields(["label"]))
    assert ";" not in repr(complete).rpartition("label: int")[2]
    assert "joined by key" in repr(complete.info)


def captioned(folder: Path) -> Dataset:
    """Three captions for each of eight photos of twelve, which are in three shards."""
    dataset = photos(folder / "photos", shard_samples=5, seek=True)
    rows = [{"image": f"cat/{number % 8}.jpg", "n": number, "text": f"caption {number}"} for number in range(24)]
    return bushel.join(lines(folder / "captions.jsonl", rows), dataset, on="image")


def test_a_join_is_a_view_like_others(tmp_path: Path) -> None:
    both = captioned(tmp_path)
    assert both.columns == ("n", "image.width", "image.height", "label")
    assert both.column("label").tolist() == [number % 8 for number in range(24)]
    assert both.column("text.bytes").tolist() == [len(f"caption {number}") for number in range(24)]
    assert [sample["n"] for sample in both.where("label == 3 and n > 3")] == [11, 19]
    assert both.location(9, "image")[0].endswith(".tar")
    assert both.location(9, "text")[0].endswith(".jsonl")
    assert both.available(9) == {"n": True, "text": True, "image": True, "label": True}
    assert (both.read_crop(9, "image", (3, 4, 40, 30)) == both[9]["image"][4:30, 3:40]).all()
    assert both.gather([9, 1], "label")[0].tobytes() == b"11"
    assert [sample["label"] for sample in both.filter(lambda sample: sample["label"] > 5, ["label"])] == [6, 7] * 3
    assert both.remote is False
    assert both.size == sum(shard.stamps[0].size for shard in both.shards)
    other = bushel.join(both.select_fields(["text"])[5:], both.select_fields(["n"])[:9])
    assert [sample["n"] for sample in other] == [5, 6, 7, 8]
    assert other.fingerprint != bushel.join(both.select_fields(["text"])[5:], both.select_fields(["n"])[:8]).fingerprint
    both.close()
    assert both[3]["n"] == 3


@pytest.mark.parametrize("processes", [0, 2])
def test_a_loader_resumes_in_an_epoch_of_a_join(tmp_path: Path, processes: int) -> None:
    both = captioned(tmp_path)

    def loader() -> bushel.Loader:
        crop = {"image": [RandomResizedCrop(16)]}
        return bushel.Loader(both, 5, shuffle=True, seed=3, transforms=crop, processes=processes)

    whole = list(loader())
    assert sorted(np.concatenate([batch["n"] for batch in whole]).tolist()) == list(range(24))
    for batch in whole:
        assert batch["label"].tolist() == [number % 8 for number in batch["n"]]
        assert batch["text"] == [f"caption {number}" for number in batch["n"]]
        assert batch["image"].shape[1:] == (16, 16, 3)
    half = loader()
    for _, _ in zip(range(2), half, strict=False):
        pass
    again = loader()
    again.load_state_dict(half.state_dict())
    for batch, same in zip(again, whole[2:], strict=True):
        assert batch["n"].tolist() == same["n"].tolist()
        assert (batch["image"] == same["image"]).all()
    other = bushel.Loader(both[:20], 5, shuffle=True, seed=3)
    with pytest.raises(bushel.errors.StateError):
        other.load_state_dict(half.state_dict())


def test_crops_and_numbers_are_those_of_packed_data(tmp_path: Path) -> None:
    both = captioned(tmp_path)
    bushel.convert(both, tmp_path / "packed", container="bag")
    packed = bushel.open(tmp_path / "packed")
    assert bushel.diff(both, packed, values=True).same
    found = bushel.diff(both, packed.where("n != 7"))
    assert found.removed.tolist() == ([7] if found.by == "key" else [23])
    for fields in (None, ["label", "n"]):
        loaders = [
            bushel.Loader(
                each,
                4,
                shuffle=True,
                fields=fields,
                transforms={"image": RandomResizedCrop(20)} if fields is None else None,
            )
            for each in (both, packed)
        ]
        for batch, same in zip(*loaders, strict=True):
            for name in batch:
                assert plain(batch[name]) == plain(same[name]) or name == "__key__"


def test_damage_is_found_in_the_file_of_the_partner(tmp_path: Path) -> None:
    dataset = photos(tmp_path / "photos", shard_samples=5)
    rows = [{"image": f"cat/{number}", "n": number} for number in range(12)]
    path, offset = dataset.location(7, "image")
    data = bytearray(Path(path).read_bytes())
    data[offset + 300] ^= 255
    stamp = Path(path).stat()
    Path(path).write_bytes(data)
    import os

    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    both = bushel.join(lines(tmp_path / "n.jsonl", rows), opened(tmp_path / "photos"), on="image")
    with pytest.raises(CorruptError) as raised:
        both.read(range(12))
    assert (raised.value.details["file"], raised.value.details["offset"], raised.value.details["key"]) == (
        path,
        offset,
        "7",
    )
    with pytest.raises(CorruptError):
        _ = both[7]
    assert both[6]["n"] == 6


def test_partners_on_a_server(tmp_path: Path) -> None:
    photos(tmp_path / "served/photos", shard_samples=5)
    rows = [{"image": f"cat/{11 - number}.jpg", "n": number} for number in range(12)]
    local = lines(tmp_path / "captions.jsonl", rows)
    with serving(tmp_path / "served") as server:
        both = bushel.join(local, bushel.open(f"{server.url}/photos"), on="image")
        assert both.remote
        assert [sample["label"] for sample in both] == list(range(11, -1, -1))
        batches = list(bushel.Loader(both, 4, shuffle=True))
        assert sorted(np.concatenate([batch["n"] for batch in batches]).tolist()) == list(range(12))
        assert all((batch["label"] == 11 - batch["n"]).all() for batch in batches)


def test_arrow(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    both = captioned(tmp_path)[4:]
    table = both.to_arrow()
    assert table["n"].to_pylist() == list(range(4, 24))
    assert table["label"].to_pylist() == [number % 8 for number in range(4, 24)]
    for place, found in enumerate(table["image"].to_pylist()):
        assert (found["file"], found["offset"]) == both.location(place, "image")


def test_numbers_of_each_dataset_are_gathered(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for number, folder in enumerate(folders):
        spec = {f"label{number}": "int", f"vector{number}": "array(float32,4)", f"ids{number}": "array(int64,-1)"}
        with bushel.Writer(
            folder, spec, container="tar", shard_samples=9, columns=["none"] if number else None
        ) as writer:
            for row in random.Random(number).sample(range(30), 30):
                values = (row, np.full(4, row, np.float32), np.arange(row))
                writer.append(dict(zip(spec, values, strict=True)), key=str(row))
    both = bushel.join(*map(bushel.open, folders))
    found = []
    for batch in bushel.Loader(
        both, 7, shuffle=True, collate={"ids1": bushel.loader.Padded(), "ids2": bushel.loader.Ragged()}
    ):
        rows = [int(key) for key in batch["__key__"]]
        found += rows
        for number in range(3):
            assert batch[f"label{number}"].tolist() == rows
            assert (batch[f"vector{number}"] == np.array(rows)[:, None]).all()
        assert batch["ids1"].shape == (len(rows), max(rows))
        assert np.diff(batch["ids2"]["offsets"]).tolist() == rows
    assert sorted(found) == list(range(30))
    bushel.index(folders[1], columns=["ids1.length"])  # the lengths of .npy files follow from no size
    both = bushel.join(*map(bushel.open, folders))
    packed = bushel.Loader(both, 2, pack_by="ids1.length", pack_tokens=64, fields=["ids1", "ids2", "label0"])
    assert sum(len(keys) for batch in packed for keys in batch["__key__"]) == 30
    few = bushel.join(bushel.open(folders[0]), bushel.open(folders[1])[:20], how="left")
    lacking = bushel.Loader(few[few.lengths(range(30), "label1") < 0], 7, fields=["label0", "vector0"])
    assert sum(len(batch["label0"]) for batch in lacking) == 10
    with pytest.raises((bushel.BushelError, ValueError, KeyError)):
        list(bushel.Loader(few, 30, fields=["label0", "vector1"]))
