"""`scripts/affected` names what a change touches, through the dependency graph."""

import sys
from pathlib import Path

import pytest

from e2e.repository import ROOT, run, run_ok
from e2e.workspace import SmallWorkspace, make_small_workspace

EVERYTHING = ["blazar-alone", "blazar-leaf", "blazar-middle", "blazar-top", "tests-e2e"]


@pytest.fixture
def small(tmp_path: Path) -> SmallWorkspace:
    return make_small_workspace(tmp_path)


def affected(small: SmallWorkspace, *arguments: str) -> list[str]:
    return run_ok(sys.executable, ROOT / "scripts/affected", "--root", small.root, *arguments).split()


def test_nothing_changed_touches_nothing(small: SmallWorkspace) -> None:
    assert affected(small) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(
            "packages/blazar-top/src/blazar_top/x.py", ["blazar-top", "tests-e2e"], id="a source reaches itself"
        ),
        pytest.param(
            "packages/blazar-leaf/src/blazar_leaf/x.py",
            ["blazar-leaf", "blazar-middle", "blazar-top", "tests-e2e"],
            id="a leaf's source reaches all above it",
        ),
        pytest.param(
            "packages/blazar-middle/pyproject.toml",
            ["blazar-middle", "blazar-top", "tests-e2e"],
            id="a pyproject counts as source",
        ),
        pytest.param("packages/blazar-leaf/tests/test_leaf.py", ["blazar-leaf"], id="a test reaches its package alone"),
        pytest.param("packages/blazar-leaf/README.md", ["blazar-leaf"], id="a text reaches its package alone"),
        pytest.param("uv.lock", EVERYTHING, id="the lock reaches everything"),
        pytest.param("tests-e2e/test_more.py", ["tests-e2e"], id="an end-to-end test reaches itself"),
        pytest.param("docs/reference/errors.md", ["tests-e2e"], id="a page is checked end to end"),
        pytest.param("README.md", [], id="the front page reaches nothing"),
    ],
)
def test_a_changed_file_touches(small: SmallWorkspace, path: str, expected: list[str]) -> None:
    before = small.read(path) if (small.root / path).exists() else ""
    small.write(path, f"{before}# changed\n")
    assert affected(small) == expected


def test_a_package_whose_tests_use_the_changed_one_is_touched(small: SmallWorkspace) -> None:
    small.write("packages/blazar-alone/tests/test_alone.py", "from blazar_leaf.testing import Fake\n")
    small.git("commit", "--quiet", "--all", "--message=use")
    small.write("packages/blazar-leaf/src/blazar_leaf/__init__.py", "x = 1\n")
    assert affected(small) == EVERYTHING


def test_commits_since_the_base_count_as_much_as_the_working_tree(small: SmallWorkspace) -> None:
    small.git("checkout", "--quiet", "-b", "topic")
    small.write("packages/blazar-alone/src/blazar_alone/__init__.py", "x = 1\n")
    small.git("commit", "--quiet", "--all", "--message=change")
    assert affected(small) == ["blazar-alone", "tests-e2e"]
    assert affected(small, "HEAD") == []


def test_a_removed_file_counts(small: SmallWorkspace) -> None:
    (small.root / "packages/blazar-top/src/blazar_top/__init__.py").unlink()
    assert affected(small) == ["blazar-top", "tests-e2e"]


def test_paths_are_the_folders_with_tests(small: SmallWorkspace) -> None:
    small.write("packages/blazar-top/src/blazar_top/x.py", "")
    assert affected(small, "--paths") == ["packages/blazar-top/tests", "tests-e2e"]


def test_an_unknown_base_is_said_in_git_s_own_words(small: SmallWorkspace) -> None:
    done = run(sys.executable, ROOT / "scripts/affected", "--root", small.root, "no-such-commit")
    assert done.returncode == 1
    assert "no-such-commit" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_real_workspace_has_gguf_under_budget_and_cli_over_everything() -> None:
    listed = run_ok(sys.executable, ROOT / "scripts/affected", "--all").split()
    assert listed.index("blazar-gguf") < listed.index("blazar-budget") < listed.index("blazar-cli")
    assert listed.index("blazar-cli") < listed.index("blazar")
