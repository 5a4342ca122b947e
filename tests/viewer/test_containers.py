"""The pages of the viewer for containers that are only read, from datasets that their own packages wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.containers.read_in_place import FOREIGN
from tests.viewer.serving import client_of

import bushel
from bushel.errors import BushelError, MissingPackageError

PAGES = ("/d/0", "/d/0?view=table", "/api/0/rows?first=0&count=5", "/d/0/s/0", "/d/0/shards", "/d/0/duplicates")


def dataset_in(folder: Path) -> Path:
    """Return the dataset in a folder of data: the folder, or a file or a folder in it."""
    for path in (folder, *sorted(folder.iterdir())):
        try:
            bushel.open(path).close()
        except MissingPackageError as error:
            pytest.skip(str(error))
        except (BushelError, OSError):  # the folder itself is none, or this file only describes another one
            continue
        return path
    raise AssertionError(f"{folder}: no dataset")


@pytest.mark.parametrize("name", sorted(each.name for each in FOREIGN.iterdir() if each.is_dir()))
def test_all_pages_answer(tmp_path: Path, name: str) -> None:
    shutil.copytree(FOREIGN / name, tmp_path / name)
    with client_of(dataset_in(tmp_path / name)) as client:
        listed = client.get("/d/0").text
        pages = [*PAGES, *(page for page in ("/d/0/quality", "/d/0/batches") if f'"{page}"' in listed)]
        assert {page: client.get(page).status_code for page in pages} == dict.fromkeys(pages, 200)
        row = client.get("/api/0/rows?first=0&count=1").json()["rows"][0]
        assert row["error"] is None
