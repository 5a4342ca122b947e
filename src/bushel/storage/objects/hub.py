"""Paths on the Hugging Face Hub: `hf://datasets/ORG/NAME@REVISION/path`.

The revision is replaced by its commit when the path is made, so everything that is opened from it
stays the same version, in every process that gets a copy. Files are read by HTTP ranges, as in any
object store. The files of a commit never change, so they are listed once per process, by requests to
the Hub's API.
"""

from __future__ import annotations

import errno
import json
import os
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from functools import lru_cache
from http.client import HTTPMessage
from typing import IO, TYPE_CHECKING, Any, Self
from urllib.parse import quote, unquote, urljoin, urlsplit

from msgspec import Struct

from bushel.errors import UnsupportedError

from .client import authorization, endpoint, parts_of, silence
from .location import ObjectPath
from .remotefile import ObjectStat, stamp_of_tag
from .retries import TruncatedError, persistently

if TYPE_CHECKING:
    from obstore import ObjectMeta

_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_MOST = 1 << 28  # largest answer in bytes: a page of a listing is some 300 kB


class Entry(Struct, frozen=True):
    """A file of a commit."""

    size: int  # size in bytes
    digest: str  # a hash of the content: the SHA-256 of a large file, the git hash of a small one


class Listing(Struct, frozen=True):
    """The files below a folder of a commit."""

    folder: str  # the folder; empty for all files
    files: Mapping[str, Entry]  # paths in the repository to entries, sorted

    def covers(self, key: str) -> bool:
        """Return whether it covers a path."""
        return not self.folder or key == self.folder or key.startswith(f"{self.folder}/")


@lru_cache(maxsize=256)
def _commit_of(hub: str, repo: str, revision: str) -> str:
    """Return the commit that a branch, tag or reference is now, which this process then keeps.

    Args:
        hub: The URL of the Hub.
        repo: `ORG/NAME`.
        revision: Its name.

    Raises:
        FileNotFoundError: The dataset or the revision does not exist.
        PermissionError: The Hub refuses the token, or the dataset is private and no token is set.
        ConnectionError: The Hub cannot be reached.
    """
    url = f"{hub}/api/datasets/{repo}/revision/{quote(revision, safe='')}"
    answer, _ = _get(url, f"hf://datasets/{repo}@{revision}")
    commit = answer.get("sha") if isinstance(answer, dict) else None
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise ConnectionError(f"hf://datasets/{repo}@{revision}: the answer of {hub} has no commit")
    return commit


_listings: dict[tuple[str, str], list[Listing]] = {}
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def listing_of(root: str, key: str) -> Listing:
    """Return a listing that covers a path: of the folder at the path, or of the folder that contains it.

    Raises:
        FileNotFoundError: The dataset does not exist, or has neither the path nor the folder that
            contains it.
        PermissionError, ConnectionError: As `commit_of`.
    """
    with _lock:  # threads that need the same listing wait for one of them
        listing, folder = known_listing(root, key), key
        while listing is None:
            try:
                listing = Listing(folder, _list(root, folder))
            except FileNotFoundError:
                if not folder:
                    raise
                folder = folder.rpartition("/")[0]  # it may be a file, or a pattern
            else:
                _listings.setdefault((endpoint(), root), []).append(listing)
        return listing


def known_listing(root: str, key: str) -> Listing | None:
    """Return a listing that this process already has and that covers a path, or None."""
    listings = _listings.get((endpoint(), root), ())
    return next((listing for listing in listings if listing.covers(key)), None)


def _list(root: str, folder: str) -> dict[str, Entry]:
    repo, commit = parts_of(root)
    shown = f"{root}/{folder}" if folder else root
    below = folder and f"/{quote(folder)}"
    url: str | None = f"{endpoint()}/api/datasets/{repo}/tree/{commit}{below}?recursive=true"
    files: dict[str, Entry] = {}
    while url is not None:
        page, following = _get(url, shown)
        if not isinstance(page, list):
            raise ConnectionError(f"{shown}: the Hub's answer is not a listing")
        for entry in page:
            if entry["type"] == "file":
                large = entry.get("lfs") or {}
                files[entry["path"]] = Entry(
                    int(large.get("size", entry["size"])), str(large.get("oid", entry["oid"]))
                )
        url = None if following is None else urljoin(url, following)
    return dict(sorted(files.items()))


