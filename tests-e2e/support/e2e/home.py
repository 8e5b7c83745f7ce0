"""A user's home for one test: directories of its own, and the `blazar` command in it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

COMMAND_TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True)
class Home:
    """Everything that a `blazar` command of this test sees of the user who runs it."""

    root: Path

    @property
    def data_dir(self) -> Path:
        """Where Blazar keeps its data."""
        return self.root / "data" / "blazar"

    @property
    def run_dir(self) -> Path:
        """Sockets, secrets, pid files and the daemon's log."""
        return self.data_dir / "run"

    @property
    def control_socket(self) -> Path:
        """The daemon's own socket."""
        return self.run_dir / "control.sock"

    @property
    def daemon_log(self) -> Path:
        """The daemon's log."""
        return self.run_dir / "daemon.log"

    @property
    def config_file(self) -> Path:
        """The configuration, which need not exist."""
        return self.root / "config" / "blazar" / "config.toml"

    def env(self, **more: str) -> dict[str, str]:
        """Return the environment of a command: nothing of the developer's own Blazar or Ollama."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("BLAZAR_", "OLLAMA_", "XDG_"))
        }
        return {
            **kept,
            "HOME": str(self.root),
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "XDG_DATA_HOME": str(self.root / "data"),
            "XDG_CACHE_HOME": str(self.root / "cache"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "PYTHONWARNINGS": "error",
            "NO_COLOR": "1",
            **more,
        }

    def configure(self, text: str) -> None:
        """Write config.toml, as an editor does: a new file in the old one's place."""
        self.config_file.parent.mkdir(parents=True, exist_ok=True)
        partial = self.config_file.with_suffix(".new")
        partial.write_text(text, encoding="utf-8")
        partial.replace(self.config_file)

    def blazar(
        self,
        *arguments: str | Path,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = COMMAND_TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end and return what it printed, whatever its exit status."""
        return subprocess.run(
            blazar_command(*arguments),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            cwd=self.root,
            env=self.env(**(env or {})),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def ok(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run a command that has to succeed and return its standard output."""
        done = self.blazar(*arguments, stdin=stdin)
        assert done.returncode == 0, f"blazar {arguments} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *arguments: str | Path) -> Any:
        """Run a command with ``--json`` and return what it printed, decoded."""
        return json.loads(self.ok(*arguments, "--json"))

    def processes(self) -> list[psutil.Process]:
        """Return the processes there are whose command line or working directory is in this home."""
        return [process for process in psutil.process_iter() if _belongs(process, str(self.root))]


def blazar_command(*arguments: str | Path) -> list[str]:
    """Return the argument list of a `blazar` command of this checkout."""
    return [sys.executable, "-m", "blazar_cli.main", *map(str, arguments)]


def _belongs(process: psutil.Process, root: str) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        words = process.cmdline()
        return any(root in word for word in words) or process.environ().get("HOME") == root
    except psutil.Error:
        return False  # it ended meanwhile, or is not ours to look at


@contextmanager
def temporary_home() -> Iterator[Home]:
    """Make a home; whatever still runs in it afterwards is killed, and its being there fails the test."""
    # Not pytest's tmp_path: a unix socket's path may have 107 bytes at most.
    root = Path(tempfile.mkdtemp(prefix="bz-")).resolve()
    home = Home(root)
    try:
        yield home
    finally:
        left = home.processes()
        described = [f"{process.pid}: {_command_line(process)}" for process in left]
        for process in left:
            _kill(process)
        shutil.rmtree(root, ignore_errors=True)
    assert not described, f"processes left running: {described}"


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return "ended"


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
        process.wait(timeout=10)
    except psutil.Error:
        return
