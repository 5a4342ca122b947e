"""Addresses of the Hugging Face Hub, and the token of its user."""

from __future__ import annotations

import os
import re
from pathlib import Path

_ROOT = re.compile(r"hf://datasets/(?P<repo>[^/@]+/[^/@]+)@(?P<commit>[0-9a-f]{40})")


def endpoint() -> str:
    """Return the URL of the Hub: `HF_ENDPOINT`, by default https://huggingface.co."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def authorization() -> dict[str, str]:
    """Return the header with the token of the environment (`HF_TOKEN`) or of `hf auth login`, if one is set."""
    token = os.environ.get("HF_TOKEN", "").strip()
    if not token:
        home = os.environ.get("HF_HOME") or os.path.join(
            os.path.expanduser("~"), ".cache", "huggingface"
        )
        path = Path(os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token"))
        try:
            token = path.read_text("utf-8").strip()
        except (FileNotFoundError, PermissionError, NotADirectoryError):
            return {}
    if token:
        return {"authorization": f"Bearer {token}"}
    return {}


def files_url(root: str) -> str:
    """Return the URL below which the files of a commit are."""
    repo, commit = parts_of(root)
    return f"{endpoint()}/datasets/{repo}/resolve/{commit}"


def parts_of(root: str) -> tuple[str, str]:
    """Return the repository and the commit of `hf://datasets/ORG/NAME@COMMIT`."""
    match = _ROOT.fullmatch(root)
    if match is None:
        raise ValueError(f"{root}: expected hf://datasets/ORG/NAME@COMMIT")
    return match["repo"], match["commit"]
