"""Facts about a dataset that no file contains: title, description, licence, creators."""

from __future__ import annotations

from dataclasses import dataclass

_LICENCES = ("license", "licence", "licenses", "licences", "rights")
_SOURCES = ("source", "origin", "url", "source_url", "image_url", "provenance", "dataset")


@dataclass(frozen=True, slots=True)
class About:
    """Facts about a dataset that no file contains."""

    title: str
    description: str | None = None  # a description in one or more sentences
    # licence of the whole dataset: an identifier of SPDX, such as `cc-by-4.0`, or a URL
    license: str | None = None
    url: str | None = None  # the page of the dataset
    creators: tuple[str, ...] = ()  # names of those who made it
    # the column that has the licence of each sample; by default recognised by its name
    license_column: str | None = None
    # the column that has the source of each sample; by default recognised by its name
    source_column: str | None = None

    @property
    def license_url(self) -> str | None:
        """The URL of the licence, if there is one."""
        if self.license is None or "://" in self.license:
            return self.license
        return f"https://spdx.org/licenses/{self.license}"


def usual_column(columns: tuple[str, ...], what: str) -> str | None:
    """Return the first column whose name, or the last part of it, says that it has licences, or sources."""
    names = _LICENCES if what == "license" else _SOURCES
    return next((column for column in columns if column.rsplit(".", 1)[-1].lower() in names), None)
