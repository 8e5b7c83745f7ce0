"""The checkout that the tests belong to, and its programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def run(*command: str | Path, cwd: Path = ROOT, timeout_s: float = 300, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return its output, whatever its exit status.

    Args:
        command: The program and its arguments.
        cwd: Where it runs.
        timeout_s: Seconds until it is killed and the test fails.
        env: Additions to this process's environment.
    """
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def run_ok(*command: str | Path, cwd: Path = ROOT, timeout_s: float = 300, **env: str) -> str:
    """Run a program that has to succeed and return its standard output."""
    done = run(*command, cwd=cwd, timeout_s=timeout_s, **env)
    assert done.returncode == 0, f"{command[0]} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def find_uv() -> Path:
    """Return the uv beside this interpreter (blazar-cli depends on it), else the one on PATH."""
    found = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert found, "uv is a dependency of blazar-cli; the environment is not in sync with uv.lock"
    return Path(found)
