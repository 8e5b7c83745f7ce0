"""Pulls that live in the daemon: they go on when their client leaves, and a second client joins the first.

Two references can mean one file (``owner/repository`` and ``owner/repository:Q4_K_M``, a short name, the address of
the file). That shows once both are planned: then the later one joins the earlier, shows its figures, and is cancelled
with it. It becomes a row of its own only where the names differ, and then without fetching anything.
"""

import asyncio
import itertools
import logging
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from blazar_routing.errors import InternalError, LaneError, PullFailed
from blazar_supervisor.pulls.pulling import PullPlan

_log = logging.getLogger(__name__)
_REMEMBERED = 32


class PullPhase(StrEnum):
    """How far a pull is."""

    PLANNING = "planning"
    DOWNLOADING = "downloading"
    SUCCESS = "success"
    FAILED = "failed"
    CANCELLED = "cancelled"


_OVER = frozenset({PullPhase.SUCCESS, PullPhase.FAILED, PullPhase.CANCELLED})


@dataclass(frozen=True, slots=True)
class PullView:
    """A pull at one moment.

    Attributes:
        reference: What was asked for.
        phase: How far it is.
        name: The row's name, once known.
        reason: Why this variant.
        digest: Of the model's first file, 64 hex digits, or ``""``.
        done_bytes: Bytes that are there; never less than before.
        total_bytes: Bytes in all, 0 until known.
        error: Why it failed, or ``None``.
    """

    reference: str
    phase: PullPhase = PullPhase.PLANNING
    name: str | None = None
    reason: str = ""
    digest: str = ""
    done_bytes: int = 0
    total_bytes: int = 0
    error: LaneError | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.phase in _OVER


class Telling(Protocol):
    """What a running pull says of itself."""

    def planned(self, plan: PullPlan) -> None:
        """It is known what will be fetched."""

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        """Bytes have come."""


Work = Callable[[str, Telling], Awaitable[str]]
"""Pulls and registers a reference, and returns the row's name."""


class _Joins(Exception):
    """Another pull fetches the very files."""

    def __init__(self, other: "PullJob") -> None:
        self.other = other
        super().__init__(other.view.reference)


class PullJob:
    """One pull.

    Args:
        reference: What was asked for.
        earlier: Returns the pull in progress that fetches a file already, or ``None``.
    """

    def __init__(self, reference: str, earlier: "Callable[[PullJob, Path], PullJob | None]") -> None:
        self.view = PullView(reference)
        self.task: asyncio.Task[None] | None = None
        self.target: Path | None = None
        self.joined: PullJob | None = None
        self._earlier = earlier
        self._changed = asyncio.Event()

    def planned(self, plan: PullPlan) -> None:
        """Take the plan.

        Raises:
            _Joins: Another pull does just that; nothing is to be fetched for this one.
        """
        target = plan.wanted[0].target
        other = self._earlier(self, target)
        if other is None:
            self.target = target
        self._set(
            replace(
                self.view,
                phase=PullPhase.DOWNLOADING,
                name=plan.name,
                reason=plan.reason,
                digest=plan.wanted[0].sha256 or "",
                total_bytes=plan.total_bytes,
            )
        )
        if other is not None:
            self.joined = other
            raise _Joins(other)

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        """Take a figure. A download that had to begin again does not run backwards for those who watch."""
        done, total = max(done_bytes, self.view.done_bytes), max(total_bytes, self.view.total_bytes)
        if (done, total) != (self.view.done_bytes, self.view.total_bytes):
            self._set(replace(self.view, done_bytes=done, total_bytes=total))

    def finish(self, phase: PullPhase, *, name: str | None = None, error: LaneError | None = None) -> None:
        """Say how it ended."""
        done = self.view.total_bytes if phase is PullPhase.SUCCESS else self.view.done_bytes
        self._set(replace(self.view, phase=phase, name=name or self.view.name, error=error, done_bytes=done))

    def close(self) -> None:
        """Say that it was cancelled, if it has not said how it ended."""
        if not self.view.over:
            self.finish(PullPhase.CANCELLED, error=_cancelled(self.view.reference))

    async def follow(self) -> AsyncIterator[PullView]:
        """Yield what changes, the present state first and the end last; a slow reader misses what lies between."""
        while True:
            changed, view = self._changed, self.view
            yield view
            if view.over:
                return
            if self.view is view:
                await changed.wait()

    def _set(self, view: PullView) -> None:
        self.view = view
        self._changed.set()
        self._changed = asyncio.Event()


