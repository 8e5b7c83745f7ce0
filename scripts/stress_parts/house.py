"""A home with two models and a daemon on it that has memory for one of them at a time."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from blazar_budget import Memory
from blazar_gguf import read_metadata_file
from blazar_store.testing import make_model
from blazar_supervisor.engines.profile import Knobs
from blazar_supervisor.residency.memory_budget import budget_memory
from e2e.daemon import Daemon, wait_until_listening
from e2e.home import Home, temporary_home

CTX = 2048
SLOTS = 4
SPARE_BYTES = 16 << 20
_ROOMY = 1 << 40
_SMALL_MACHINE = Path(__file__).with_name("small_machine.py")


@dataclass(frozen=True, slots=True)
class House:
    """What is stressed.

    Attributes:
        home: The user's home.
        daemon: The daemon.
        models: The names of the models.
        budget_bytes: The memory that the daemon is told the machine has.
    """

    home: Home
    daemon: Daemon
    models: tuple[str, ...]
    budget_bytes: int

    def loads(self) -> int:
        """Return how often a model has been loaded, by the daemon's own account."""
        return sum(" is ready after " in line for line in self.daemon.log().splitlines())


def room_for_one(models: Sequence[Path]) -> int:
    """Return a little more than what the larger of the models needs, in bytes."""
    return max(_need(path) for path in models) + SPARE_BYTES


def _need(path: Path) -> int:
    meta = read_metadata_file(path)
    row = make_model("m", path=path, shards=(path,), ctx_train=meta.context_length, size_bytes=path.stat().st_size)
    return budget_memory(row, (meta,), Knobs(ctx=CTX, slots=SLOTS), Memory(_ROOMY)).need.host


@contextmanager
def house(engine: Path, models: dict[str, Path], *, extra_args: Sequence[str] = ()) -> Iterator[House]:
    """Run a daemon with room for one of ``models``, names to files, until the block ends."""
    budget = room_for_one(tuple(models.values()))
    with temporary_home() as home:
        words = ", ".join(f'"{word}"' for word in extra_args)
        home.configure(f"[defaults]\nctx = {CTX}\nslots = {SLOTS}\nextra_args = [{words}]\n")
        home.ok("engine", "add-local", engine)
        for name, path in models.items():
            home.ok("models", "add", path, "--name", name)
        with _serving(home, budget) as daemon:
            yield House(home, daemon, tuple(models), budget)


@contextmanager
def _serving(home: Home, budget_bytes: int) -> Iterator[Daemon]:
    output = home.root / "serve.out"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(_SMALL_MACHINE), str(budget_bytes), "serve", "--port", "0"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=home.root,
            env={**home.env(), "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )
    daemon = Daemon(home, process, output)
    try:
        wait_until_listening(daemon)
        yield daemon
    finally:
        try:
            daemon.stop()
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
