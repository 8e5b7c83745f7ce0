"""The lock that makes one daemon the owner of a data directory.

The kernel holds the truth (``flock`` on ``run/daemon.lock``, gone with the process however it dies); the file's
content only says who the owner is. A stale file therefore never blocks a start, and needs no cleaning up.
"""

import json
import os
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from types import TracebackType
from typing import Self

from blazar_store.errors import DataDirInUse
from blazar_store.files import make_directory, typed_os_errors
from blazar_store.flock import try_lock, unlock
from blazar_store.layout import Layout

_PATIENCE_S = 0.5
"""Somebody who asks :func:`read_owner` holds the lock for microseconds; a start must not fail on that."""


@dataclass(frozen=True, slots=True)
class LockOwner:
    """Who owns a data directory.

    Attributes:
        pid: Its process, or ``None`` when it has not said yet.
        started_at: Unix seconds.
        address: Where it serves, ``http://127.0.0.1:11435``, or ``None`` before it listens.
    """

    pid: int | None
    started_at: float | None
    address: str | None

    @property
    def since(self) -> str | None:
        """The start in local time, ``2026-03-01 14:05:09``."""
        return None if self.started_at is None else _local_time(self.started_at)


class DataDirLock:
    """The ownership of a data directory, from :func:`acquire_lock` until :meth:`release` or the process's end."""

    def __init__(self, handle: int, owner: LockOwner) -> None:
        self._handle: int | None = handle
        self.owner = owner

    def announce(self, address: str) -> None:
        """Write down where this daemon serves, for whoever is refused or looks for it."""
        self.owner = LockOwner(pid=self.owner.pid, started_at=self.owner.started_at, address=address)
        if self._handle is not None:
            _write_owner(self._handle, self.owner)

    def release(self) -> None:
        """Give the directory back. The second call does nothing."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            os.ftruncate(handle, 0)
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def acquire_lock(layout: Layout, *, pid: int, started_at: float, address: str | None = None) -> DataDirLock:
    """Make this process the owner of the data directory.

    Blocks for half a second at most.

    Args:
        layout: The directory; ``run/`` is created if missing.
        pid: Of this process.
        started_at: Its start, in Unix seconds.
        address: Where it serves, if that is known already.

    Raises:
        DataDirInUse: Another process owns it; the error says which, since when and where it listens.
        NotWritable: The lock file cannot be created.
        StorageFailed: The file system cannot lock.
    """
    make_directory(layout.run_dir, mode=0o700)
    with typed_os_errors(layout.lock_file):
        handle = os.open(layout.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _lock_patiently(handle):
                owner = _read_content(handle)
                raise DataDirInUse(data_dir=layout.data_dir, pid=owner.pid, since=owner.since, address=owner.address)
            owner = LockOwner(pid=pid, started_at=started_at, address=address)
            _write_owner(handle, owner)
        except BaseException:
            os.close(handle)
            raise
    return DataDirLock(handle, owner)


def _lock_patiently(handle: int) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while not try_lock(handle):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def read_owner(layout: Layout) -> LockOwner | None:
    """Return who owns the data directory at this moment, or ``None`` when no daemon runs on it.

    Raises:
        NotWritable: The lock file belongs to somebody else.
        StorageFailed: The file system cannot lock.
    """
    with typed_os_errors(layout.lock_file):
        try:
            handle = os.open(layout.lock_file, os.O_RDWR)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            if try_lock(handle, shared=True):
                unlock(handle)
                return None
            return _read_content(handle)
        finally:
            os.close(handle)


def _write_owner(handle: int, owner: LockOwner) -> None:
    # In place: the lock is on this very file, so a renamed one would not be locked. Readers expect half a text.
    content = json.dumps(asdict(owner)).encode()
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, content)


def _read_content(handle: int) -> LockOwner:
    """Return what the lock file says, which is nothing when its owner is just writing it."""
    os.lseek(handle, 0, os.SEEK_SET)
    try:
        content = json.loads(os.read(handle, 4096))
    except ValueError:
        content = None
    facts = content if isinstance(content, dict) else {}
    pid, started_at, address = facts.get("pid"), facts.get("started_at"), facts.get("address")
    return LockOwner(
        pid=pid if isinstance(pid, int) else None,
        started_at=float(started_at) if isinstance(started_at, (int, float)) else None,
        address=address if isinstance(address, str) else None,
    )


def _local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M:%S")
