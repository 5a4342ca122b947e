"""Which members of an archive folders of classes label: a pure function of their suffixes and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from .layout import MANY, MIXED, SEVERAL, codec_of_files, media_of


def labelled_media(counts: Mapping[str, int], samples: int) -> set[str]:
    """Return the extensions of an archive's files that folders of classes label; empty if it has other samples.

    Args:
        counts: The number of files with each extension.
        samples: The number of samples: files that share a path up to the first dot.
    """
    kinds = Counter[str]()
    for extension, count in counts.items():
        if (kind := media_of_members(extension)) is not None:
            kinds[kind] += count
    main = [kind for kind, count in kinds.items() if count * MIXED >= kinds.total()]
    if len(main) != 1:
        return set()
    media = {extension for extension in counts if media_of_members(extension) == main[0]}
    beside = [count for extension, count in counts.items() if extension not in media]
    several = sum(counts[extension] for extension in media) - samples
    if max([several, *beside]) * MANY >= samples or codec_of_files(main[0], media) is None:
        return set()
    return media


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
