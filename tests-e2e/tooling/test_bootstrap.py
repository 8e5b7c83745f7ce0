"""`scripts/bootstrap-uv` finds a uv, or fetches a private one into the checkout, or says what to install."""

import os
import shutil
import sys
import tomllib
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from e2e.repository import ROOT, run

TOOLS = ("sh", "dirname", "awk", "rm", "env", "cat")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with what the script reads, and `bin/` for what is on PATH."""
    checkout = tmp_path / "check out"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/bootstrap-uv", checkout / "scripts")
    shutil.copy(ROOT / "uv.lock", checkout)
    (checkout / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "0"\n', encoding="utf-8")
    (checkout / "bin").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found, tool
        (checkout / "bin" / tool).symlink_to(found)
    return checkout


def put_program(checkout: Path, name: str, script: str) -> None:
    program = checkout / "bin" / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def bootstrap(checkout: Path) -> CompletedProcess[str]:
    return run("sh", checkout / "scripts/bootstrap-uv", cwd=checkout, PATH=str(checkout / "bin"), UV="")


def test_a_uv_on_path_is_used(checkout: Path) -> None:
    put_program(checkout, "uv", "exit 0")
    done = bootstrap(checkout)
    assert (done.returncode, done.stdout) == (0, f"{checkout}/bin/uv\n")
    assert not (checkout / ".uv").exists()


def test_a_uv_that_cannot_read_the_lock_is_passed_over(checkout: Path) -> None:
    put_program(checkout, "uv", '[ "$1" = --version ]')
    done = bootstrap(checkout)
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr


def test_without_uv_and_without_python_it_says_what_to_install(checkout: Path) -> None:
    done = bootstrap(checkout)
    assert done.returncode == 1
    assert "apt install python3 python3-venv" in done.stderr
    assert done.stdout == ""


def test_a_python_that_is_too_old_is_passed_over(checkout: Path) -> None:
    put_program(checkout, "python3", "exit 1")
    put_program(checkout, "python3.12", 'case "$1" in -c) exit 0 ;; *) echo "$0" >&2; exit 1 ;; esac')
    done = bootstrap(checkout)
    assert done.returncode == 1
    assert "python3.12 cannot make a virtual environment" in done.stderr


@pytest.mark.build
@pytest.mark.timeout(600)
def test_without_uv_a_private_one_is_fetched_as_locked(checkout: Path) -> None:
    # sys.executable may be a virtual environment's: the script needs one that can make its own.
    python = Path(getattr(sys, "_base_executable", sys.executable))
    (checkout / "bin/python3.11").symlink_to(python)
    done = bootstrap(checkout)
    assert done.returncode == 0, done.stderr
    private = Path(done.stdout.strip())
    assert private == checkout / ".uv/bin/uv"
    locked = {p["name"]: p["version"] for p in tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))["package"]}
    assert run(private, "--version").stdout.split()[1] == locked["uv"]
    assert bootstrap(checkout).stdout == done.stdout


def test_the_test_script_teaches_its_use(tmp_path: Path) -> None:
    done = run(ROOT / "scripts/test", "--help", cwd=tmp_path, PATH=os.environ["PATH"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: scripts/test" in done.stdout
