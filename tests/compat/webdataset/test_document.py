"""The page of WebDataset.jl: each of its examples, but for Julia's way to write it.

A Julia pair `a => b` is a tuple, `take!(channel)` is `channel.take()`, Images and Flux are NumPy.
"""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.compat.webdataset.shards import archive, jpeg, png

import bushel.compat.webdataset.jl as WebDataset
from bushel.compat.webdataset.jl import (
    DatasetDescriptor,
    Rename,
    braceexpand,
    dataloader,
    debugloader,
    default_decoders,
    generic_open,
    samplebatching,
    sampleiterator,
    sampleshuffle,
    sampletransforms,
)


@pytest.fixture
def imagenet(tmp_path: Path) -> str:
    """Two shards, of 40 and 27 samples, as the page's: JPEGs of different sizes, classes, and metadata."""
    for shard, (first, last) in enumerate([(0, 40), (40, 67)]):
        files = []
        for i in range(first, last):
            size = (20 + i % 5, 30 - i % 7)
            files += [(f"{i:07d}.jpg", jpeg(i, size)), (f"{i:07d}.cls", b"%d" % (i * 14))]
        (tmp_path / f"imagenet-train-{shard:06d}.tar").write_bytes(archive(files))
    return str(tmp_path / "imagenet-train-{000000..000146}.tar")


