"""The daemon as its own control calls see it: status, logs, stop."""

import asyncio
import os
import platform
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import psutil

from blazar_cli import VERSION
from blazar_cli.address import Address
from blazar_cli.catalogue import LiveCatalogue
from blazar_cli.serving.daemon_log import stream_lines
from blazar_cli.serving.loop_lag import LoopLag
from blazar_routing.errors import ModelNotFound
from blazar_routing.instances import parse_instance
from blazar_store.layout import Layout


class Troubles(Protocol):
    """Who watches the files, and knows what is wrong with them."""

    @property
    def config_error(self) -> str | None:
        """Why the configuration file's content is not used."""

    @property
    def store_error(self) -> str | None:
        """Why the rows cannot be read."""

    async def look(self) -> None:
        """Look at both now."""


class Preloaded(Protocol):
    """A model that the daemon was told to load when it starts."""

    @property
    def model(self) -> str: ...
    @property
    def state(self) -> str:
        """``waiting``, ``loading``, ``loaded`` or ``failed``."""

    @property
    def error(self) -> str | None: ...


class DaemonState:
    """What the daemon says of itself, and the switch that stops it (``blazar_gateway.ports.Daemon``).

    Attributes:
        stopping: Set when an orderly stop begins.
    """

    def __init__(
        self,
        *,
        address: Address,
        layout: Layout,
        config_file: Path,
        catalogue: LiveCatalogue,
        lag: LoopLag,
        troubles: Troubles,
        residents: Callable[[], Sequence[object]],
        explanation: Callable[[str], Awaitable[Mapping[str, object]]],
        preloads: Callable[[], Sequence[Preloaded]] = tuple,
        environment: Callable[[], Sequence[Mapping[str, object]]] = tuple,
    ) -> None:
        self.stopping = asyncio.Event()
        self._address = address
        self._layout = layout
        self._config_file = config_file
        self._catalogue = catalogue
        self._lag = lag
        self._troubles = troubles
        self._residents = residents
        self._explanation = explanation
        self._preloads = preloads
        self._environment = environment
        self._process = psutil.Process()
        self._started_at = time.time()

    def status(self) -> Mapping[str, object]:
        """Return what ``blazar status`` shows, as plain JSON values."""
        memory = self._process.memory_info()
        return {
            "version": VERSION,
            "state": "stopping" if self.stopping.is_set() else "serving",
            "pid": os.getpid(),
            "started_at": round(self._started_at, 3),
            "uptime_s": round(time.time() - self._started_at, 1),
            "address": self._address.base_url,
            "address_source": str(self._address.source),
            "environment": list(self._environment()),
            "control_socket": str(self._layout.control_socket),
            "data_dir": str(self._layout.data_dir),
            "config_file": str(self._config_file),
            "config_error": self._troubles.config_error,
            "store_error": self._troubles.store_error,
            "alias_conflicts": list(self._catalogue.conflicts),
            "log": str(self._layout.daemon_log),
            "models": len(self._catalogue.rows()),
            "engines": [
                {"tag": row.tag, "kind": row.kind, "version": row.version, "commit": row.commit, "active": row.active}
                for row in self._catalogue.engines()
            ],
            "loaded": len(self._residents()),
            "preload": [{"model": one.model, "state": str(one.state), "error": one.error} for one in self._preloads()],
            "memory_bytes": memory.rss,
            "tasks": len(asyncio.all_tasks()),
            "descriptors": self._process.num_fds(),
            "loop_lag": self._lag.as_plain(),
            "python": platform.python_version(),
            "platform": f"{platform.system()} {platform.machine()}",
        }

    async def explain(self, model: str) -> Mapping[str, object]:
        """Return what would be started for a row and why."""
        return await self._explanation(model)

    async def log_lines(self, model: str | None, *, lines: int, follow: bool) -> AsyncIterator[bytes]:
        """Yield the last ``lines`` of the daemon's log (or a model's), then, if asked, what is added.

        Ends when the daemon stops. A model that never ran has an empty log.

        Raises:
            ModelNotFound: There is no such model.
        """
        async for block in stream_lines(self._log_of(model), lines=lines, follow=follow, until=self.stopping):
            yield block

    async def refresh(self) -> None:
        """Look at the rows and the settings now, and return once what has changed holds."""
        await self._troubles.look()

    def shutdown(self) -> None:
        """Begin an orderly stop."""
        self.stopping.set()

    def _log_of(self, model: str | None) -> Path:
        if model is None:
            return self._layout.daemon_log
        child = parse_instance(model)
        card = self._catalogue.find(child.model)
        if card is None:
            raise ModelNotFound(model=model, near=self._catalogue.near(model))
        return self._layout.child_log(replace(child, model=card.name).key)
