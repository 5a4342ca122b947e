"""Ray Data with the real package, which `make cluster` installs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.local_ray import local_ray
from tests.integrations.samples import write
from tests.sources.folders import jpeg

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
pytest.importorskip("pyarrow")

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    with local_ray():
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield


def test_decoded_rows(tmp_path: Path) -> None:
    from bushel.integrations.ray_data import BushelDatasource

    ds = write(tmp_path / "train")
    data = ray.data.read_datasource(BushelDatasource(ds), override_num_blocks=3)
    assert data.count() == 10
    rows = {row["__key__"]: row for row in data.take_all()}
    assert rows.keys() == set(ds.keys)
    for number in range(10):
        row = rows[f"k{number}"]
        assert row["image"].shape == ds[number]["image"].shape
        assert (row["image"] == ds[number]["image"]).all()
        assert (row["label"], row["caption"], row["meta"]) == (number % 3, f"photo {number}", {"number": number})
    mapped = data.map_batches(lambda batch: {"double": batch["label"] * 2})
    assert sorted(row["double"] for row in mapped.take_all()) == sorted(number % 3 * 2 for number in range(10))


def test_stored_rows_of_some_fields(tmp_path: Path) -> None:
    from bushel.integrations.ray_data import BushelDatasource

    ds = write(tmp_path / "train")
    data = ray.data.read_datasource(BushelDatasource(ds, ["image"], decode=False), override_num_blocks=2)
    rows = {row["__key__"]: row for row in data.take_all()}
    assert {key: row["image"] for key, row in rows.items()} == {f"k{number}": jpeg(number) for number in range(10)}
    with pytest.raises(KeyError):
        BushelDatasource(ds, ["nope"])
