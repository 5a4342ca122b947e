"""Fingerprints of sources: whether two calls, in different processes, pack the same items."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from bushel.ingest.run_plan import describe
from bushel.sources.base import Fingerprinted, Labelled, Named, Source, Traceable

__all__ = ["source_fingerprint"]

_SAMPLED = 1000


def source_fingerprint(source: Source) -> str:
    """Return a fingerprint of a source: its own if it has one, else one of its length, spec, labels and origins.

    Origins are looked up for a thousand items at most, and no item is read.
    """
    if isinstance(source, Fingerprinted):
        return source.fingerprint
    facts: list[Any] = [len(source), dict(source.spec)]
    if isinstance(source, Labelled):
        facts.append(dict(source.label2idx))
    elif isinstance(source, Named):
        facts.append({name: list(each) for name, each in source.labels.items()})
    if isinstance(source, Traceable) and len(source):
        positions = np.unique(np.linspace(0, len(source) - 1, _SAMPLED).astype(np.int64))
        facts.append([source.origin(position) for position in positions.tolist()])
    return hashlib.sha256(repr(describe(facts)).encode("utf-8", "surrogateescape")).hexdigest()[:32]
