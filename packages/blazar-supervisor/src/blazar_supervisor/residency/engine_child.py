"""A real child: a process, what its adapter reads from its log, and what its adapter asks it over HTTP."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blazar_routing.errors import EngineCrashed, LoadFailed, LoadTimeout
from blazar_supervisor.children.endpoint import Endpoint
from blazar_supervisor.children.identity import cpu_seconds, private_bytes
from blazar_supervisor.children.logfile import ChildLog
from blazar_supervisor.children.process import EngineProcess, wait_either
from blazar_supervisor.engines.adapter import EngineAdapter, EngineControl, EngineLog, SlotState, WarmPeg
from blazar_supervisor.engines.counters import Counters
from blazar_supervisor.engines.failure import Cause, describe_exit
from blazar_supervisor.engines.figures import MemoryFigures
from blazar_supervisor.engines.profile import Profile
from blazar_supervisor.residency.ports import StartFailed

_FIRST_POLL_S = 0.05
_SLOWEST_POLL_S = 0.5
_DEATH_NOTICE_S = 2.0

_SAYS_SO_S = 2.0
"""Seconds that a build which words its "listening on" otherwise is waited for before it is asked with the secret."""

_LOOKS = 4
_LOOK_PAUSE_S = 1.25
_LOOKING_S = 12.0
_BUSY_SHARE = 0.1
"""Of one core: what an engine that computes uses at the very least, and an idle one never does."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What was seen of a child's work at one moment."""

    counters: tuple[object, ...] | None
    cpu_s: float | None
    at_s: float


