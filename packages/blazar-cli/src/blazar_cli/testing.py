"""For tests: a user with directories of its own, whose commands run in this process."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blazar_cli.app import run_command_line


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str


class _Output(io.TextIOWrapper):
    """Standard output that has a ``buffer``, as a real one has, and can be read afterwards."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def text(self) -> str:
        """Return all that was written."""
        self.seek(0)
        return self.read()


class User:
    """Runs ``blazar`` commands. Whoever makes one points the environment at its directories.

    Attributes:
        root: Everything of the user's lies below it.
        data_dir: Blazar's data.
        config_file: The configuration, which need not exist.

    Args:
        root: Of the user.
        make_model: Writes a small model file to a path.
    """

    def __init__(self, root: Path, make_model: Callable[..., object]) -> None:
        self.root = root
        self._make_model = make_model
        self.data_dir = root / "data"
        self.config_file = root / "config.toml"

    def blazar(self, *arguments: str | Path) -> Ended:
        """Run a command to its end."""
        out, err = _Output(), _Output()
        with redirect_stdout(out), redirect_stderr(err):
            status = run_command_line([str(argument) for argument in arguments])
        return Ended(status, out.text(), err.text())

    def ok(self, *arguments: str | Path) -> str:
        """Run a command that has to succeed and return its standard output."""
        ended = self.blazar(*arguments)
        assert ended.status == 0, ended
        return ended.out

    def json(self, *arguments: str | Path) -> Any:
        """Run a command with ``--json`` and return what it printed, decoded."""
        return json.loads(self.ok(*arguments, "--json"))

    def add_model(self, name: str, **header: Any) -> Path:
        """Write a small model, add it under ``name`` and return its path."""
        path = self.root / f"{name}.gguf"
        self._make_model(path, **header)
        self.ok("models", "add", path, "--name", name)
        return path


def typed_gguf(path: Path, kind: str) -> Path:
    """Write a small GGUF file that says it is of a kind (``mmproj``, ``adapter``), and return its path."""
    from blazar_gguf.copying import copy_with_metadata
    from blazar_gguf.testing import tiny_model

    plain = path.with_name(f"{path.name}.plain")
    plain.write_bytes(tiny_model("llama").to_bytes())
    copy_with_metadata(plain, path, {"general.type": kind})
    plain.unlink()
    return path
