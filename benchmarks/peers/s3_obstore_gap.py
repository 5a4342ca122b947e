"""obstore alone, with the requests that Bushel makes: gaps of up to 256 KiB are read, instead of 1 MiB."""

from __future__ import annotations

from functools import partial

from s3_obstore import open
from s3_obstore import read_batch as read_far

__all__ = ["open", "read_batch"]

read_batch = partial(read_far, coalesce=1 << 18)
