"""Every promise to users has a test that shows it, and no test claims one that nobody made.

promises.toml says the promises; a test that shows one is marked ``@pytest.mark.promise("its id")``.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.repository import ROOT

PROMISES = ROOT / "tests-e2e/promises.toml"


def promised() -> dict[str, str]:
    listed = tomllib.loads(PROMISES.read_text(encoding="utf-8"))["promise"]
    ids = [promise["id"] for promise in listed]
    assert len(ids) == len(set(ids)), "an id stands twice"
    return {promise["id"]: promise["text"] for promise in listed}


def marked_ids(source: str) -> Iterator[str]:
    """Yield the ids of every ``pytest.mark.promise(...)`` in a test file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise":
            for argument in node.args:
                assert isinstance(argument, ast.Constant), ast.unparse(node)
                yield str(argument.value)


def shown() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for folder in ("tests-e2e", "packages", "stubs"):
        for file in (ROOT / folder).rglob("test_*.py"):
            for promise in marked_ids(file.read_text(encoding="utf-8")):
                found.setdefault(promise, []).append(file.relative_to(ROOT))
    return found


def test_every_promise_has_a_test() -> None:
    assert set(promised()) - set(shown()) == set()


def test_every_marked_test_keeps_a_promise_that_was_made() -> None:
    unknown = {promise: files for promise, files in shown().items() if promise not in promised()}
    assert unknown == {}


@pytest.mark.parametrize("promise", sorted(promised()))
def test_a_promise_is_an_id_and_a_sentence(promise: str) -> None:
    assert re.fullmatch(r"[a-z]+(:[a-z0-9-]+){1,2}", promise)
    assert promised()[promise].endswith(".")


def test_marks_are_found_on_functions_classes_and_modules() -> None:
    source = 'pytestmark = [pytest.mark.promise("a:b")]\n@pytest.mark.promise("c:d")\ndef test(): ...\n'
    assert set(marked_ids(source)) == {"a:b", "c:d"}
