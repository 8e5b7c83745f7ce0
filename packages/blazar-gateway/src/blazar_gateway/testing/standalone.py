"""The application in front of one engine that is up already, without a supervisor: for benchmarks and by hand.

``python -m blazar_gateway.testing.standalone PORT ENGINE_URL [MODEL]``
"""

import asyncio
import contextlib
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from typing_extensions import override

from blazar_gateway.app import create_app, create_runner
from blazar_gateway.testing.neighbours import (
    FakeLease,
    FixedCatalogue,
    PlainSettings,
    ReadyHost,
    RecordingDaemon,
    card,
)
from blazar_routing.ticket import Ticket


@dataclass(frozen=True)
class _Place:
    """An engine's address."""

    base_url: str
    socket_path: Path | None = None


class ForgetfulHost(ReadyHost):
    """Lends at once and remembers nothing, so that it can lend for ever."""

    @override
    async def lend(self, model: str, ticket: Ticket) -> FakeLease:
        return self._grant(model)

    @override
    def _remember(self, lease: FakeLease) -> None:
        """Keep no list."""


async def _serve(port: int, engine_url: str, model: str) -> None:
    settings = PlainSettings(port=port)
    app = create_app(
        host=ForgetfulHost(_Place(engine_url)),
        catalogue=FixedCatalogue(card(model)),
        daemon=RecordingDaemon(),
        settings=lambda: settings,
        control=False,
    )
    runner = create_runner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    """Serve until interrupted, on uvloop where it is installed."""
    port, engine_url, *model = sys.argv[1:]
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(int(port), engine_url, model[0] if model else "m"))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes an uvloop loop, or ``None``: it is no dependency of this package."""
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


if __name__ == "__main__":
    main()
