"""`scripts/check` names each check, its time, and the one that failed."""

import re
import sys
import tomllib
from pathlib import Path

from e2e.repository import ROOT, run, run_ok


def test_a_check_that_passes_is_one_line_with_its_time() -> None:
    assert re.fullmatch(r"ok +changelogs +[\d.]+ s\n", run_ok(sys.executable, ROOT / "scripts/check", "changelogs"))


def test_a_check_that_fails_is_named_with_what_it_said_and_how_to_run_it_alone(tmp_path: Path) -> None:
    # A tool that fails in the place of the real one: the checks look beside the interpreter first.
    environment = tmp_path / "bin"
    environment.mkdir()
    (environment / "python3").symlink_to(sys.executable)
    (environment / "codespell").write_text("#!/bin/sh\necho 'teh ==> the'\nexit 65\n", encoding="utf-8")
    (environment / "codespell").chmod(0o755)
    done = run(environment / "python3", ROOT / "scripts/check", "spelling")
    assert done.returncode == 1
    assert re.search(r"^FAILED +spelling +[\d.]+ s\n\$ codespell\nteh ==> the$", done.stdout, re.MULTILINE)
    assert "check: failed: spelling. Run one alone with `just spelling`." in done.stdout


def test_an_unknown_check_is_refused_with_those_there_are() -> None:
    done = run(sys.executable, ROOT / "scripts/check", "nonsense")
    assert done.returncode == 2
    assert "no such check: nonsense" in done.stderr


def test_every_python_program_without_a_suffix_is_known_to_the_linter() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["extend-include"]
    programs = [
        f"scripts/{file.name}"
        for file in (ROOT / "scripts").iterdir()
        if file.is_file() and not file.suffix and b"python3" in file.read_bytes().split(b"\n", 1)[0]
    ]
    assert sorted(configured) == sorted(programs)


def test_every_check_has_a_recipe_of_its_own() -> None:
    recipes = set(run_ok("just", "--justfile", ROOT / "justfile", "--summary").split())
    shown = run_ok(sys.executable, ROOT / "scripts/check", "--help")
    listed = re.search(r"of:\s+(.+?)\s+\(default", shown, re.DOTALL)
    assert listed
    names = {re.sub(r"-(linux|darwin)$", "", name.strip()) for name in re.split(r",\s*", listed[1])}
    assert {"test" if name == "tests" else name for name in names} <= recipes
