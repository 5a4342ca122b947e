"""Public programs of the originals, with only their import changed, print the same over the drop-ins."""

import public_programs
import pytest
from tests.paths import ROOT

PROGRAMS = public_programs.programs()
PAGES = {"webdataset", "gulpio2", "ffrecord", "mxnet", "granular"}
CASES = [(name, environment) for name, program in PROGRAMS.items() for environment in program.environments]


@pytest.mark.interop
@pytest.mark.parametrize(("name", "environment"), CASES, ids=lambda value: value)
def test_a_program_gives_the_same(name: str, environment: str) -> None:
    program = PROGRAMS[name]
    try:
        wanted = public_programs.output(program, environment, dropin=False)
    except public_programs.NotRunError as error:
        pytest.skip(str(error))
    assert public_programs.output(program, environment, dropin=True) == wanted
    assert len(wanted) > 2


@pytest.mark.parametrize("original", sorted(PAGES))
def test_the_pages_name_the_programs(original: str) -> None:
    page = (ROOT / "docs" / f"compat-{original}.md").read_text("utf-8")
    begin = " ".join(page.split("\n## ", 1)[0].split())
    links = {f"[{program.title}]({program.url})" for program in PROGRAMS.values() if original in program.imports}
    assert {link for link in links if link not in begin} == set()
