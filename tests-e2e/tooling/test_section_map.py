"""`scripts/section_map`: every section of the protocols has its tests, and what is missing is named."""

import sys
from pathlib import Path

import pytest

from e2e.repository import ROOT, run, run_ok

SCRIPT = ROOT / "scripts/section_map"
SMALL = """
[sheets]
x = 2

[cases]
some = ["BC-1"]

[[entry]]
id = "x 1"
title = "One"
tests = ["p:test_a.py::test_one"]

[[entry]]
id = "x 2"
title = "Two"
tests = ["p:test_a.py::test_two", "e2e:test_b.py::test_three"]

[[entry]]
id = "BC-1"
title = "A case"
tests = ["p:test_a.py::test_one"]
"""


def test_every_section_and_case_has_tests_that_exist() -> None:
    assert "openai 11" in run_ok(sys.executable, SCRIPT)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    tests = tmp_path / "packages/blazar-p/tests"
    tests.mkdir(parents=True)
    (tests / "test_a.py").write_text("def test_one(): ...\nasync def test_two(): ...\n")
    (tmp_path / "tests-e2e").mkdir()
    (tmp_path / "tests-e2e/test_b.py").write_text("class TestB:\n    def test_three(self): ...\n")
    (tmp_path / "x.md").write_text("# X\n\n## 1. One\n\n## 2. Two\n")
    return tmp_path


def checked(small: Path, text: str, *arguments: str | Path) -> tuple[int, str]:
    listed = small / "map.toml"
    listed.write_text(text)
    ended = run(sys.executable, SCRIPT, "--map", listed, "--root", small, *arguments)
    return ended.returncode, ended.stderr


def test_a_whole_map_is_fine(small: Path) -> None:
    assert checked(small, SMALL, "--sheets", small) == (0, "")


@pytest.mark.parametrize(
    ("change", "to", "says"),
    [
        ('id = "x 2"', 'id = "x 3"', "x 2 has no entry"),
        ('id = "x 2"', 'id = "x 3"', "x 3 is not among the sheets and cases"),
        ("x = 2", "x = 3", "x 3 has no entry"),
        ('["BC-1"]', '["BC-1", "BC-2"]', "BC-2 has no entry"),
        ('id = "x 2"', 'id = "x 1"', "x 1 stands twice"),
        ('["p:test_a.py::test_one"]', "[]", "has no test"),
        ("test_two", "test_four", "no such test: p:test_a.py::test_four"),
        ("test_b.py", "test_c.py", "no such test: e2e:test_c.py::test_three"),
        ('title = "Two"', 'title = "2"', "x 2: the sheet says 'Two'"),
    ],
)
def test_what_is_missing_is_named(small: Path, change: str, to: str, says: str) -> None:
    status, text = checked(small, SMALL.replace(change, to), "--sheets", small)
    assert status == 1
    assert says in text