class PullJobs:
    """All pulls of a daemon.

    Args:
        work: Does one.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._numbers = itertools.count()
        self._jobs: dict[str, PullJob] = {}

    def start(self, reference: str) -> PullJob:
        """Return the pull of ``reference`` in progress, or begin one."""
        key = reference.strip()
        job = self._jobs.get(key)
        if job is None or job.view.over:
            # At the end of the list, in the order of their starts.
            self._jobs.pop(key, None)
            self._jobs[key] = job = PullJob(key, self._fetching)
            job.task = asyncio.create_task(self._run(job), name=f"pull-{next(self._numbers)}")
            # One that is cancelled before its first step never runs, and still has to end for those who follow it.
            job.task.add_done_callback(lambda _: job.close())
            self._forget_old()
        return job

    def follow(self, reference: str) -> AsyncIterator[PullView]:
        """Begin or join a pull and yield its states to the end; whoever stops listening does not stop the pull."""
        return self.start(reference).follow()

    def states(self) -> tuple[PullView, ...]:
        """Return the pulls in progress and those that ended lately, oldest first."""
        return tuple(job.view for job in self._jobs.values())

    def cancel(self, reference: str) -> bool:
        """Stop a pull, named as it was asked for or as its row; return whether there was one. What has come stays."""
        for job in self._jobs.values():
            if reference.strip() in {job.view.reference, job.view.name} and not job.view.over:
                # One that joined another ends with it.
                for one in (job.joined, job):
                    if one is not None and one.task is not None and not one.view.over:
                        one.task.cancel()
                return True
        return False

    async def close(self) -> None:
        """Stop all; what has arrived is kept."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _fetching(self, asking: PullJob, target: Path) -> PullJob | None:
        return next((job for job in self._jobs.values() if job is not asking and _fetches(job, target)), None)

    async def _do(self, job: PullJob) -> str:
        """Do a pull's work, or what is left of it after the pull that it joined."""
        while True:
            try:
                return await self._work(job.view.reference, job)
            except _Joins as joins:
                other = joins.other
            _log.info("the pull of %s joins that of %s", job.view.reference, other.view.reference)
            async for view in other.follow():
                job.progress(view.done_bytes, view.total_bytes)
            job.joined = None
            if other.view.phase is PullPhase.CANCELLED:
                # Cancelled with it: the task's end says so, as it does for the other.
                raise asyncio.CancelledError
            if other.view.error is not None:
                raise other.view.error
            if other.view.name is not None and job.view.name in {None, other.view.name}:
                return other.view.name

    async def _run(self, job: PullJob) -> None:
        try:
            name = await self._do(job)
        except LaneError as error:
            _log.warning("pulling %s failed: %s", job.view.reference, error)
            job.finish(PullPhase.FAILED, error=error)
        except Exception:  # noqa: BLE001 - a fault of our own must end the job for those who follow it
            _log.exception("pulling %s failed", job.view.reference)
            job.finish(PullPhase.FAILED, error=InternalError(request_id=f"pull {job.view.reference}"))
        else:
            _log.info("pulled %s as %s", job.view.reference, name)
            job.finish(PullPhase.SUCCESS, name=name)

    def _forget_old(self) -> None:
        over = [key for key, job in self._jobs.items() if job.view.over]
        for key in over[: max(0, len(over) - _REMEMBERED)]:
            del self._jobs[key]


def _fetches(job: PullJob, target: Path) -> bool:
    return job.target == target and not job.view.over


def _cancelled(reference: str) -> PullFailed:
    again = f"blazar pull {shlex.quote(reference)}"
    return PullFailed(f"the pull of {reference} was cancelled. What has arrived is kept: `{again}` goes on with it.")
