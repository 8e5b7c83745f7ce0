import re
import subprocess
import sys
from pathlib import Path

import pytest

from blazar_cli.command_table import COMMANDS, HIDDEN

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"


def test_the_reference_says_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "reference", "--check"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


PAGES = sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "reference")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8").replace("\n", " ")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_command_that_a_page_shows_exists(page: Path) -> None:
    known = {entry.name for entry in COMMANDS if entry.name not in HIDDEN}
    shown = set(re.findall(r"\bblazar ([a-z][a-z-]+)\b", page.read_text(encoding="utf-8")))
    # "blazar demo" and the like; words of running text follow the name only in lower-case prose.
    assert {word for word in shown if word not in known} == set()
