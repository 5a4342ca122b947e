"""Put a built site into the branch of all versions, beside the others.

    python make/publish_site.py build/site dev          # of main
    python make/publish_site.py build/site v0.2.1       # of a tag: folder 0.2, and latest if no release is newer

Each version has a folder: `dev`, or the first two numbers of a release, so that a correction replaces what it corrects.
`latest` is the newest release once more; pre-releases have their full name and are never the latest. `versions.json` is
what the version selector of the site reads (the format of mike), and `index.html` leads to `latest`, or to `dev` before
the first release. The branch is written with Git's objects alone: no file of the checkout changes, and equal pages of
several versions are stored once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

BRANCH = "gh-pages"
DEVELOPMENT, LATEST = "dev", "latest"
_RELEASE = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
_OTHER = re.compile(r"v?(\d+\.\d+[\w.]*)")
_FOLDER = re.compile(r"(\d+)\.(\d+)")

START = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Bushel</title>
<meta http-equiv="refresh" content="0; url={folder}/">
<link rel="canonical" href="{folder}/">
</head>
<body><a href="{folder}/">Bushel: the documentation</a></body>
</html>
"""


@dataclass(frozen=True, slots=True)
class Version:
    """An entry of `versions.json`.

    Attributes:
        version: Folder of the version.
        title: What the selector shows.
        aliases: Other folders with the same site.
    """

    version: str
    title: str
    aliases: Sequence[str] = ()


def folder_of(name: str) -> str:
    """Return the folder of a version: `dev`, the first two numbers of a release, or the full name of a pre-release.

    Args:
        name: `dev`, or a version or tag, such as `v0.2.1` or `0.3.0rc1`.

    Raises:
        ValueError: It is none of these.
    """
    if name == DEVELOPMENT:
        return name
    if release := _RELEASE.fullmatch(name):
        return f"{release[1]}.{release[2]}"
    if other := _OTHER.fullmatch(name):
        return other[1]
    raise ValueError(f"{name!r} is not a version: expected dev, or a tag such as v0.2.1")


def with_version(known: Sequence[Version], folder: str) -> list[Version]:
    """Return the versions with another one, in the order of the selector: `dev`, then the newest first.

    The newest release has the alias `latest`.
    """
    folders = {each.version for each in known} | {folder}
    releases = sorted((each for each in folders if _FOLDER.fullmatch(each)), key=_numbers)
    ordered = sorted(folders, key=_order, reverse=True)
    newest = releases[-1] if releases else None
    return [Version(each, each, (LATEST,) if each == newest else ()) for each in ordered]


def _numbers(folder: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", folder))


def _order(folder: str) -> tuple[bool, tuple[int, ...], bool, str]:
    numbers = re.match(r"\d+\.\d+", folder)
    return folder == DEVELOPMENT, _numbers(numbers[0]) if numbers else (), bool(_FOLDER.fullmatch(folder)), folder


class Repository:
    """A Git repository whose branches are written without a working tree.

    Args:
        path: Its folder.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def git(self, *words: str, text: str | None = None, variables: Mapping[str, str] | None = None) -> str:
        """Run Git and return what it prints.

        Raises:
            subprocess.CalledProcessError: Git failed; its message is on standard error.
        """
        done = subprocess.run(
            ["git", "-C", str(self._path), *words],
            input=text,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, **(variables or {})},
        )
        return done.stdout.strip()

    def head(self, branch: str) -> str | None:
        """Return the last commit of a branch; None if there is no such branch."""
        return self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}") or None

    def versions(self, commit: str | None) -> list[Version]:
        """Return the versions that a commit lists."""
        if commit is None:
            return []
        return [Version(**each) for each in json.loads(self.git("show", f"{commit}:versions.json"))]

    def tree_of(self, folder: Path) -> str:
        """Store the files of a folder, and return the name of their tree."""
        with tempfile.TemporaryDirectory() as place:
            own = {"GIT_INDEX_FILE": f"{place}/index", "GIT_WORK_TREE": str(folder.resolve())}
            self.git("-c", "core.autocrlf=false", "add", "--all", "--force", ".", variables=own)
            return self.git("write-tree", variables=own)

    def publish(self, site: Path, name: str, branch: str) -> Sequence[Version]:
        """Add a version to a branch, or replace it, as one commit.

        Args:
            site: The built site.
            name: The version, as `folder_of` takes it.
            branch: The branch, which is made if it does not exist.

        Returns:
            All versions that the branch has.

        Raises:
            FileNotFoundError: The folder does not hold a site.
            subprocess.CalledProcessError: Git failed, or the branch was changed at the same time.
        """
        if not (site / "index.html").is_file():
            raise FileNotFoundError(f"{site} has no index.html: run `make docs`")
        parent, folder = self.head(branch), folder_of(name)
        versions = with_version(self.versions(parent), folder)
        aliases = next(each.aliases for each in versions if each.version == folder)
        start = LATEST if any(each.aliases for each in versions) else DEVELOPMENT
        listed = json.dumps([asdict(each) for each in versions], indent=1) + "\n"
        with tempfile.TemporaryDirectory() as place:
            own = {"GIT_INDEX_FILE": f"{place}/index", "GIT_WORK_TREE": place}  # an empty folder: only the index counts
            self.git("read-tree", *([parent] if parent else ["--empty"]), variables=own)
            tree = self.tree_of(site)
            for target in (folder, *aliases):
                self.git("rm", "-r", "--cached", "--quiet", "--ignore-unmatch", "--", f"{target}/", variables=own)
                self.git("read-tree", "-i", f"--prefix={target}/", tree, variables=own)
            for path, text in (
                ("versions.json", listed),
                ("index.html", START.format(folder=start)),
                (".nojekyll", ""),
            ):
                blob = self.git("hash-object", "-w", "--stdin", text=text)
                self.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", variables=own)
            tree = self.git("write-tree", variables=own)
        message = f"Documentation of {name}"
        commit = self.git("commit-tree", tree, *(["-p", parent] if parent else []), "-m", message)
        self.git("update-ref", f"refs/heads/{branch}", commit, parent or "0" * len(commit))
        return versions


def main() -> None:
    """Put a built site into the branch, and print its versions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path, help="the built site, such as build/site")
    parser.add_argument("version", help="dev, or a tag such as v0.2.1")
    parser.add_argument("--repository", type=Path, default=Path.cwd(), help="folder of the repository (default: this)")
    parser.add_argument("--branch", default=BRANCH, help=f"branch of all versions (default: {BRANCH})")
    given = parser.parse_args()
    try:
        versions = Repository(given.repository).publish(given.site, given.version, given.branch)
    except (ValueError, FileNotFoundError) as error:
        sys.exit(f"publish_site.py: {error}")
    print(", ".join(" = ".join((each.version, *each.aliases)) for each in versions))


if __name__ == "__main__":
    main()
