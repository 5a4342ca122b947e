"""libsndfile decodes a file forward, and its errors are one exception."""

from __future__ import annotations

import numpy as np
import pytest
from tests.codecs.sounds import encoded, tone
from tests.descriptors import descriptors

from bushel.codecs.libsndfile import DecodingError, decode_frames, has_libsndfile

pytest.importorskip("soundfile")


def test_the_first_frames_are_decoded() -> None:
    assert has_libsndfile()
    found = decode_frames(encoded("flac"), 5000, 2)
    assert found.dtype == np.float32
    assert found.shape == (5000, 2)
    assert np.abs(found - tone()[:5000]).max() <= 0.5 / 32768 + 1e-6


@pytest.mark.parametrize(
    ("data", "frames", "channels", "match"),
    [
        (b"", 5, 2, "."),
        (b"nothing that is a sound", 5, 2, "."),
        (encoded("flac"), 5, 1, "2 channels instead of 1"),
        (encoded("flac"), 9001, 2, "9000 of 9001 frames"),
        (encoded("flac")[:9000], 9000, 2, "."),
    ],
)
def test_errors(data: bytes, frames: int, channels: int, match: str) -> None:
    with pytest.raises(DecodingError, match=match):
        decode_frames(data, frames, channels)


def test_no_descriptor_stays_open() -> None:
    data = encoded("flac")
    decode_frames(data, 5000, 2)
    with pytest.raises(DecodingError):
        decode_frames(data[:9000], 9000, 2)
    with pytest.raises(DecodingError):
        decode_frames(b"nothing", 1, 1)
    assert not [target for _, target in descriptors() if "bushel-sound" in target]


def test_systems_without_files_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.memfd_create", raising=False)
    assert decode_frames(encoded("flac"), 5000, 2).shape == (5000, 2)
