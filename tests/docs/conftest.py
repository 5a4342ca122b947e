"""What several tests of the documentation share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from tests.paths import ROOT


@pytest.fixture(scope="module")
def site() -> Iterator[ModuleType]:
    """The module of scripts/assemble_site.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        import assemble_site  # type: ignore[import-not-found]

        yield assemble_site
    sys.modules.pop("assemble_site")