def image_augmentation(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    # add distortions, cropping, etc. here as needed
    return np.asarray(Image.fromarray(image).resize((256, 256))).transpose(2, 0, 1)


augmenting: WebDataset.Rules = [
    # call whatever augmentation you like for individual images
    (".img", image_augmentation),
    # this line ensures that any other sample components are carried along unchanged
    ("", lambda x: x),
]

collating: WebDataset.Rules = [
    # .cls is turned  into an Array{Int}
    (".cls", lambda data: np.array(data, np.int64)),
    # RGB images are batched using Flux.batch
    (".img", lambda images: np.stack(images, axis=-1)),
]


def test_the_files_of_a_stereo_dataset_are_grouped(tmp_path: Path) -> None:
    names = ["098953.left.jpg", "098953.right.jpg", "098953.depth.png16"]
    names += ["194432.left.jpg", "194432.right.jpg", "194432.depth.png16"]
    path = tmp_path / "stereo-dataset-000179.tar"
    path.write_bytes(archive([(name, name.encode()) for name in names]))
    with open(path, "rb") as stream:
        samples = list(sampleiterator(stream))
    assert samples == [
        {
            "__key__": key,
            ".left.jpg": f"{key}.left.jpg".encode(),
            ".right.jpg": f"{key}.right.jpg".encode(),
            ".depth.png16": f"{key}.depth.png16".encode(),
        }
        for key in ("098953", "194432")
    ]


def test_tar_makes_datasets(tmp_path: Path) -> None:
    folder = tmp_path / "dataset"
    folder.mkdir()
    for name in ("b.txt", "a.txt", "a.cls", "b.cls"):
        (folder / name).write_text(name)
    subprocess.run(["tar", "--sort=name", "-cf", "dataset.tar", "dataset"], cwd=tmp_path, check=True)
    with open(tmp_path / "dataset.tar", "rb") as stream:
        assert list(sampleiterator(stream)) == [
            {"__key__": f"dataset/{key}", ".cls": f"{key}.cls".encode(), ".txt": f"{key}.txt".encode()} for key in "ab"
        ]


def test_the_descriptor_has_eleven_fields_and_their_defaults() -> None:
    desc = DatasetDescriptor()
    assert [field.name for field in fields(desc)] == [
        "sources",
        "shuffle",
        "batchsize",
        "decoding",
        "augmenting",
        "mapping",
        "collating",
        "csize",
        "ntasks",
        "verbose",
        "debug",
    ]
    assert (desc.sources, desc.shuffle, desc.batchsize, desc.csize, desc.ntasks) == ([], 1000, 16, 100, 4)
    assert (desc.verbose, desc.debug) == (False, False)
    assert desc.mapping({"x": 1}) == {"x": 1}
    for rules in (desc.decoding, desc.augmenting, desc.collating):
        [(rule, function)] = list(rules)
        assert rule == ""
        assert function(5) == 5


def test_default_decoders() -> None:
    rules = [(rule.rule if isinstance(rule, Rename) else rule, function) for rule, function in default_decoders]
    assert rules[0] == (".cls", WebDataset.clsdecode)
    assert rules[2] == (".json", WebDataset.jsondecode)
    assert rules[1][1] is WebDataset.imdecode
    assert isinstance(rules[1][0], re.Pattern)
    sample: dict[str, Any] = {
        "__key__": "a",
        ".cls": b"913",
        ".jpg": jpeg(1),
        ".mask.PNG": png(2),
        ".json": b'{"a": [1]}',
        ".txt": b"dropped",
    }
    [decoded] = sampletransforms([sample], default_decoders)
    assert list(decoded) == ["__key__", ".cls", ".img", ".mask.img", ".json"]
    assert (decoded[".cls"], decoded[".json"]) == (913, {"a": [1]})
    assert decoded[".img"].shape == decoded[".mask.img"].shape == (16, 24, 3)


def test_braces() -> None:
    urls = braceexpand(
        "pipe:curl -L -s http://storage.googleapis.com/nvdata-coco/coco-train2014-seg-{000000..000003}.tar"
    )
    head = "pipe:curl -L -s http://storage.googleapis.com/nvdata-coco/coco-train2014-seg-"
    assert urls == [f"{head}{i:06d}.tar" for i in range(4)]
    shards = braceexpand("/work-2020/shards/imagenet/imagenet-train-{000000..000146}.tar")[0:4]
    assert shards == [f"/work-2020/shards/imagenet/imagenet-train-00000{i}.tar" for i in range(4)]


def test_debugloader(imagenet: str, capsys: pytest.CaptureFixture[str]) -> None:
    shards = braceexpand(imagenet)[0:2]
    desc = DatasetDescriptor(
        sources=shards,
        shuffle=1000,
        batchsize=32,
        decoding=default_decoders,
        augmenting=augmenting,
        collating=collating,
    )
    ch = debugloader(desc, desc.sources)
    sample = ch.take()
    print(f"size(sample['.img']) = {sample['.img'].shape}")
    assert capsys.readouterr().out == "size(sample['.img']) = (3, 256, 256, 32)\n"
    ch.close()


def test_dataloader(imagenet: str) -> None:
    desc = DatasetDescriptor(
        sources=braceexpand(imagenet)[0:2],
        shuffle=1000,
        batchsize=32,
        decoding=default_decoders,
        augmenting=augmenting,
        collating=collating,
    )
    before = WebDataset.num_exceptions
    # use four threads
    desc.ntasks = 4

    # we keep track of the number of batche and number of samples
    (count, total) = (0, 0)

    # also, let's keep the last sample
    last_sample: dict[str, Any] = {}
    seen = []

    # dataloader actually returns a Channel of samples
    for sample in dataloader(desc):
        last_sample = sample
        count += 1
        total += len(sample["__key__"])
        seen += [(key, int(number)) for key, number in zip(sample["__key__"], sample[".cls"], strict=True)]

    # batches do not span shards: 40 samples are 32 and 8, 27 are one batch
    assert (count, total) == (3, 67)
    assert sorted(seen) == [(f"{i:07d}", i * 14) for i in range(67)]
    assert set(last_sample) == {"__key__", ".img", ".cls"}
    assert last_sample[".img"].shape == (3, 256, 256, len(last_sample["__key__"]))
    assert last_sample[".cls"].dtype == np.int64

    # any exceptions in the multithreaded code are available here
    assert WebDataset.num_exceptions == before


def test_exceptions_are_none_at_first() -> None:
    code = "import bushel.compat.webdataset.jl as W; print((W.num_exceptions, W.last_exception))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(0, None)\n"


def test_under_the_hood(imagenet: str) -> None:
    desc = DatasetDescriptor(batchsize=32, decoding=default_decoders, augmenting=augmenting, collating=collating)
    source = braceexpand(imagenet)[0]

    # open either a file or a pipe: source
    stream = generic_open(source)

    # iterate over samples in the .tar archive
    raw = sampleiterator(stream)

    # shuffle samples with a shuffle buffer
    shuffled = sampleshuffle(raw, desc.shuffle)

    # decode the samples based on decoding rules
    decoded = sampletransforms(shuffled, desc.decoding)

    # augment the samples based on agumentation rules
    augmented = sampletransforms(decoded, desc.augmenting)

    # batch the samples to the given batch size
    batched = samplebatching(augmented, desc.batchsize)

    # collate individual fields based on collating rules
    collated = sampletransforms(batched, desc.collating)

    batches = list(collated)
    stream.close()
    assert [batch[".img"].shape for batch in batches] == [(3, 256, 256, 32), (3, 256, 256, 8)]
    assert sorted(key for batch in batches for key in batch["__key__"]) == [f"{i:07d}" for i in range(40)]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_iterating_over_one_tar(tmp_path: Path) -> None:
    content = jpeg(7)
    test = tmp_path / "test.tar"
    test.write_bytes(archive([("1170061.jpg", content), ("1170061.cls", b"913"), ("1170062.cls", b"1")]))

    for sample in sampleiterator(open(test, "rb")):  # noqa: SIM115  (as on the page)
        assert sample == {"__key__": "1170061", ".jpg": content, ".cls": b"913"}
        break

    for sample in sampletransforms(sampleiterator(open(test, "rb")), default_decoders):  # noqa: SIM115
        assert sample[".img"].shape == (16, 24, 3)
        assert sample[".cls"] == 913
        break
