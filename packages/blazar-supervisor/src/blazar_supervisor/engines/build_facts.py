"""What builds say of themselves, asked once for each binary and again when the file changes."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from blazar_budget import ListedDevice, parse_list_devices
from blazar_routing.errors import EngineBinaryMissing, NotAnEngine
from blazar_store.types import EngineRow
from blazar_supervisor.engines.adapter import EngineAdapter
from blazar_supervisor.engines.manifest import Manifest
from blazar_supervisor.engines.questions import BinaryRefuses, ask_binary

_TIMEOUT_S = 60.0
"""Loading a GPU driver can take long, and a broken one hangs."""


@dataclass(frozen=True, slots=True)
class BuildFacts:
    """What a build says of itself.

    Attributes:
        manifest: Its flags.
        devices: The accelerators it can use, or ``None`` when it does not say.
    """

    manifest: Manifest
    devices: tuple[ListedDevice, ...] | None


class Builds:
    """Remembers the facts of each binary."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int, int], BuildFacts]] = {}
        self._reading = asyncio.Lock()

    async def facts(self, engine: EngineRow, adapter: EngineAdapter) -> BuildFacts:
        """Return what a build says of itself.

        Raises:
            EngineBinaryMissing: The binary is gone.
            NotAnEngine: It does not print a help text.
        """
        async with self._reading:
            stamp = await asyncio.to_thread(_stamp, engine.server_path)
            if stamp is None:
                raise EngineBinaryMissing(engine=engine.tag, path=str(engine.server_path))
            known = self._known.get(engine.server_path)
            if known is not None and known[0] == stamp:
                return known[1]
            facts = await asyncio.to_thread(_read, engine, adapter)
            self._known[engine.server_path] = (stamp, facts)
            return facts


def _read(engine: EngineRow, adapter: EngineAdapter) -> BuildFacts:
    try:
        answer = ask_binary(engine.server_path, "--help", timeout_s=_TIMEOUT_S)
    except BinaryRefuses as error:
        raise NotAnEngine(path=str(engine.server_path), reason=str(error)) from error
    manifest = adapter.parse_manifest(answer.stdout)
    if not manifest.flags:
        raise NotAnEngine(path=str(engine.server_path), reason="its --help lists no flags")
    return BuildFacts(manifest, _devices(engine.server_path, manifest))


def _devices(path: Path, manifest: Manifest) -> tuple[ListedDevice, ...] | None:
    if manifest.find("--list-devices") is None:
        return None
    try:
        return parse_list_devices(ask_binary(path, "--list-devices", timeout_s=_TIMEOUT_S).stdout)
    except BinaryRefuses:
        return None  # A start will tell what is wrong, in its own words.


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
