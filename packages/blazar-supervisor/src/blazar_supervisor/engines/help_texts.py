"""The manifests of builds, each read once from the binary's ``--help`` and again when the file changes."""

import asyncio
from pathlib import Path

from blazar_routing.errors import EngineBinaryMissing, NotAnEngine
from blazar_store.types import EngineRow
from blazar_supervisor.engines.adapter import EngineAdapter
from blazar_supervisor.engines.manifest import Manifest
from blazar_supervisor.engines.questions import BinaryRefuses, ask_binary

_HELP_TIMEOUT_S = 60.0
"""Loading a GPU driver can take long, and a broken one hangs."""


class Manifests:
    """Remembers one manifest per binary."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int, int], Manifest]] = {}
        self._reading = asyncio.Lock()

    async def of(self, engine: EngineRow, adapter: EngineAdapter) -> Manifest:
        """Return the flags of a build.

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
            manifest = await asyncio.to_thread(_read, engine, adapter)
            self._known[engine.server_path] = (stamp, manifest)
            return manifest


def _read(engine: EngineRow, adapter: EngineAdapter) -> Manifest:
    try:
        answer = ask_binary(engine.server_path, "--help", timeout_s=_HELP_TIMEOUT_S)
    except BinaryRefuses as error:
        raise NotAnEngine(path=str(engine.server_path), reason=str(error)) from error
    manifest = adapter.parse_manifest(answer.stdout)
    if not manifest.flags:
        raise NotAnEngine(path=str(engine.server_path), reason="its --help lists no flags")
    return manifest


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