class _Transient(TruncatedError):
    """A failure after which the same request may succeed."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; the token is not sent to another server."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and urlsplit(newurl)[:2] != urlsplit(req.full_url)[:2]:
            following.remove_header("Authorization")
        return following


def _get(url: str, shown: str) -> tuple[Any, str | None]:
    """Return the JSON that a URL answers, and the URL of the next page or None. `shown` is what errors name."""
    context = ssl.create_default_context()
    if certificate := os.environ.get("BUSHEL_NETWORK_CA"):
        context.load_verify_locations(certificate)
    opener = urllib.request.build_opener(_Redirects, urllib.request.HTTPSHandler(context=context))
    headers = {"User-Agent": "bushel", "Accept": "application/json"}
    if token := authorization().get("authorization"):
        headers["Authorization"] = token

    def once() -> tuple[Any, str | None] | None:
        try:
            with opener.open(
                urllib.request.Request(url, headers=headers), timeout=silence()
            ) as answer:
                data = answer.read(_MOST)
                match = _NEXT.search(answer.headers.get("Link", ""))
                return json.loads(data), None if match is None else match[1]
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _TRY_AGAIN:
                    raise _Transient(f"status code: {error.code}") from error
                if error.code == 404:
                    return None
                if error.code in (401, 403):
                    advice = (
                        "it may be private, gated or misspelt; the "
                        "token comes from HF_TOKEN or `hf auth login`"
                    )
                    raise PermissionError(
                        errno.EACCES, f"the Hub refuses access: {advice}", shown
                    ) from error
                raise ConnectionError(
                    f"{shown}: the Hub answers with status code {error.code}"
                ) from error
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                advice = "set BUSHEL_NETWORK_CA to a file with a certificate to trust"
                raise ConnectionError(
                    f"{shown}: the Hub's certificate is not trusted; {advice}"
                ) from error
            raise _Transient(str(error.reason)) from error
        except (OSError, ValueError) as error:  # silence, a broken connection, or half an answer
            raise _Transient(str(error)) from error

    if (answer := persistently(shown, once)) is None:
        raise FileNotFoundError(
            errno.ENOENT, "the Hub has no such dataset, revision or folder", shown
        )
    return answer


_URL = re.compile(
    r"hf://datasets/(?P<repo>[^/@]+/[^/@]+)(@(?P<revision>refs/(convert|pr)/[^/]+|[^/]+))?(/(?P<key>.*))?"
)
_COMMIT = re.compile("[0-9a-f]{40}")


class HubPath(ObjectPath):
    """The path of a file or folder of a dataset on the Hub, in one commit.

    Attributes:
        root: `hf://datasets/ORG/NAME@COMMIT`.
        key: The path in the repository.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, url: str) -> HubPath:
        """Return the path of a URL. A branch or tag (`main` by default) takes one request per process.

        In the name of a revision, `%2F` is a slash.

        Raises:
            UnsupportedError: The URL does not name a dataset.
            FileNotFoundError: The dataset or the revision does not exist.
            OSError: The Hub refuses, or cannot be reached.
        """
        match = _URL.fullmatch(url)
        if match is None:
            raise UnsupportedError(
                f"{url}: expected hf://datasets/ORG/NAME/path "
                "or hf://datasets/ORG/NAME@REVISION/path"
            )
        revision = unquote(match["revision"] or "main")
        commit = revision
        if not _COMMIT.fullmatch(revision):
            commit = _commit_of(endpoint(), match["repo"], revision)
        key = "/".join(part for part in (match["key"] or "").split("/") if part)
        return cls(f"hf://datasets/{match['repo']}@{commit}", key)

    @staticmethod
    def names_repository(url: str) -> bool:
        """Return whether a URL names a whole dataset, and no file or folder of it."""
        match = _URL.fullmatch(url)
        return match is not None and not (match["key"] or "").strip("/")

    @property
    def immutable(self) -> bool:
        """Whether the file can never be replaced: always, in a commit."""
        return True

    def stat(self) -> ObjectStat:
        """Return size and stamp of the file, from the listing.

        Raises:
            FileNotFoundError: The commit has no such file.
            OSError: The Hub refuses, or cannot be reached.
        """
        entry = listing_of(self.root, self.key).files.get(self.key)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "the commit has no such file", str(self))
        return ObjectStat(entry.size, stamp_of_tag(entry.digest), 0, entry.digest)

    def is_dir(self) -> bool:
        """Return whether there are files below it."""
        return bool(self.known_names())

    def listing(self) -> tuple[list[Self], dict[str, ObjectMeta]]:
        """Return the files and folders in this folder, from the listing of the commit, by which `stat` answers, too."""
        return [
            self / name
            for name in dict.fromkeys(name.partition("/")[0] for name in self.known_names())
        ], {}

    def known_names(self) -> list[str]:
        """Return the names of all files below it, relative to it, in order."""
        prefix = self.key and f"{self.key}/"
        try:
            files = listing_of(self.root, self.key).files
        except FileNotFoundError:
            return []
        return [path.removeprefix(prefix) for path in files if path.startswith(prefix)]

    def _read_once(self) -> bytes:
        if known_listing(self.root, self.key) is not None:
            self.stat()  # a file that the listing lacks is not requested
        return super()._read_once()
