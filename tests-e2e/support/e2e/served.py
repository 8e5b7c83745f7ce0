"""Homes with an engine in them, and the daemon on such a home."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blazar_stubs import StubModel, install_stub, write_stub_model
from e2e.daemon import Daemon, running_daemon
from e2e.home import Home, temporary_home
from e2e.http import Client
from e2e.waiting import eventually

RUNNING: list[Daemon] = []
"""The daemons that this test process runs now, for the report of a test that fails."""


@dataclass(frozen=True, slots=True)
class Served:
    """A daemon on a home of its own.

    Attributes:
        home: The user's home.
        daemon: The running daemon.
    """

    home: Home
    daemon: Daemon

    @property
    def client(self) -> Client:
        """A client of the daemon."""
        return self.daemon.client

    def add_model(self, name: str, **options: Any) -> StubModel:
        """Write a stub model, register it, and wait until the daemon has taken it up by itself."""
        model = add_stub_model(self.home, name, **options)
        eventually(lambda: name in self.models(), what=f"the daemon knows model {name}")
        return model

    def models(self) -> list[str]:
        """Return the models that the daemon lists."""
        return [entry["id"] for entry in self.client.get("/v1/models").json()["data"]]


def add_stub_model(home: Home, name: str, **options: Any) -> StubModel:
    """Write a stub model into a home and register it; options are those of ``write_stub_model``."""
    folder = home.root / "weights"
    folder.mkdir(exist_ok=True)
    model = write_stub_model(folder / f"{name}.gguf", **options)
    home.ok("models", "add", model.path, "--name", name)
    return model


def add_stub_engine(home: Home) -> Path:
    """Install the stub into a home, register it as an engine and return its path."""
    engine = Path(install_stub(home.root / "engine"))
    home.ok("engine", "add-local", engine)
    return engine


@contextmanager
def serving(home: Home) -> Iterator[Daemon]:
    """Run the daemon on a home, and have it reported when a test fails meanwhile."""
    with running_daemon(home) as daemon:
        RUNNING.append(daemon)
        try:
            yield daemon
        finally:
            RUNNING.remove(daemon)


@contextmanager
def serving_stub(config: str) -> Iterator[Served]:
    """Run the daemon on a new home whose engine is the stub."""
    with temporary_home() as home:
        add_stub_engine(home)
        home.configure(config)
        with serving(home) as daemon:
            yield Served(home, daemon)
