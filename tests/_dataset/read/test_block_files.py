"""A dataset whose values are scattered over block files of every filter gives what the plain one gives, everywhere."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests._dataset.views.models import CONTAINERS, plain
from tests._dataset.views.scattered import scattered

import bushel
from bushel._dataset.open.binding import with_checksums
from bushel._dataset.views.dataset import Dataset
from bushel._index.saving import save_index
from bushel._index.sidecar import load_index
from bushel._index.table import opener
from bushel.errors import CorruptError
from bushel.storage import IN_TABLE
from bushel.testing.readable import flip
from bushel.transforms import RandomResizedCrop

COUNT = 24


@pytest.fixture(params=CONTAINERS)
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Dataset, Dataset]:
    rng = np.random.default_rng(3)
    spec = {"image": "jpg"} if request.param == "gulp" else {"image": "jpg", "label": "int", "numbers": "array"}
    spec = {**spec, "meta": "json"} if request.param == "gulp" else {**spec, "words": "utf8[]"}
    with bushel.Writer(tmp_path / "plain", spec, container=request.param, shard_samples=16) as writer:
        for number in range(COUNT):
            sample: dict[str, Any] = {"image": rng.integers(0, 255, (32, 48, 3)).astype(np.uint8)}
            if request.param == "gulp":
                sample["meta"] = {"label": number}
            else:
                sample |= {"label": number, "numbers": rng.random(5).astype(np.float32)}
                sample["words"] = [f"word {each}" for each in range(number % 4)]
            writer.append(sample, key=f"k{number:02}")
    dataset = bushel.index(tmp_path / "plain", seek=True, columns=())
    return dataset, scattered(dataset, tmp_path / "scattered", seed=len(request.param))


def test_every_way_of_reading(both: tuple[Dataset, Dataset]) -> None:
    expected, found = both
    order = np.random.default_rng(1).permutation(COUNT).tolist()
    assert found.keys[:] == expected.keys[:]
    for position in order[:8]:
        assert plain(found[position]) == plain(expected[position])
        assert plain(found[position, ["image"]]) == plain(expected[position, ["image"]])
    for decode in (True, False):
        assert plain(found.read(order, decode=decode)) == plain(expected.read(order, decode=decode))
    found.prefetch(order)
    for name, kind in expected.spec.items():
        if not kind.endswith("[]"):
            data, offsets = found.gather(order, name)
            theirs, their_offsets = expected.gather(order, name)
            np.testing.assert_array_equal(offsets, their_offsets)
            np.testing.assert_array_equal(data, theirs)
    if "words" in expected.spec:
        wanted = {"words": slice(1, 3)}
        assert plain(found[3, wanted]) == plain(expected[3, wanted])
    box = (5, 7, 30, 20)
    np.testing.assert_array_equal(found.read_crop(4, "image", box), expected.read_crop(4, "image", box))
    assert plain(pickle.loads(pickle.dumps(found))[order[0]]) == plain(expected[order[0]])
    assert found.location(2, "image")[0].startswith(str(found.shards[0].shard.root))


@pytest.mark.parametrize("processes", [0, 1])
def test_the_loader(both: tuple[Dataset, Dataset], processes: int) -> None:
    batches = []
    for dataset in both:
        fields = [name for name in dataset.spec if name not in ("words", "meta")]
        loader = bushel.Loader(
            dataset,
            8,
            fields=fields,
            shuffle=True,
            seed=2,
            transforms={"image": [RandomResizedCrop(16)]},
            threads=2,
            processes=processes,
        )
        batches.append([plain(batch) for batch in loader])
    assert batches[0] == batches[1]


def test_checksums_columns_and_the_sidecar(both: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    expected, found = both
    for theirs, ours in zip(expected.shards, found.shards, strict=True):
        bare = {name: replace(own, crc32=None) for name, own in ours.index.fields.items()}
        index = replace(ours.index, fields=bare)
        again = with_checksums(index, opener(index, ours.shard))
        for name, own in theirs.index.fields.items():
            np.testing.assert_array_equal(again.fields[name].crc32, own.crc32)
        save_index(ours.index, tmp_path / "x.safetensors")
        assert [len(blocks) for blocks in load_index(tmp_path / "x.safetensors", check=True).blocks] == [
            len(blocks) for blocks in ours.index.blocks
        ]


def test_converting(both: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    expected, found = both
    bushel.pack(found, tmp_path / "out", container="bag")
    with bushel.open(tmp_path / "out") as dataset:
        assert plain(dataset.read(range(COUNT))) == plain(expected.read(range(COUNT)))


def test_a_changed_byte_names_sample_and_file(both: tuple[Dataset, Dataset]) -> None:
    _, found = both
    shard = found.shards[0]
    own = shard.index.fields["image"]
    blocks, at = shard.index.blocks_of(own.file), int(own.offset[2]) + 5
    if blocks is not None and blocks.file[int(blocks.start.searchsorted(at, "right")) - 1] == IN_TABLE:
        pytest.skip("this byte is in the table")
    place = shard.index.place(own.file, at)
    assert place.file is not None
    flip(Path(str(shard.path(place.file))), place.offset)
    for read in (lambda: found[2], lambda: found.read([2, 3]), lambda: found.gather([2], "image")):
        with pytest.raises(CorruptError) as caught:
            read()
        assert (caught.value.key, caught.value.field) == ("k02", "image")
        assert caught.value.file is not None
        assert caught.value.file.startswith(str(shard.shard.root))
