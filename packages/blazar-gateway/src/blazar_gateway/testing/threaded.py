"""The application on a thread of its own, before an engine that is up already: for clients that block."""

import asyncio
import threading
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from typing_extensions import override

from blazar_gateway.app import create_app, create_runner
from blazar_gateway.testing.memory import MemoryInProcess
from blazar_gateway.testing.neighbours import FakeLease, FixedCatalogue, PlainSettings, ReadyHost, RecordingDaemon
from blazar_gateway.testing.registry import MemoryRegistry
from blazar_routing.ticket import Ticket


@dataclass(frozen=True)
class Place:
    """Where the engine listens."""

    base_url: str
    socket_path: Path | None = None


class PlainHost(ReadyHost):
    """Lends at once, without the engine's key, which these engines do not ask for."""

    @override
    async def lend(self, model: str, ticket: Ticket) -> FakeLease:
        lease = self._grant(model)
        lease.headers = {}
        return lease


class Threaded:
    """The application on an event loop of its own thread, since official clients block."""

    def __init__(
        self,
        host: PlainHost,
        rows: FixedCatalogue,
        registry: MemoryRegistry,
        memory: MemoryInProcess,
        daemon: RecordingDaemon | None = None,
    ) -> None:
        self._host, self._rows, self._registry, self._memory = host, rows, registry, memory
        self._daemon = daemon or RecordingDaemon()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._runner: web.AppRunner

    def start(self) -> str:
        """Start serving; return the address."""
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(60)

    def stop(self) -> None:
        """Stop serving and end the thread."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _serve(self) -> str:
        settings = PlainSettings()
        app = create_app(
            host=self._host,
            catalogue=self._rows,
            daemon=self._daemon,
            settings=lambda: settings,
            control=False,
            registry=self._registry,
            memory=self._memory,
        )
        self._runner = create_runner(app, drain_s=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"
