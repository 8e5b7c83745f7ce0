"""`scripts/release.py` moves the heading, sets the version, widens the neighbours' ranges, and refuses nonsense."""

import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from e2e.repository import ROOT, run
from e2e.workspace import SmallWorkspace, make_small_workspace

CHANGELOG = "packages/blazar-leaf/CHANGELOG.md"


@pytest.fixture
def small(tmp_path: Path) -> SmallWorkspace:
    return make_small_workspace(tmp_path)


def release(small: SmallWorkspace, package: str, version: str, day: str = "2026-03-01") -> CompletedProcess[str]:
    command = (sys.executable, ROOT / "scripts/release.py", "--root", small.root, "--date", day, package, version)
    return run(*command)


def unreleased(small: SmallWorkspace, kind: str, item: str) -> None:
    text = small.read(CHANGELOG)
    small.write(CHANGELOG, text.replace("## Unreleased\n", f"## Unreleased\n\n### {kind}\n\n- {item}\n", 1))


def test_the_first_release_takes_what_is_unreleased(small: SmallWorkspace) -> None:
    done = release(small, "blazar-leaf", "0.1.0")
    assert done.returncode == 0, done.stderr
    assert small.read(CHANGELOG) == (
        "# Changelog of blazar-leaf\n\n## Unreleased\n\n## 0.1.0 - 2026-03-01\n\n### Added\n\n- First version.\n"
    )
    assert "git tag blazar-leaf-v0.1.0" in done.stdout
    assert run(sys.executable, ROOT / "scripts/check_changelogs.py", "--root", small.root).stdout == ""


def test_a_release_out_of_the_range_of_its_neighbours_moves_their_range(small: SmallWorkspace) -> None:
    release(small, "blazar-leaf", "0.1.0")
    unreleased(small, "Breaking", "Everything is different.")
    done = release(small, "blazar-leaf", "0.2.0")
    assert done.returncode == 0, done.stderr
    assert 'version = "0.2.0"' in small.read("packages/blazar-leaf/pyproject.toml")
    assert '"blazar-leaf>=0.2,<0.3"' in small.read("packages/blazar-middle/pyproject.toml")
    assert '"blazar-leaf[extra]>=0.2,<0.3"' in small.read("packages/blazar-top/pyproject.toml")
    assert 'version = "0.1.0"' in small.read("packages/blazar-top/pyproject.toml")


def test_a_fix_leaves_the_neighbours_alone(small: SmallWorkspace) -> None:
    release(small, "blazar-leaf", "0.1.0")
    before = small.read("packages/blazar-middle/pyproject.toml")
    unreleased(small, "Fixed", "A crash.")
    assert release(small, "blazar-leaf", "0.1.1").returncode == 0
    assert small.read("packages/blazar-middle/pyproject.toml") == before


@pytest.mark.parametrize(
    ("package", "version", "change", "text"),
    [
        pytest.param("blazar-nothing", "0.2.0", None, "there is no package 'blazar-nothing' to release", id="no such package"),
        pytest.param("blazar-leaf", "0.2", ("Fixed", "A crash."), "'0.2' is not a version: write three numbers", id="two numbers"),
        pytest.param("blazar-leaf", "0.1.1", None, "nothing stands under 'Unreleased'", id="nothing changed"),
        pytest.param("blazar-leaf", "0.1.0", ("Fixed", "A crash."), "0.1.0 is too small", id="taken"),
        pytest.param("blazar-leaf", "0.1.1", ("Added", "Shards."), "changes under Added make it 0.2.0 or later", id="too small"),
    ],
)  # fmt: skip
def test_a_release_that_would_be_wrong_is_refused_and_writes_nothing(
    small: SmallWorkspace, package: str, version: str, change: tuple[str, str] | None, text: str
) -> None:
    release(small, "blazar-leaf", "0.1.0")
    if change:
        unreleased(small, *change)
    before = {file: file.read_bytes() for file in small.root.rglob("*") if file.is_file()}
    done = release(small, package, version)
    assert done.returncode == 1
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert {file: file.read_bytes() for file in small.root.rglob("*") if file.is_file()} == before