class EngineChild:
    """Fits :class:`blazar_supervisor.residency.ports.Child`.

    Args:
        key: The instance's, under which its log is found.
        profile: What it was started from.
        process: The running process.
        adapter: Its engine kind.
        log: Its log.
        reader: What its adapter makes of the log.
        endpoint: Where it listens.
        headers: Its secret.
        load_timeout_s: Seconds a load may take.
        files: To remove once it has ended: pidfile, secret, socket.
    """

    def __init__(
        self,
        *,
        key: str,
        profile: Profile,
        process: EngineProcess,
        adapter: EngineAdapter,
        log: ChildLog,
        reader: EngineLog,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        load_timeout_s: float,
        files: Sequence[Path],
    ) -> None:
        self.endpoint = endpoint
        self.headers = headers
        self._key = key
        self._profile = profile
        self._process = process
        self._adapter = adapter
        self._log = log
        self._reader = reader
        self._control: EngineControl = adapter.control(endpoint, headers)
        self._load_timeout_s = load_timeout_s
        self._files = tuple(files)
        self._cleaning = asyncio.Lock()
        self._cleaned = False
        self._seen: _Work | None = None

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def exited(self) -> asyncio.Event:
        """Set once it has ended."""
        return self._process.exited

    @property
    def sleeping(self) -> bool:
        """Whether its log says so."""
        return self._reader.sleeping

    def fraction(self) -> float | None:
        """How much of the load is done."""
        return self._reader.fraction()

    def figures(self) -> MemoryFigures:
        """Its own account of its memory."""
        return self._reader.figures()

    async def private_bytes(self) -> int:
        """Ask the system what it holds besides mapped weights."""
        return await asyncio.to_thread(private_bytes, self.pid)

    async def wait_ready(self) -> None:
        """Poll its health until it is ready, has ended, or the time is up."""
        try:
            async with asyncio.timeout(self._load_timeout_s):
                await self._until_ready()
        except TimeoutError:
            raise self._not_in_time() from None

    async def _until_ready(self) -> None:
        pause_s = _FIRST_POLL_S
        while not self.exited.is_set():
            if await self._control.ready() and await self._is_ours():
                return
            if self._reader.listening is not None:
                # It has said that it listens: readiness is a matter of milliseconds now.
                pause_s = _FIRST_POLL_S
            await wait_either(self.exited, None, timeout_s=pause_s)
            pause_s = min(pause_s * 1.3, _SLOWEST_POLL_S)
        raise self._start_failure()

    async def _is_ours(self) -> bool:
        """Tell our child from a stranger who took the port: ours says that it listens, or knows our secret."""
        due_s = asyncio.get_running_loop().time() + _SAYS_SO_S
        while self._reader.listening is None and asyncio.get_running_loop().time() < due_s:
            if await wait_either(self.exited, None, timeout_s=_FIRST_POLL_S):
                return False
        if self._reader.listening is not None:
            return not self.exited.is_set()
        return await self._control.sleeping() is not None and not self.exited.is_set()

    async def asks_sleeping(self) -> bool | None:
        """Ask it."""
        return await self._control.sleeping()

    async def wake(self) -> None:
        """Make it load again."""
        woke = await self._control.wake(timeout_s=self._load_timeout_s)
        if woke and not self.exited.is_set():
            return
        # An engine that cannot load its model again closes the connection and aborts.
        if await wait_either(self.exited, None, timeout_s=_DEATH_NOTICE_S):
            raise self.death()
        if await self._control.sleeping() is not False:
            raise self._not_in_time()

    async def moved(self) -> bool:
        """Look at its slots' counters and its processor time, a few times within a few seconds.

        A child that does not even answer in this time shows no progress.
        """
        try:
            async with asyncio.timeout(_LOOKING_S):
                return await self._advances()
        except TimeoutError:
            return False

    async def _advances(self) -> bool:
        before = self._seen
        for look in range(_LOOKS):
            if look:
                await wait_either(self.exited, None, timeout_s=_LOOK_PAUSE_S)
            if self.exited.is_set():
                return False
            now = await self._look()
            self._seen = now
            if before is not None and _advanced(before, now) and await self._answers(now):
                return True
            # Processor time of long ago proves nothing about now: later looks compare with the one before.
            before = now
        return False

    async def _look(self) -> _Work:
        counters = await self._control.work()
        cpu_s = await asyncio.to_thread(cpu_seconds, self.pid)
        return _Work(counters, cpu_s, asyncio.get_running_loop().time())

    async def _answers(self, work: _Work) -> bool:
        return work.counters is not None or await self._control.ready()

    async def peg(self, *, timeout_s: float) -> bool:
        """Have it make one token, where its kind is pegged at all."""
        if self._adapter.warm_peg is WarmPeg.NEVER:
            return False
        return await self._control.peg(timeout_s=timeout_s)

    async def counters(self) -> Counters | None:
        """Ask what it has counted, which wakes a sleeper."""
        return await self._control.counters()

    async def slots(self) -> tuple[SlotState, ...] | None:
        """Ask for its slots, which wakes a sleeper."""
        return await self._control.slots()

    async def save_slot(self, slot: int, file: str, *, timeout_s: float) -> int | None:
        """Have it write a slot to its bank directory."""
        return await self._control.save_slot(slot, file, timeout_s=timeout_s)

    async def restore_slot(self, slot: int, file: str, *, timeout_s: float) -> bool | None:
        """Have it read a slot from its bank directory."""
        return await self._control.restore_slot(slot, file, timeout_s=timeout_s)

    def death(self) -> StartFailed:
        """Tell a failed wake from a crash."""
        if self._reader.wake_failed:
            return self._start_failure()
        tail = self._adapter.telling(self._log.tail())
        how = describe_exit(self._process.returncode)
        error = EngineCrashed(model=self._profile.model, how=how, tail=tail, child=self._key)
        return StartFailed(error, cause=Cause.ABORTED, died=True, tail=tail)

    async def stop(self, *, grace_s: float, hurry: asyncio.Event) -> None:
        """End it and remove its files."""
        await self._process.stop(grace_s=grace_s, hurry=hurry)
        async with self._cleaning:
            if not self._cleaned:
                await self._control.close()
                await asyncio.to_thread(_remove, self._files)
                await self._log.flushed()
                self._cleaned = True

    def _start_failure(self) -> StartFailed:
        lines = self._log.tail()
        failure = self._adapter.classify(lines, self._process.returncode)
        tail = self._adapter.telling(lines)
        error = LoadFailed(model=self._profile.model, reason=failure.reason, advice=failure.advice, tail=tail)
        return StartFailed(error, cause=failure.cause, died=True, tail=tail)

    def _not_in_time(self) -> StartFailed:
        tail = self._adapter.telling(self._log.tail())
        error = LoadTimeout(model=self._profile.model, seconds=self._load_timeout_s, tail=tail, child=self._key)
        return StartFailed(error, cause=Cause.OTHER, died=False, tail=tail)


def _advanced(before: _Work, now: _Work) -> bool:
    if before.counters is not None and now.counters is not None and before.counters != now.counters:
        return True
    if before.cpu_s is None or now.cpu_s is None:
        return False
    return now.cpu_s - before.cpu_s >= _BUSY_SHARE * max(now.at_s - before.at_s, _LOOK_PAUSE_S)


def _remove(files: Sequence[Path]) -> None:
    for path in files:
        path.unlink(missing_ok=True)
