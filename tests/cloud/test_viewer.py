"""Every page of the viewer, of datasets in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cloud.conftest import upload
from tests.viewer.all_pages import ask_everything, viewer_of, write_everything

import bushel
from bushel.storage.objects.location import ObjectPath

pytestmark = pytest.mark.cloud


def test_all_pages(bucket: ObjectPath, tmp_path: Path) -> None:
    for name, changed in (("one", None), ("two", 4)):
        upload(write_everything(tmp_path / name, changed=changed), bucket / name)
    with viewer_of(f"{bucket}/one/", f"{bucket}/two/") as client:
        ask_everything(client)
        assert client.post("/api/0/view?tag=seen&name=some").json()["samples"] == 2
    with bushel.open(f"{bucket}/one/", view="some") as view:
        assert list(view.keys) == ["set/001", "set/004"]
