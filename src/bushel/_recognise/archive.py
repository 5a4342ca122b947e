"""Which members of an archive folders of classes label: a pure function of their suffixes and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from .layout import MANY, SEVERAL, codec_of_files, main_media, media_of


def labelled_media(counts: Mapping[str, int], samples: int) -> set[str]:
    """Return the extensions of an archive's files that folders of classes label; empty if it has other samples.

    Args:
        counts: The number of files with each extension.
        samples: The number of samples: files that share a path up to the first dot.
    """
    media = main_media(counts, media_of_members)
    kinds = set(media.values())
    several = sum(counts[extension] for extension in media) - samples
    beside = [count for extension, count in counts.items() if extension not in media]
    if len(kinds) != 1 or max([several, *beside]) * MANY >= samples:
        return set()
    if codec_of_files(kinds.pop(), media) is None:
        return set()
    return set(media)


def media_of_members(field: str) -> str | None:
    """Return the kind of media of a field of an archive that is named like the suffix of its members: `jpg`.

    Returns:
        None of another field, of a suffix with a dot, since the name may have the dot, and of
        `image` and `audio`, which writers use as names of fields.
    """
    if "." in field or field in SEVERAL:
        return None
    return media_of(field)


@lru_cache(maxsize=256)
def has_media(fields: frozenset[str]) -> bool:
    """Return whether any field of an archive is named like the suffix of its media files."""
    return any(map(media_of_members, fields))
