"""Children that outlived their daemon: found at the next start, ended, their files removed.

A process is taken for an orphan of ours only when its number, its start mark *and* its command are those of the
pidfile, and the pidfile names this data directory. Everything else is somebody else's, and only the stale file goes.
Called before any child is started, by the daemon that holds the data directory's lock.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from blazar_store.layout import Layout
from blazar_supervisor.children.identity import command_of, is_running, start_mark
from blazar_supervisor.children.pidfile import PidRecord, read_pidfile

_GRACE_S = 5.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Collected:
    """What became of one pidfile.

    Attributes:
        child: The child's key, or the file's name when it could not be read.
        pid: Its process number, or ``None``.
        ended: Whether a process was ended; if not, it was gone already or was not ours.
    """

    child: str
    pid: int | None
    ended: bool

    def __str__(self) -> str:
        what = "ended" if self.ended else "was gone already"
        return f"{self.child} (pid {self.pid}) {what}" if self.pid else f"{self.child}: unreadable pidfile removed"


def is_ours(record: PidRecord, *, data_dir: Path) -> bool:
    """Return whether the process that now has the record's number is the child that it was written for."""
    return (
        record.data_dir == str(data_dir)
        and is_running(record.pid)
        and start_mark(record.pid) == record.start_mark
        and _same_command(command_of(record.pid), record.argv)
    )


def _same_command(found: tuple[str, ...] | None, started: tuple[str, ...]) -> bool:
    """Compare the arguments only: a script's command begins with its interpreter, a wrapper's with what it ran."""
    arguments = started[1:]
    return found is not None and len(found) > len(arguments) > 0 and found[-len(arguments) :] == arguments


def collect_orphans(
    layout: Layout, *, grace_s: float = _GRACE_S, sleep: Callable[[float], None] = time.sleep
) -> tuple[Collected, ...]:
    """End the children that an earlier daemon left, and remove their stale files. Blocks for up to ``grace_s``.

    Args:
        layout: The data directory.
        grace_s: Seconds between SIGTERM and SIGKILL, for all together.
        sleep: Waits; for tests.
    """
    records = [(path, read_pidfile(path)) for path in layout.child_pidfiles()]
    ours = [record for _, record in records if record is not None and is_ours(record, data_dir=layout.data_dir)]
    _end_all(ours, layout.data_dir, grace_s, sleep)
    ended = {record.pid for record in ours}
    collected = []
    for path, record in records:
        if record is None:
            collected.append(Collected(child=path.stem, pid=None, ended=False))
        else:
            collected.append(Collected(child=record.child, pid=record.pid, ended=record.pid in ended))
            if record.socket is not None:
                _remove_socket(Path(record.socket), layout)
        path.unlink(missing_ok=True)
    _remove_stale(layout)
    return tuple(collected)


def _end_all(records: list[PidRecord], data_dir: Path, grace_s: float, sleep: Callable[[float], None]) -> None:
    for record in records:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(record.pid, signal.SIGTERM)
    left = records
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        sleep(_POLL_S)
        left = [record for record in left if is_ours(record, data_dir=data_dir)]
    for record in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(record.pid, signal.SIGKILL)
    deadline = time.monotonic() + grace_s
    while any(is_ours(record, data_dir=data_dir) for record in left) and time.monotonic() < deadline:
        sleep(_POLL_S)


def _remove_socket(path: Path, layout: Layout) -> None:
    if path.parent in {layout.sockets_dir, layout.short_dir} and path.is_socket():
        path.unlink(missing_ok=True)


def _remove_stale(layout: Layout) -> None:
    """Remove secrets and sockets of children: none runs now."""
    for path in layout.run_dir.glob("*.apikey"):
        path.unlink(missing_ok=True)
    for path in layout.sockets_dir.glob("*.sock"):
        path.unlink(missing_ok=True)
    for path in layout.short_dir.glob("child-*.sock"):
        path.unlink(missing_ok=True)
