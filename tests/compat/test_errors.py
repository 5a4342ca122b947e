"""Programs that were written for the originals catch the originals' exceptions."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.webdataset.shards import archive, numbered

import bushel.compat.mxnet as mx
import bushel.compat.webdataset as wds
from bushel.compat import ffrecord
from bushel.compat import granular as v20
from bushel.compat.gulpio2 import GulpChunk
from bushel.compat.webdataset import encoders, filters, shardlists
from bushel.compat.webdataset.wids import ShardListDataset
from bushel.errors import FormatError

UNTYPED: Any = wds
"""The same module, for calls that a type checker refuses too."""


def samples(content: bytes) -> list[Any]:
    files = wds.tariterators.tar_file_expander([{"url": "x", "stream": io.BytesIO(content)}])
    return list(wds.tariterators.group_by_keys(files))


@pytest.mark.parametrize("damage", [slice(0, 5000), slice(0, 2500)])
def test_a_damaged_archive_is_a_read_error(tmp_path: Path, damage: slice) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(archive(numbered(0, 3))[damage])
    for error in (tarfile.ReadError, tarfile.TarError, FormatError):
        with pytest.raises(error):
            samples(path.read_bytes())
        with pytest.raises(error):
            list(wds.WebDataset(str(path), shardshuffle=False))
        with pytest.raises(error), open(path, "rb") as stream:
            list(wds.tariterators.tar_file_iterator(stream))


@pytest.mark.parametrize(
    "use",
    [
        lambda: filters.getfirst({}, "a b"),
        lambda: filters.transform_with([1], [str, str]),
        lambda: list(filters.map_dict()([{}])),
        lambda: list(filters.map_dict(a=3)([{}])),
        lambda: list(filters.map_dict(a=str)([()])),
        lambda: list(filters.map_tuple(3)([()])),
        lambda: list(filters.map_tuple(str)([{}])),
        lambda: filters.combine_values([np.zeros(1), np.zeros(2)]),
        lambda: filters.default_collation_fn([{"a": 1}, {"b": 1}]),
        lambda: list(filters.unlisted()([()])),
        lambda: list(filters.unbatched()([([1], [1, 2])])),
        lambda: list(filters.rsample(2.0)([])),
        lambda: shardlists.envsubst("${NOT_SET_ANYWHERE}"),
        lambda: shardlists.SimpleShardList([3]),  # type: ignore[list-item]
        lambda: shardlists.DirectoryShardList("no-slash"),
        lambda: shardlists.DirectoryShardList("no-folder/"),
        lambda: shardlists.MultiShardSample({"datasets": [], "other": 1}),
        lambda: UNTYPED.Decoder("rgb"),
        lambda: UNTYPED.Decoder([3]),
        lambda: UNTYPED.Decoder([])(()),
        lambda: encoders.imageencoder("text"),
        lambda: encoders.imageencoder(np.zeros((2, 2, 2), np.uint8)),
        lambda: encoders.numpy_npz_dumps([]),  # type: ignore[arg-type]
        lambda: UNTYPED.gopen("x", "r"),
        lambda: ffrecord.FileWriter("x.bin", 1),
    ],
)
def test_wrong_use_is_an_assertion_error_as_in_the_original(use: Callable[[], object]) -> None:
    with pytest.raises(AssertionError) as caught:
        use()
    assert isinstance(caught.value, ValueError | TypeError | KeyError | NotADirectoryError)


def test_an_empty_list_of_shards_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        shardlists.SimpleShardList([])


@pytest.mark.parametrize("index", ["{", "[]", json.dumps({"wids_version": 2}), json.dumps({"wids_version": 1})])
def test_a_malformed_index_of_wids_is_a_value_error(tmp_path: Path, index: str) -> None:
    (tmp_path / "index.json").write_text(index)
    for error in (ValueError, FormatError):
        with pytest.raises(error):
            ShardListDataset(str(tmp_path / "index.json"))


def test_a_chunk_raises_what_gulpio2_raises(tmp_path: Path) -> None:
    chunk = GulpChunk(tmp_path / "data_0.gulp", tmp_path / "meta_0.gmeta")
    with chunk.open("wb"):
        chunk.append("a", {}, [np.zeros((4, 4), np.uint8)])
    with pytest.raises(TypeError):
        chunk["b"]
    with pytest.raises(AttributeError):
        chunk["a", 0]


@pytest.mark.parametrize("granular", [v20, v20.v24, v20.bags])
def test_damage_is_what_granular_raises(tmp_path: Path, granular: Any) -> None:
    (tmp_path / "x.bag").write_bytes(b"abc")
    (tmp_path / "empty").mkdir()
    for error in (ValueError, AssertionError, FormatError):
        with pytest.raises(error):
            granular.BagReader(str(tmp_path / "x.bag"))
    with pytest.raises(AssertionError):
        granular.ShardedDatasetReader(tmp_path / "empty", None)


@pytest.mark.parametrize("error", [FileNotFoundError, mx.MXNetError])
def test_a_missing_record_file_is_an_mxnet_error(tmp_path: Path, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"x\.rec") as caught:
        mx.recordio.MXRecordIO(tmp_path / "x.rec", "r")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, mx.MXNetError)
    assert (copy.message, copy.details) == (str(caught.value), {})


def test_an_option_that_is_not_offered_is_an_mxnet_error(tmp_path: Path) -> None:
    with pytest.raises(mx.MXNetError):
        mx.io.ImageRecordIter(tmp_path / "x.rec", (3, 4, 4), 1, max_rotate_angle=10)
