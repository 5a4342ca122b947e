"""Recipes of tarp: members that form samples, as in WebDataset, by their names up to the first dot."""

from __future__ import annotations

import os
from collections.abc import Iterator

from bushel.codecs import codec_of_extension
from bushel.errors import FormatError, UnsupportedError
from bushel.sources.base import Names, Sample
from bushel.sources.fetching import FileSource, caller_path, read_file
from bushel.spec import KEY
from bushel.storage import AnyPath, as_path, is_local, read_text


class Recipe(FileSource):
    r"""A recipe for `tarp create`.

    A line is a name, a space, and a location: a path, `file:PATH`, `text:TEXT` or `pipe:COMMAND`.

    The key is the name up to the first dot after the last slash, and the field is the rest:
    `a/7.left.jpg` is the field `left.jpg` of `a/7`. The members of one sample must be adjacent, as
    in a tar.

    Args:
        path: The path of the recipe.
        root: The folder that relative paths start from; by default the working directory, as for
            tarp.
        allow_commands: Whether lines may run commands.

    Attributes:
        spec: Extensions to the codecs that WebDataset uses for them.

    Raises:
        FormatError: A line has no location, a name has no extension, or the members of a sample
            repeat a name or are not adjacent.

    Examples:
        >>> from bushel.sources import Recipe
        >>> _ = Path("recipe").write_text("a.cls text:1\na.jpg photos/dog/1.jpg\n")
        >>> bushel.pack(Recipe("recipe"), "made.tar").samples
        1
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | AnyPath,
        *,
        root: str | os.PathLike[str] | AnyPath | None = None,
        allow_commands: bool = False,
    ) -> None:
        self._root, self._commands = as_path(root or "."), allow_commands
        names: list[str] = []
        places: list[str] = []
        starts: dict[str, int] = {}
        key = None
        self.spec: dict[str, str] = {}
        for name, place in _members(as_path(path)):
            stem, extension = _cut(name)
            if stem != key:
                if stem in starts:
                    raise FormatError(
                        f"the members of sample {stem!r} are not adjacent: sort them by name"
                    )
                starts[stem] = len(names)
                key = stem
            elif f"{stem}.{extension}" in names[starts[stem] :]:
                raise FormatError(f"sample {stem!r} has the member {extension!r} twice")
            names.append(f"{stem}.{extension}")
            places.append(place)
            self.spec.setdefault(extension, codec_of_extension(extension))
        self._names, self._places = Names(names), Names(places)
        self._starts = [*starts.values(), len(names)]

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, position: int) -> Sample:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is out of range for {len(self)} samples")
        sample: dict[str, object] = {}
        for at in range(self._starts[position], self._starts[position + 1]):
            sample[KEY], extension = _cut(self._names[at])
            sample[extension] = self._read(self._places[at])
        return sample

    def origin(self, position: int) -> str:
        """Return the location of its first member."""
        place = self._places[self._starts[position]]
        if place.partition(":")[0] in ("text", "pipe"):
            return place
        path = self._path(place)
        if is_local(path):
            return place
        return str(path)

    def _read(self, place: str) -> bytes:
        kind, colon, rest = place.partition(":")
        if colon and kind == "text":
            return rest.encode("utf-8", "surrogateescape")
        if colon and kind == "pipe":
            if not self._commands:
                raise UnsupportedError(
                    f"{place} runs a command: allow that with allow_commands=True"
                )
            import subprocess  # which few sources need

            return subprocess.run(rest, shell=True, check=True, stdout=subprocess.PIPE).stdout
        return read_file(self._at(self._path(place)))

    def _files(self, position: int) -> list[AnyPath]:
        places = self._places[self._starts[position] : self._starts[position + 1]]
        return [
            self._path(place) for place in places if place.partition(":")[0] not in ("text", "pipe")
        ]

    def _path(self, place: str) -> AnyPath:
        return caller_path(self._root, place.removeprefix("file:"))


def _members(path: AnyPath) -> Iterator[tuple[str, str]]:
    """Yield name and location in each line of a recipe. Raise FormatError if a line has no location."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        name, *place = line.strip().split(maxsplit=1) or [""]
        if place:
            yield name, place[0]
        elif name:
            raise FormatError(
                f"line {number}: expected a name and a location, found {line!r}", file=str(path)
            )


def _cut(name: str) -> tuple[str, str]:
    folder, slash, base = name.rpartition("/")
    stem, dot, extension = base.partition(".")
    if not stem or not extension:
        raise FormatError(f"the name {name!r} has no extension, which would name its field")
    return f"{folder}{slash}{stem}", extension.lower()
