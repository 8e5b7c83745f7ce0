"""`scripts/check_changelogs.py` finds what a changelog gets wrong and says where."""

import sys
from pathlib import Path

import pytest

from e2e.repository import ROOT, run
from e2e.workspace import make_small_workspace

GOOD = """\
# Changelog of blazar-leaf

The format is Keep a Changelog.

## Unreleased

### Fixed

- A header with a zero dimension is refused
  with a typed error.

## 0.2.0 - 2026-02-01

### Breaking

- `open` takes a path only.

### Added

- Shards.

## 0.1.0 - 2026-01-01

### Added

- First version.
"""


def faults(tmp_path: Path, text: str, version: str = "0.2.0") -> list[str]:
    small = make_small_workspace(tmp_path)
    small.add_package("blazar-leaf", version=version)
    small.write("packages/blazar-leaf/CHANGELOG.md", text)
    done = run(sys.executable, ROOT / "scripts/check_changelogs.py", "--root", tmp_path)
    assert done.returncode == (1 if done.stdout else 0), done.stderr
    return [line.removeprefix("packages/blazar-leaf/CHANGELOG.md:") for line in done.stdout.splitlines()]


def test_a_good_changelog_has_no_faults(tmp_path: Path) -> None:
    assert faults(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        pytest.param("# Changelog of blazar-leaf", "# Changes", "1: the first line must be '# Changelog of blazar-leaf'", id="title"),
        pytest.param("## Unreleased\n", "## Next\n", "5: the first version heading must be '## Unreleased'", id="no unreleased"),
        pytest.param(
            "## 0.2.0 - 2026-02-01",
            "## [0.2.0] 2026-02-01",
            "12: '## [0.2.0] 2026-02-01' is not a release heading: write '## 0.2.0 - 2026-01-31'",
            id="heading",
        ),
        pytest.param("2026-02-01", "2026-02-31", "12: 2026-02-31 is not a day of the calendar", id="no such day"),
        pytest.param("2026-02-01", "2025-12-31", "12: 0.2.0 is dated before 0.1.0", id="days out of order"),
        pytest.param("2026-02-01", "2999-01-01", "12: 0.2.0 is dated 2999-01-01, which is still to come", id="future"),
        pytest.param(
            "## 0.1.0", "## 0.3.0", "12: 0.2.0 stands above 0.3.0: newest first, each once", id="versions out of order"
        ),
        pytest.param(
            "### Breaking", "### Removed", "14: 'Removed' is not one of: Breaking, Added, Changed, Fixed", id="unknown kind"
        ),
        pytest.param(
            "### Added\n\n- Shards.", "### Breaking\n\n- Shards.",
            "18: 'Breaking' stands twice under the same version: join them", id="kind twice",
        ),
        pytest.param("- Shards.\n", "", "12: 'Added' is empty: remove it or say what changed", id="empty kind"),
        pytest.param("- Shards.", "- Shards", "12: an item is a sentence and ends with a full stop: 'Shards'", id="no stop"),
        pytest.param("- Shards.", "Shards.", "20: only headings and '- ' items stand below a version", id="prose"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_line(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in GOOD
    assert faults(tmp_path, GOOD.replace(old, new, 1)) == [fault]


def test_the_newest_release_is_the_version_of_the_package(tmp_path: Path) -> None:
    assert faults(tmp_path, GOOD, version="0.1.0") == ["12: the newest release is 0.2.0, pyproject.toml says 0.1.0"]


def test_a_missing_changelog_is_a_fault(tmp_path: Path) -> None:
    small = make_small_workspace(tmp_path)
    (small.root / "packages/blazar-leaf/CHANGELOG.md").unlink()
    done = run(sys.executable, ROOT / "scripts/check_changelogs.py", "--root", tmp_path)
    assert done.stdout == "packages/blazar-leaf/CHANGELOG.md: missing; every published package has one\n"


def test_the_changelogs_of_this_workspace_are_in_order() -> None:
    done = run(sys.executable, ROOT / "scripts/check_changelogs.py")
    assert (done.returncode, done.stdout) == (0, "")
