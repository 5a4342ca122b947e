"""Whatever files say, a codec that runs code is only used if the caller names it."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.forged_codecs import CODECS, CONTAINERS, COUNT, forged, trace
from tests.fuzz.forged import Bomb, change_header, header_of

import bushel
from bushel._dataset.read.shard_fields import with_caller_fields

__all__ = ["trace"]


def first(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_the_value_stays_stored_bytes_with_one_warning(container: str, codec: str, tmp_path: Path, trace: Path) -> None:
    field = "frames" if container == "gulp" else "notes"
    stored = forged(tmp_path / "set", trace, container, codec)
    with pytest.warns(bushel.errors.UntrustedWarning, match=rf"'{field}'.*pickle=True") as caught:
        ds = bushel.open(tmp_path / "set")
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert first(ds[0][field]) == first(ds["k1"][field]) == stored
        assert [first(each[field]) for each in ds.read(range(COUNT))] == [stored] * COUNT
        assert first(next(iter(ds))[field]) == stored
        assert first(pickle.loads(pickle.dumps(ds))[0][field]) == stored
        assert first(ds[1:][0, [field]][field]) == stored
        assert first(bushel.concat([ds, ds])[COUNT][field]) == stored


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
@pytest.mark.parametrize("processes", [0, 1])
def test_the_loader_gives_stored_bytes(container: str, processes: int, tmp_path: Path, trace: Path) -> None:
    stored = forged(tmp_path / "set", trace, container)
    with pytest.warns(bushel.errors.UntrustedWarning):
        ds = bushel.open(tmp_path / "set")
    batches = list(bushel.Loader(ds, 2, processes=processes))
    assert [bytes(each) for batch in batches for each in batch["notes"]] == [stored] * COUNT


@pytest.mark.parametrize("container", CONTAINERS)
def test_verify_decodes_nothing_of_it(container: str, tmp_path: Path, trace: Path) -> None:
    forged(tmp_path / "set", trace, container)
    with pytest.warns(bushel.errors.UntrustedWarning) as caught:
        bushel.verify(tmp_path / "set", decode=True)
    assert len(caught) == 1


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
@pytest.mark.parametrize("target", ["bag", "tar", "ffrecord", "recordio"])
def test_convert_keeps_the_bytes_and_the_type(container: str, target: str, tmp_path: Path, trace: Path) -> None:
    stored = forged(tmp_path / "set", trace, container)
    with pytest.warns(bushel.errors.UntrustedWarning):
        bushel.convert(tmp_path / "set", tmp_path / "new", container=target)
    with pytest.warns(bushel.errors.UntrustedWarning):
        assert bushel.open(tmp_path / "new")[3]["notes"] == stored
    for sidecar in (tmp_path / "new").rglob("*.safetensors"):
        assert [each["codec"] for each in header_of(sidecar)["fields"] if each["name"] == "notes"] == ["pickle"]


def test_columns_of_a_field_that_is_json_by_its_type(tmp_path: Path, trace: Path) -> None:
    with bushel.Writer(tmp_path / "set.tar", {"notes": "bytes"}) as writer:
        writer.append({"notes": Bomb(trace).pickled}, key="k")
    [sidecar] = (tmp_path / ".bushel").glob("*.safetensors")
    change_header(sidecar, lambda header: header["fields"][0].update(type="json", codec="pickle"))
    bushel.index(tmp_path / "set.tar", columns="notes.n")


def test_a_sidecar_that_names_another_codec_than_its_manifest(tmp_path: Path, trace: Path) -> None:
    """The manifest of very many shards is believed when they are opened, and a sidecar is mapped later."""
    stored = forged(tmp_path / "set", trace, "tar", shard_samples=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = bushel.open(tmp_path / "set")
        listed = [with_caller_fields(shard, shard.asked) for shard in ds.shards]
        for shard in listed:
            shard._index = None
        assert type(ds)(listed).reader.read(np.arange(2), {"notes": None}, decode=True)[1]["notes"] == stored


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
@pytest.mark.parametrize("options", [{"pickle": True}, {"spec": {"notes": "pickle", "label": "int"}}])
def test_the_caller_names_it(container: str, options: dict[str, Any], tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "set", {"notes": "pickle", "label": "int"}, container=container) as writer:
        for number in range(COUNT):
            writer.append({"notes": {1, number}, "label": number}, key=f"k{number}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = bushel.open(tmp_path / "set", **options)
        assert ds.spec["notes"] == "pickle"
        assert ds[3]["notes"] == pickle.loads(pickle.dumps(ds))[3]["notes"] == {1, 3}
        assert [each["notes"] for each in ds.read([0, 4])] == [{1, 0}, {1, 4}]
        assert bushel.verify(tmp_path / "set", decode=True, pickle=True).ok
        batches = list(bushel.Loader(ds, 2, processes=1))
        assert [each for batch in batches for each in batch["notes"]] == [{1, number} for number in range(COUNT)]


def test_append_to_a_field_of_pickles(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "set", {"notes": "pickle"}, container="tar") as writer:
        writer.append({"notes": {1}}, key="a")
    with bushel.Writer(tmp_path / "set", {"notes": "pickle"}, container="tar", mode="append") as writer:
        writer.append({"notes": {2}}, key="b")
    assert [each["notes"] for each in bushel.open(tmp_path / "set", pickle=True)] == [{1}, {2}]


def test_a_registered_codec_says_that_it_runs_code(tmp_path: Path) -> None:
    bushel.register_codec("spelled", lambda text: text.encode(), lambda data: eval(bytes(data)), runs_code=True)
    with bushel.Writer(tmp_path / "a.tar", {"sum": "spelled"}) as writer:
        writer.append({"sum": "1 + 1"}, key="a")
    with pytest.warns(bushel.errors.UntrustedWarning):
        assert bushel.open(tmp_path / "a.tar")[0]["sum"] == b"1 + 1"
    assert bushel.open(tmp_path / "a.tar", pickle=True)[0]["sum"] == 2


def test_conversion_of_a_field_whose_type_the_caller_names(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "a.tar", {"notes": "pickle"}) as writer:
        writer.append({"notes": {2}}, key="a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bushel.convert(tmp_path / "a.tar", tmp_path / "b", container="bag", spec={"notes": "pickle"})
    assert bushel.open(tmp_path / "b", pickle=True)[0]["notes"] == {2}
