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

from bushel._runtime.public import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
