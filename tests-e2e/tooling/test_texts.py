"""The texts at the root tell the truth: their links lead somewhere, their commands exist."""

import re
from pathlib import Path

import pytest

from e2e.repository import ROOT, run_ok

TEXTS = sorted(
    path.relative_to(ROOT)
    for path in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("packages/*/*.md"),
        *ROOT.glob("stubs/*.md"),
    ]
)


@pytest.mark.parametrize("text", TEXTS, ids=str)
def test_a_link_to_a_file_leads_to_one(text: Path) -> None:
    found = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", (ROOT / text).read_text(encoding="utf-8"))
    missing = [link for link in found if "://" not in link and not (ROOT / text.parent / link).exists()]
    assert missing == []


def test_the_just_recipes_that_are_spoken_of_exist() -> None:
    known = set(run_ok("just", "--justfile", ROOT / "justfile", "--summary").split())
    spoken = {
        word for text in TEXTS for word in re.findall(r"`just ([a-z-]+)", (ROOT / text).read_text(encoding="utf-8"))
    }
    assert spoken - known == set()


def test_the_scripts_that_are_spoken_of_exist() -> None:
    spoken = {
        word
        for text in TEXTS
        for word in re.findall(r"`?(scripts/[a-z_-]+(?:\.py)?)", (ROOT / text).read_text("utf-8"))
    }
    assert {word for word in spoken if not (ROOT / word).exists()} == set()


@pytest.mark.parametrize("folder", ["README.md", "CONTRIBUTING.md", "docs", "packages", "scripts", "justfile", ".ci"])
def test_no_file_names_the_host_of_a_package_registry(folder: str) -> None:
    # Whoever has a mirror configures it once; a name in a file would go around it.
    hosts = re.compile(rb"pypi\.org|pythonhosted\.org|registry\.npmjs|deb\.debian\.org")
    start = ROOT / folder
    files = [start] if start.is_file() else [path for path in start.rglob("*") if path.is_file()]
    named = [str(path.relative_to(ROOT)) for path in files if path.suffix != ".pyc" and hosts.search(path.read_bytes())]
    assert named == []
