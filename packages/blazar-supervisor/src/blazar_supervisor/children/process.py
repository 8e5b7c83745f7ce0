"""One engine process in a session and process group of its own: spawn, signals, exit.

Holds whatever happens: the process is reaped by the loop; when it ends, what is left of its group is killed; the
log gets its last bytes before :attr:`EngineProcess.exited` is set. That is at the pipe's end or, when somebody else
holds the pipe open, once nothing has come for a while.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from blazar_supervisor.children.logfile import ChildLog

_LOOK_S = 0.25
_QUIET_LOOKS = 4
"""How often in a row nothing may have come of an ended process's pipe before its end is no longer waited for.

Counted in looks and not in seconds: a loop that was held up runs its timers before it reads what has come meanwhile.
"""

_LOOKS = 20
"""How often it is looked at in all: a grandchild that left the group may hold the pipe open, and write, for ever."""


class EngineProcess(asyncio.SubprocessProtocol):
    """A running or ended process. Create it with :meth:`spawn`.

    Attributes:
        exited: Set once it has ended, its group is gone, and its output has been read.
        returncode: Its exit status (negative: the signal), or ``None`` while it runs.
    """

    def __init__(self, log: ChildLog) -> None:
        self.log = log
        self.exited = asyncio.Event()
        self.returncode: int | None = None
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.SubprocessTransport | None = None
        self._pid = 0
        self._open_pipes = {1}
        self._gone = False
        self._heard = False

    @classmethod
    async def spawn(
        cls, argv: Sequence[str], *, env: Mapping[str, str], log: ChildLog, cwd: Path | None = None
    ) -> "EngineProcess":
        """Start ``argv`` and return at once; stdout and stderr both go to ``log``.

        Raises:
            OSError: The program cannot be executed.
        """
        loop = asyncio.get_running_loop()
        transport, process = await loop.subprocess_exec(
            lambda: cls(log),
            *argv,
            env=dict(env),
            cwd=cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        process._attach(transport)  # noqa: SLF001 - its own factory
        return process

    @property
    def pid(self) -> int:
        """The process's number, also its group's."""
        return self._pid

    def terminate(self) -> None:
        """Ask the process to end (SIGTERM); nothing happens when it has ended."""
        if not self._gone:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and its whole group; nothing happens when it has ended."""
        if not self._gone:
            self._kill_group()

    async def stop(self, *, grace_s: float, hurry: asyncio.Event | None = None) -> None:
        """End the process: SIGTERM, up to ``grace_s`` of waiting (cut short by ``hurry``), SIGKILL of the group.

        Returns when it has been reaped. Cancelling it kills the group.
        """
        self.terminate()
        try:
            await wait_either(self.exited, hurry, timeout_s=grace_s)
        finally:
            if not self.exited.is_set():
                self.kill()
        await self.exited.wait()

    # The loop calls these.

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take in output."""
        del fd
        self._heard = True
        self.log.feed(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note that a pipe has ended."""
        del exc
        self._open_pipes.discard(fd)
        if self._gone and not self._open_pipes:
            self._finish()

    def process_exited(self) -> None:
        """Take down what is left of the group, and finish once the output has been read."""
        self._gone = True
        if self._transport is not None:
            self.returncode = self._transport.get_returncode()
        self._kill_group()
        if self._open_pipes:
            self._loop.call_later(_LOOK_S, self._look_for_more, _QUIET_LOOKS, _LOOKS)
        else:
            self._finish()

    def _attach(self, transport: asyncio.SubprocessTransport) -> None:
        self._transport = transport
        pid = transport.get_pid()
        if pid is not None:
            self._pid = pid
        if self._gone:
            self.returncode = transport.get_returncode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the transport; called before any other callback."""
        if isinstance(transport, asyncio.SubprocessTransport):
            self._attach(transport)

    def _kill_group(self) -> None:
        # The group's number is the process's own, and is not given to anybody while a member lives.
        if self._pid > 1:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)

    def _look_for_more(self, quiet: int, looks: int) -> None:
        quiet = _QUIET_LOOKS if self._heard else quiet - 1
        self._heard = False
        if quiet <= 0 or looks <= 0:
            self._finish()
        elif not self.exited.is_set():
            self._loop.call_later(_LOOK_S, self._look_for_more, quiet, looks - 1)

    def _finish(self) -> None:
        if self.exited.is_set():
            return
        self.log.end()
        self.exited.set()
        if self._transport is not None:
            self._transport.close()


async def wait_either(first: asyncio.Event, second: asyncio.Event | None, *, timeout_s: float) -> bool:
    """Wait for one of two events, at most ``timeout_s``; return whether the first is set."""
    if first.is_set() or timeout_s <= 0:
        return first.is_set()
    waits = [asyncio.ensure_future(event.wait()) for event in (first, second) if event is not None]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    return first.is_set()
