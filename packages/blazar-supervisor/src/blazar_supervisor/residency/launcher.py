"""Starting real children: address, secret, process, pidfile, in this order."""

import asyncio
import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

from blazar_routing.errors import EngineBinaryMissing, LaneError, LoadFailed, NotAnEngine
from blazar_store.errors import StoreError
from blazar_store.layout import MAX_SOCKET_PATH_BYTES, Layout
from blazar_supervisor.children.apikey import mint_apikey, write_apikey
from blazar_supervisor.children.endpoint import Endpoint, find_free_port, tcp_endpoint, unix_endpoint
from blazar_supervisor.children.identity import start_mark
from blazar_supervisor.children.logfile import ChildLog
from blazar_supervisor.children.pidfile import PidRecord, write_pidfile
from blazar_supervisor.children.process import EngineProcess
from blazar_supervisor.engines.catalogue import get_adapter
from blazar_supervisor.engines.failure import Cause
from blazar_supervisor.residency.banks import BankShelf
from blazar_supervisor.residency.engine_child import EngineChild
from blazar_supervisor.residency.ports import Plan, StartFailed


class ChildLauncher:
    """Fits :class:`blazar_supervisor.residency.ports.Launcher`.

    Args:
        layout: The data directory.
        transport: ``tcp`` or ``unix``, read at each start.
        shelf: Where children's slots are saved, if at all.
    """

    def __init__(
        self, layout: Layout, *, transport: Callable[[], str] = lambda: "tcp", shelf: BankShelf | None = None
    ) -> None:
        self._layout = layout
        self._shelf = shelf
        self._transport = transport

    async def launch(self, key: str, plan: Plan) -> EngineChild:
        """Start a child."""
        profile = plan.profile
        adapter = get_adapter(profile.kind, model=profile.model)
        endpoint = self._endpoint(key, profile.model)
        secret = mint_apikey()
        apikey_file = self._layout.apikey_file(key)
        pidfile = self._layout.child_pidfile(key)
        files = [apikey_file, pidfile, *([endpoint.socket_path] if endpoint.socket_path else [])]
        shelf = self._shelf if profile.banks else None
        argv = adapter.argv(profile, endpoint, apikey_file, None if shelf is None else shelf.folder(key))
        reader = adapter.read_log()
        log = ChildLog(self._layout.child_log(key), on_line=reader.line, on_partial=reader.partial)
        try:
            await asyncio.to_thread(_lay_out, endpoint, apikey_file, secret)
            if shelf is not None:
                await asyncio.to_thread(shelf.prepare, key)
            log.headline(f"starting {' '.join(argv)}")
            process = await EngineProcess.spawn(argv, env=profile.env, log=log)
        except (OSError, StoreError) as error:
            await asyncio.to_thread(_remove, files)
            await log.flushed()
            raise StartFailed(
                _spawn_error(error, profile.model, profile.engine, profile.program), cause=Cause.OTHER, died=False
            ) from error
        child = EngineChild(
            key=key,
            profile=profile,
            process=process,
            adapter=adapter,
            log=log,
            reader=reader,
            endpoint=endpoint,
            headers=adapter.headers(secret),
            load_timeout_s=plan.load_timeout_s,
            files=files,
        )
        try:
            await asyncio.to_thread(self._record, key, process.pid, argv, profile.engine, endpoint)
        except (OSError, StoreError) as error:
            # Without a record it would be lost if the daemon were killed.
            await child.stop(grace_s=0.0, hurry=asyncio.Event())
            raise StartFailed(
                _spawn_error(error, profile.model, profile.engine, profile.program), cause=Cause.OTHER, died=False
            ) from error
        return child

    def _endpoint(self, key: str, model: str) -> Endpoint:
        if self._transport() != "unix":
            return tcp_endpoint(find_free_port())
        path = self._layout.child_socket(key)
        size = len(os.fsencode(path))
        if size > MAX_SOCKET_PATH_BYTES:
            error = LoadFailed(
                model=model,
                reason=f"the path of its socket has {size} bytes, and the system takes {MAX_SOCKET_PATH_BYTES}: {path}",
                advice='Set `child_transport = "tcp"`, or keep the data under a shorter path (`BLAZAR_DATA_DIR`).',
            )
            raise StartFailed(error, cause=Cause.OTHER, died=False)
        return unix_endpoint(path)

    def _record(self, key: str, pid: int, argv: tuple[str, ...], engine: str, endpoint: Endpoint) -> None:
        mark = start_mark(pid)
        if mark is None:
            return  # It has ended already; there is nothing to find later.
        record = PidRecord(
            child=key,
            pid=pid,
            start_mark=mark,
            argv=argv,
            data_dir=str(self._layout.data_dir),
            engine=engine,
            socket=None if endpoint.socket_path is None else str(endpoint.socket_path),
        )
        write_pidfile(self._layout.child_pidfile(key), record)


def _lay_out(endpoint: Endpoint, apikey_file: Path, secret: str) -> None:
    if endpoint.socket_path is not None:
        # The engine never removes its socket, and refuses to start while the path exists.
        endpoint.socket_path.unlink(missing_ok=True)
    write_apikey(apikey_file, secret)


def _remove(files: list[Path]) -> None:
    for path in files:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _spawn_error(error: OSError | StoreError, model: str, engine: str, program: Path) -> LaneError:
    if isinstance(error, StoreError):
        return LoadFailed(model=model, reason="its files in the data directory cannot be written", advice=str(error))
    at_program = error.filename in {None, str(program), program, os.fsencode(program)}
    if at_program and error.errno == errno.ENOENT:
        return EngineBinaryMissing(engine=engine, path=str(program))
    if at_program and error.errno == errno.EACCES:
        return NotAnEngine(path=str(program), reason="it is not executable; `chmod +x` it if you trust it")
    if at_program and error.errno == errno.ENOEXEC:
        return NotAnEngine(path=str(program), reason="it is not a program for this machine")
    return LoadFailed(
        model=model,
        reason=f"the engine could not be started ({error})",
        advice="See `blazar doctor` for what is wrong with this machine or the data directory.",
    )
