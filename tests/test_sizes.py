"""Files, functions and lists of parameters stay short enough to be read at once, and the source does not grow."""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import bushel

HOUSE = Path(bushel.__file__).parent
FILES = [*sorted(HOUSE.rglob("*.py")), *sorted(HOUSE.rglob("*.pyi"))]

MOST_LINES = 450  # of at most 100 columns
MOST_LINES_OF_A_FUNCTION = 60
LONG_FUNCTIONS = {"_dataset/open/open.py:open"}
"""Functions that are longer, and are to be divided."""

MOST_PARAMETERS = 8

MOST_OF = {"tokens": 599_898, "conditional expressions": 1_262, "fillers": 80}
"""What the source may have of these, without drop-ins, comments and docstrings. Lower them after a landing."""

MOST_TOKENS_OF_A_LINE = 9.2

FILLERS = {
    *("own", "one", "found", "given", "known", "made", "there", "here"),
    *("asked", "wanted", "kept", "held", "each", "done", "others", "both"),
}
"""Names that say nothing about the value that is assigned to them."""

PUBLIC = {
    "_dataset/open/indexing.py:index",
    "_dataset/open/open.py:open",
    "_dataset/views/dataset.py:Dataset.windows",
    "_runtime/parallel.py:parallel_map",
    "_writer/writer.py:Writer.__init__",
    "_pack/packing.py:convert",
    "_pack/packing.py:pack",
    "_pack/reshape.py:split",
    "integrity/repair_dataset.py:repair",
    "integrity/verify_dataset.py:verify",
}
"""Public functions whose options are keywords that users write."""

OF_ORIGINALS = {
    "compat/ffrecord/torch/dataloader.py:DataLoader.__init__",
    "compat/granular/loader.py:Loader.__init__",
    "compat/gulpio2/adapters.py:Custom20BNCsvWebmAdapter.__init__",
    "compat/gulpio2/adapters.py:Custom20BNJsonVideoAdapter.__init__",
    "compat/mxnet/gluon/data/dataloader.py:DataLoader.__init__",
    "compat/mxnet/image/augment.py:CreateAugmenter",
    "compat/mxnet/image/iterator.py:ImageIter.__init__",
    "compat/mxnet/io/record_iter.py:ImageRecordIter.__init__",
    "compat/webdataset/compat.py:WebDataset.__init__",
    "compat/webdataset/wids/dataset.py:ShardListDataset.__init__",
    "compat/webdataset/wids/samplers.py:DistributedChunkedSampler",
    "compat/webdataset/writer.py:TarWriter.__init__",
}
"""Drop-ins that have the parameters of what they replace."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of(node: ast.AST, names: tuple[str, ...] = ()) -> Iterator[tuple[str, Function]]:
    """Yield the functions of a module with their dotted names, methods and inner functions included."""
    for each in ast.iter_child_nodes(node):
        inside = names
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = (*names, each.name)
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield ".".join(inside), each
        yield from functions_of(each, inside)


@cache
def all_functions() -> dict[str, tuple[int, int]]:
    """Return the lines and parameters of every function of the source, by its file and name."""
    return {
        f"{path.relative_to(HOUSE)}:{name}": (lines_of(function), parameters_of(function))
        for path in FILES
        if path.suffix == ".py"
        for name, function in functions_of(ast.parse(path.read_text("utf-8")))
    }


def lines_of(function: Function) -> int:
    """Return the number of lines of a function's body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameters_of(function: Function) -> int:
    """Return the number of parameters of a function, without `self` and `cls`."""
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [each.arg for each in (given.vararg, given.kwarg) if each is not None]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def tokens_of(path: Path, docstrings: set[int]) -> int:
    """Return the number of tokens of a file outside docstrings; an f-string is one token, as before 3.12."""
    count, inside = 0, 0
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            name = tokenize.tok_name[token.type]
            if token.start[0] in docstrings:
                continue
            count += name in ("NAME", "OP", "NUMBER", "STRING", "FSTRING_START") and not inside
            inside += (name == "FSTRING_START") - (name == "FSTRING_END")
    return count


def counts_of(path: Path) -> Counter[str]:
    """Return how many tokens, lines of code, conditional expressions and fillers a file has."""
    text = path.read_text("utf-8")
    counts: Counter[str] = Counter()
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.IfExp):
            counts["conditional expressions"] += 1
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            counts["fillers"] += node.id in FILLERS
    for number, line in enumerate(text.splitlines(), 1):
        counts["code"] += bool(line.strip()) and line.strip()[0] != "#" and number not in docstrings
    counts["tokens"] = tokens_of(path, docstrings)
    return counts


@pytest.fixture(scope="module")
def counts() -> Counter[str]:
    """Return the sum over the source without drop-ins."""
    files = [path for path in FILES if path.suffix == ".py" and "compat" not in path.relative_to(HOUSE).parts]
    return sum((counts_of(path) for path in files), Counter())


@pytest.mark.parametrize("what", MOST_OF)
def test_the_source_does_not_grow(counts: Counter[str], what: str) -> None:
    more = counts[what] - MOST_OF[what]
    assert more <= 0, (
        f"src/bushel has {counts[what]:,} {what} without drop-ins, {more:,} more than MOST_OF says: a new feature means"
        " that as much is removed elsewhere"
    )


def test_the_source_does_not_get_denser(counts: Counter[str]) -> None:
    assert counts["tokens"] / counts["code"] <= MOST_TOKENS_OF_A_LINE


def test_files_are_short() -> None:
    lines = {str(path.relative_to(HOUSE)): len(path.read_text("utf-8").splitlines()) for path in FILES}
    assert not {name: length for name, length in lines.items() if length > MOST_LINES}


def test_functions_are_short() -> None:
    long = {name for name, (lines, _) in all_functions().items() if lines > MOST_LINES_OF_A_FUNCTION}
    assert long == LONG_FUNCTIONS


def test_only_public_functions_have_many_parameters() -> None:
    many = {name for name, (_, parameters) in all_functions().items() if parameters > MOST_PARAMETERS}
    assert many == PUBLIC | OF_ORIGINALS, "group the options of a private function in a frozen struct"


def test_functions_are_found_wherever_they_are() -> None:
    tree = ast.parse(
        "class A:\n    def f(self, a, *b, c=1, **d):\n        '''Text.'''\n        def g(): pass\n        return 1"
    )
    found = {name: (lines_of(function), parameters_of(function)) for name, function in functions_of(tree)}
    assert found == {"A.f": (2, 4), "A.f.g": (1, 0)}
