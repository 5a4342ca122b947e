"""Plans of requests, and what S3 settings come to: pure."""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bushel
from bushel.storage.objects.client import s3_settings
from bushel.storage.objects.ranges import plan_requests
from bushel.storage.objects.retries import is_transient, summary

MIB = 1 << 20


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60 * MIB), st.integers(-1, 30 * MIB))))
def test_requests_cover_extents_and_little_else(rows: list[tuple[int, int, int]]) -> None:
    file = np.array([row[0] for row in rows], np.int32)
    offset, length = (np.array([row[part] for row in rows], np.int64) for part in (1, 2))
    requests = plan_requests(file, offset, length)
    assert all(0 < request.stop - request.start <= 8 * MIB for request in requests)
    for row, (number, start, size) in enumerate(rows):
        own = sorted((r.start, r.stop) for r in requests if r.file == number and row in r.rows)
        if size <= 0:
            assert own == []
            continue
        at = start
        for first, last in own:
            assert first <= at
            at = max(at, last)
        assert at >= start + size
    for request in requests:
        assert any(offset[row] < request.stop and offset[row] + length[row] > request.start for row in request.rows)


def test_neighbours_share_and_strangers_do_not() -> None:
    offset = np.array([0, 1000, 300_000, 10 * MIB], np.int64)
    requests = plan_requests(np.zeros(4, np.int32), offset, np.full(4, 500, np.int64))
    assert [(request.start, request.stop) for request in requests] == [
        (0, 1500),
        (300_000, 300_500),
        (10 * MIB, 10 * MIB + 500),
    ]


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4 * MIB)), min_size=2, max_size=60),
    st.sampled_from([10, 20_000, 200_000]),
)
def test_few_bytes_are_read_that_are_not_needed(rows: list[tuple[int, int]], size: int) -> None:
    file = np.array([row[0] for row in rows], np.int32)
    offset = np.array([row[1] for row in rows], np.int64)
    asked, needed, short = 0, 0, 0
    for request in plan_requests(file, offset, np.full(len(rows), size, np.int64)):
        asked += request.stop - request.start
        reached = request.start
        for start in sorted(offset[list(request.rows)].tolist()):
            gap = max(start - reached, 0)
            assert gap <= MIB // 4
            short += gap if gap <= MIB // 64 else 0
            needed += max(start + size - max(start, reached), 0)
            reached = max(reached, start + size)
    assert asked - needed - short <= max(MIB // 2, size * len(rows) // 16)


def test_the_longest_gaps_of_many_are_not_read() -> None:
    offset = np.arange(0, 40, 2, dtype=np.int64) * 100_000  # every second one of 40
    file, length = np.zeros(20, np.int32), np.full(20, 100_000, np.int64)
    assert len(plan_requests(file, offset, length)) == 20
    assert len(plan_requests(file[:5], offset[:5], length[:5])) == 1, "half a megabyte is not worth a request"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id=A\naws_secret_access_key=B\n"
        "[session]\naws_access_key_id=C\naws_secret_access_key=D\naws_session_token=E\n"
    )
    (tmp_path / "config").write_text(
        "[default]\nregion=eu-north-1\n[profile session]\nendpoint_url=https://here\n"
        "[profile single]\nsso_start_url=https://login\n"
    )
    return {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }


def test_credentials_files(files: dict[str, str]) -> None:
    keys = {"access_key_id": "A", "secret_access_key": "B"}
    assert s3_settings(files) == {"region": "eu-north-1", **keys}
    assert s3_settings({**files, "AWS_REGION": "r"}) == keys
    assert s3_settings({**files, "AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "X"}) == {}
    assert s3_settings({**files, "AWS_REGION": "r", "AWS_CONTAINER_CREDENTIALS_FULL_URI": "X"}) == {}
    assert s3_settings({**files, "AWS_REGION": "r", "AWS_SKIP_SIGNATURE": "true"}) == {}
    assert s3_settings({**files, "AWS_PROFILE": "session"}) == {
        "endpoint": "https://here",
        "access_key_id": "C",
        "secret_access_key": "D",
        "session_token": "E",
    }
    assert s3_settings({**files, "AWS_PROFILE": "session", "AWS_ENDPOINT_URL": "x"}).get("endpoint") is None
    assert s3_settings({**files, "AWS_PROFILE": "session", "AWS_ENDPOINT_URL_S3": "x"})["endpoint"] == "x"
    assert s3_settings({**files, "AWS_PROFILE": "unknown"}) == {}


def test_login_takes_boto3(files: dict[str, str]) -> None:
    if importlib.util.find_spec("boto3") is not None:
        pytest.skip("boto3 is installed")
    with pytest.raises(bushel.errors.UnsupportedError, match="'single' needs boto3"):
        s3_settings({**files, "AWS_PROFILE": "single"})


def test_damaged_config(files: dict[str, str]) -> None:
    Path(files["AWS_CONFIG_FILE"]).write_text("region=1\n")
    with pytest.raises(bushel.errors.UnsupportedError, match="config cannot be read"):
        s3_settings(files)


class GenericError(Exception):
    """Of the name that obstore's has."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("error sending request", True),
        ("Server returned non-2xx status code: 503 Slow Down", True),
        ("Server returned non-2xx status code: 429 Too Many Requests", True),
        ("Server returned non-2xx status code: 400 Bad Request", False),
        ("error\n\nDebug source: InvalidCertificate(Expired)", False),
    ],
)
def test_what_may_pass(text: str, expected: bool) -> None:
    assert is_transient(GenericError(text)) is expected
    assert not is_transient(ValueError(text))


def test_summary() -> None:
    assert summary(GenericError("it\n failed\n\nDebug source: x")) == "it failed"
    cause = 'a\n\nDebug source: Os { code: 111, message: "Connection refused" }'
    assert summary(GenericError(cause)) == "a: Connection refused"
    assert "BUSHEL_NETWORK_CA" in summary(GenericError("a\n\nDebug source: InvalidCertificate(x)"))


@pytest.mark.parametrize("text", ["[default]\naws_secret_access_key wJalrXUtn\n", "aws_secret_access_key=wJalrXUtn\n"])
def test_damaged_credentials_are_not_quoted(files: dict[str, str], text: str) -> None:
    Path(files["AWS_SHARED_CREDENTIALS_FILE"]).write_text(text)
    with pytest.raises(bushel.errors.UnsupportedError, match=r"credentials cannot be read \(line [12]\)") as caught:
        s3_settings(files)
    assert "wJalrXUtn" not in "".join(traceback.format_exception(caught.value))
