"""Paths in object stores as values."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.objects.conditional_store import keeping

import bushel
from bushel.errors import UnsupportedError
from bushel.storage import as_path, is_local
from bushel.storage.base import FROM_TAG
from bushel.storage.objects.location import ObjectPath
from bushel.storage.objects.remotefile import stat_of


@pytest.mark.parametrize(
    ("url", "root", "key"),
    [
        ("s3://bucket", "s3://bucket", ""),
        ("s3://bucket/", "s3://bucket", ""),
        ("s3://bucket/a/b.tar", "s3://bucket", "a/b.tar"),
        ("gs://bucket//a///b/", "gs://bucket", "a/b"),
        ("az://container/x y?.tar", "az://container", "x y?.tar"),
        ("https://host:8080/a%20b/c.tar", "https://host:8080", "a b/c.tar"),
        ("https://host/100%25.tar", "https://host", "100%.tar"),
    ],
)
def test_parse(url: str, root: str, key: str) -> None:
    path = as_path(url)
    assert path == ObjectPath(root, key)
    assert isinstance(path, ObjectPath)
    assert ObjectPath.parse(str(path)) == path
    assert not is_local(path)
    assert hash(path) == hash(pickle.loads(pickle.dumps(path)))


@given(st.sampled_from(["s3://b", "https://h"]), st.lists(st.text(min_size=1).filter(lambda part: "/" not in part)))
def test_text_is_parsed_back(root: str, parts: list[str]) -> None:
    path = ObjectPath(root, "/".join(parts))
    try:
        text = str(path)
        text.encode()
    except UnicodeEncodeError:
        return
    assert ObjectPath.parse(text) == path


def test_parts() -> None:
    path = ObjectPath.parse("s3://bucket/a/b/c.tar.gz")
    assert (path.name, path.suffix, path.stem) == ("c.tar.gz", ".gz", "c.tar")
    assert path.parent == ObjectPath("s3://bucket", "a/b")
    assert path.parent.parent.parent == path.parent.parent.parent.parent == ObjectPath("s3://bucket", "")
    assert path.with_name("d") == ObjectPath("s3://bucket", "a/b/d")
    assert ObjectPath("s3://bucket", "") / "x" / "./y/" == ObjectPath("s3://bucket", "x/y")
    hidden = ObjectPath("s3://bucket", "a/.bushel")
    assert (hidden.suffix, hidden.stem) == ("", ".bushel")
    assert sorted([path / "b", path / "a"]) == [path / "a", path / "b"]


@pytest.mark.parametrize("url", ["s3:///key", "https:///x"])
def test_no_place(url: str) -> None:
    with pytest.raises(ValueError, match="the URL has no"):
        as_path(url)


def test_refused_urls() -> None:
    with pytest.raises(bushel.errors.UnsupportedError, match="expected a URL that starts with one of s3://"):
        ObjectPath.parse("ftp://host/x")
    with pytest.raises(bushel.errors.UnsupportedError, match="query"):
        as_path("https://host/x.tar?signature=1")
    with pytest.raises(bushel.errors.UnsupportedError, match="objects are written whole"):
        ObjectPath("s3://b", "x").open("ab")
    assert as_path(Path("s3:") / "x") == Path("s3:/x")


def test_stamps() -> None:
    from datetime import UTC, datetime

    time = datetime(2026, 1, 2, 3, 4, 5, 678900, UTC)
    meta = {"path": "x", "last_modified": time, "size": 7, "e_tag": '"a"', "version": None}
    one, weak = stat_of(meta), stat_of({**meta, "e_tag": 'W/"a"'})  # type: ignore[arg-type, typeddict-item]
    other, none = stat_of({**meta, "e_tag": '"b"'}), stat_of({**meta, "e_tag": None})  # type: ignore[typeddict-item]
    assert one.st_mtime_ns == weak.st_mtime_ns != other.st_mtime_ns
    assert FROM_TAG <= one.st_mtime_ns < 1 << 63
    assert none.st_mtime_ns == int(time.timestamp()) * 10**9
    assert one.modified == int(time.timestamp())


@pytest.mark.parametrize(
    "url",
    ["https://me:SECRET@host/x.tar", "s3://AK:SECRET@bucket/x", "https://host/x.tar?X-Amz-Signature=SECRET#SECRET"],
)
def test_secrets_in_urls_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(bushel.errors.UnsupportedError, match="credentials") as caught:
        as_path(url)
    assert "SECRET" not in "".join(traceback.format_exception(caught.value))


def test_a_name_that_no_store_can_have_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"s3://bucket/a\x1fb: .*control characters are not supported"):
        ObjectPath("s3://bucket", "a\x1fb").stat()


def test_whether_a_folder_or_an_object_exists_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with keeping(monkeypatch) as kept:
        kept.objects["bucket/set/x.tar"] = (b"0", 0.0)
        kept.objects["bucket/plain"] = (b"0", 0.0)
        assert as_path("s3://bucket/set").exists()
        assert as_path("s3://bucket/set/x.tar").exists()
        assert kept.asked == ["LIST bucket/set/", "HEAD bucket/set/x.tar"]
        assert as_path("s3://bucket/plain").exists()
        assert not as_path("s3://bucket/none").exists()
        assert not as_path("s3://bucket/none.tar").exists()


def test_an_object_exists_in_a_bucket_that_nobody_may_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> object:
        raise PermissionError("nobody may list")

    with keeping(monkeypatch) as kept:
        kept.objects["bucket/plain"] = (b"0", 0.0)
        monkeypatch.setattr(ObjectPath, "is_dir", refused)
        assert as_path("s3://bucket/plain").exists()
        with pytest.raises(PermissionError, match="nobody may list"):
            as_path("s3://bucket/none").exists()
