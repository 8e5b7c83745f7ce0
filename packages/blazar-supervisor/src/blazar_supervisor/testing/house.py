"""A house for integration tests: a data directory, one engine, models as asked for, and the real host over them."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import psutil

from blazar_budget import Machine
from blazar_routing.ticket import Ticket
from blazar_store.layout import Layout
from blazar_store.settings import Settings
from blazar_store.testing import make_engine, make_model
from blazar_store.types import EngineRow, ModelRow
from blazar_supervisor.residency.host import EngineHost
from blazar_supervisor.residency.lease import SlotLease

DEADLINE_S = 60.0


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait for a fact; the deadline is one that a loaded machine keeps."""
    due_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < due_s, f"{what}: not within {DEADLINE_S} s"
        await asyncio.sleep(0.01)


async def ask(lease: SlotLease, prompt: str = "hello", **body: object) -> tuple[int, str]:
    """Send one chat through a lease and return status and body."""
    connector: aiohttp.BaseConnector = aiohttp.TCPConnector(force_close=True)
    if lease.endpoint.socket_path is not None:
        connector = aiohttp.UnixConnector(str(lease.endpoint.socket_path))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(
            f"{lease.endpoint.base_url}/v1/chat/completions",
            json={"messages": [{"role": "user", "content": prompt}], **body},
            headers=dict(lease.headers),
        ) as response,
    ):
        return response.status, await response.text()


class House:
    """Everything a host needs, and what tests look at.

    Args:
        root: A directory of its own.
        engine: The engine's binary, inside ``root`` so that its processes can be told.
        write_model: Writes a model file and returns an object with its ``path``: ``blazar_stubs.write_stub_model``.
    """

    def __init__(self, root: Path, *, engine: Path, write_model: Callable[..., Any]) -> None:
        self.root = root
        self.layout = Layout(root / "data", short_root=root)
        self.layout.prepare()
        self.settings = Settings(stop_grace_secs=3, drain_timeout_secs=1)
        self.engines: list[EngineRow] = [make_engine("local", server_path=engine, active=True, local=True)]
        self.rows: dict[str, ModelRow] = {}
        self._write_model = write_model
        self.machine = Machine(ram_total=0, ram_available=0)
        self.host = self.open()

    def open(self) -> EngineHost:
        """Return another host over the same house."""
        return EngineHost(
            layout=self.layout,
            settings=lambda: self.settings,
            models=self.rows.get,
            engines=lambda: self.engines,
            machine=lambda: self.machine,
        )

    def configure(self, **changes: Any) -> None:
        """Change settings, as an edit of the file would."""
        self.settings = Settings.model_validate(self.settings.model_dump(exclude_defaults=True) | changes)

    def model(
        self,
        name: str = "tiny",
        *,
        file: Mapping[str, Any] = MappingProxyType({}),
        row: Mapping[str, Any] = MappingProxyType({}),
        **script: Any,
    ) -> Any:
        """Add a model that behaves as the script says.

        Args:
            name: The row's name, and the file's.
            file: What ``write_model`` is told besides.
            row: Fields of the row that differ.
            script: The engine's behaviour.
        """
        model = self._write_model(self.root / f"{name}.gguf", script=script or None, **file)
        size = model.path.stat().st_size
        fields = {"path": model.path, "shards": (model.path,), "ctx_train": 4096, "size_bytes": size, **row}
        self.rows[name] = make_model(name, **fields)
        return model

    async def lend(self, name: str = "tiny", **facts: Any) -> SlotLease:
        """Ask for a lease; a deadline keeps a hang from hiding the reason."""
        return await asyncio.wait_for(self.host.lend(name, Ticket(model=name, **facts)), DEADLINE_S)

    def state(self, name: str = "tiny") -> str | None:
        """Return the state that listings show for a child."""
        return next((view.state for view in self.host.residents() if view.child == name), None)

    def processes(self) -> list[psutil.Process]:
        """Return every process that belongs to this house's engines, zombies included."""
        found = []
        for process in psutil.Process(os.getpid()).children(recursive=True):
            try:
                command = process.cmdline()
            except psutil.Error:
                command = []
            if process.status() == psutil.STATUS_ZOMBIE or any(str(self.root) in word for word in command):
                found.append(process)
        return found

    def run_files(self) -> set[str]:
        """Return the names of the files that children leave in the run directory."""
        return {path.name for path in self.layout.run_dir.rglob("*") if path.is_file() or path.is_socket()}
