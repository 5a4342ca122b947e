"""Requests to the Hugging Face Hub: the commit of a revision, and the files of a commit.

A root is `hf://datasets/ORG/NAME@COMMIT`. Files of a commit never change, so they are listed once
per process.
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
from dataclasses import dataclass
from functools import lru_cache
from http.client import HTTPMessage
from typing import IO, Any
from urllib.parse import quote, urljoin, urlsplit

from .client import authorization, endpoint, parts_of, silence
from .retries import TruncatedError, persistently

_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_MOST = 1 << 28  # largest answer in bytes: a page of a listing is some 300 kB


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a commit."""

    size: int  # size in bytes
    digest: str  # a hash of the content: the SHA-256 of a large file, the git hash of a small one


@dataclass(frozen=True, slots=True)
class Listing:
    """The files below a folder of a commit."""

    folder: str  # the folder; empty for all files
    files: Mapping[str, Entry]  # paths in the repository to entries, sorted

    def covers(self, key: str) -> bool:
        """Return whether it covers a path."""
        return not self.folder or key == self.folder or key.startswith(f"{self.folder}/")


def commit_of(repo: str, revision: str) -> str:
    """Return the commit that a branch, tag or reference is now, which this process then keeps.

    Args:
        repo: `ORG/NAME`.
        revision: Its name.

    Raises:
        FileNotFoundError: The dataset or the revision does not exist.
        PermissionError: The Hub refuses the token, or the dataset is private and no token is set.
        ConnectionError: The Hub cannot be reached.
    """
    return _commit_of(endpoint(), repo, revision)


@lru_cache(maxsize=256)
def _commit_of(hub: str, repo: str, revision: str) -> str:
    url = f"{hub}/api/datasets/{repo}/revision/{quote(revision, safe='')}"
    answer, _ = _get(url, f"hf://datasets/{repo}@{revision}")
    commit = answer.get("sha") if isinstance(answer, dict) else None
    if not isinstance(commit, str) or not re.fullmatch("[0-9a-f]{40}", commit):
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
        listing = known_listing(root, key)
        if listing is None:
            listing = _fetch(root, key)
            _listings.setdefault((endpoint(), root), []).append(listing)
        return listing


def known_listing(root: str, key: str) -> Listing | None:
    """Return a listing that this process already has and that covers a path, or None."""
    listings = _listings.get((endpoint(), root), ())
    return next((listing for listing in listings if listing.covers(key)), None)


def _fetch(root: str, key: str) -> Listing:
    folder = key
    while True:
        try:
            return Listing(folder, _list(root, folder))
        except FileNotFoundError:
            if not folder:
                raise
            folder = folder.rpartition("/")[0]  # it may be a file, or a pattern


def _list(root: str, folder: str) -> dict[str, Entry]:
    repo, commit = parts_of(root)
    shown = f"{root}/{folder}" if folder else root
    below = f"/{quote(folder)}" if folder else ""
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
                        "it may be private, gated or misspelt; the token comes from HF_TOKEN"
                        " or `hf auth login`"
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
