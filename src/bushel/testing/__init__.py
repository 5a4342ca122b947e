"""The conformance suite for containers, codecs, sources and storage back-ends.

It does not need pytest. A failing check raises a `ConformanceError` with the expected and the found
value:

    from bushel.testing import Golden, check_readable
    check_readable("shelf", Golden(Path("words.shelf"), [{"text": "one"}, {"text": "two"}], ["a",
    "b"]))

To run every check as a test of its own:

    @pytest.mark.parametrize("name", READABLE_CHECKS)
    def test_container(name, tmp_path):
        READABLE_CHECKS[name](Readable("shelf", golden, tmp_path))
"""

from .codecs import check_codec
from .expect import ConformanceError, InapplicableError
from .readable import READABLE_CHECKS, Golden, Readable, check_readable
from .sources import check_source
from .storage import check_storage

__all__ = [
    "READABLE_CHECKS",
    "ConformanceError",
    "Golden",
    "InapplicableError",
    "Readable",
    "check_codec",
    "check_readable",
    "check_source",
    "check_storage",
]
