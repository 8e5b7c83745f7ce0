"""The daemon's log: ``run/daemon.log`` under every launcher, and standard error as a second stream.

Records are written by a thread, so that a slow disk or a blocked terminal never holds up the event loop.
"""

import asyncio
import contextlib
import logging
import os
import queue
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path

from blazar_cli.overriding import override

ROTATE_BYTES = 10 << 20
"""A log over this size is set aside when the daemon starts; the contract's value."""

_TAIL_BLOCK_BYTES = 64 << 10
_FOLLOW_S = 0.25


class _LineFormatter(logging.Formatter):
    """``2026-03-01T14:05:09.123+01:00 INFO blazar_supervisor.host: text``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    @override
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802, ARG002 - logging's
        local = time.localtime(record.created)
        zone = time.strftime("%z", local)
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}.{int(record.msecs):03}{zone[:3]}:{zone[3:]}"


class _FileSink(logging.FileHandler):
    """The file; that it cannot be written is said once on standard error, not with a traceback for each record."""

    _failures = 0

    @override
    def emit(self, record: logging.LogRecord) -> None:
        before = self._failures
        super().emit(record)
        if self._failures == before:
            self._failures = 0

    @override
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's
        reason = sys.exc_info()[1]
        if not isinstance(reason, OSError):
            super().handleError(record)
            return
        self._failures += 1
        if self._failures == 1:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"{self.baseFilename} cannot be written, and may lack lines until it can: {reason}\n")


def rotate_log(path: Path) -> None:
    """Set the log aside as ``daemon.log.1`` if it is over the limit; an older one is replaced."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > ROTATE_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))


@contextmanager
def daemon_logging(path: Path, *, level: str) -> Iterator[None]:
    """Write every log record to the file and to standard error until the block ends.

    Args:
        path: The log file; it is appended to.
        level: ``debug``, ``info``, ``warning`` or ``error``.
    """
    file = _FileSink(path, encoding="utf-8", errors="backslashreplace")
    sinks: list[logging.Handler] = [file]
    if not _writes_to(path):
        sinks.append(logging.StreamHandler(sys.stderr))
    for sink in sinks:
        sink.setFormatter(_LineFormatter())
    records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    listener = QueueListener(records, *sinks)
    entry = QueueHandler(records)
    root = logging.getLogger()
    root.addHandler(entry)
    set_log_level(level)
    # aiohttp's access lines are ours to write, with a request id; asyncio's debug lines help nobody.
    for name in ("aiohttp.access", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    listener.start()
    try:
        yield
    finally:
        root.removeHandler(entry)
        listener.stop()
        # What a full disk did not take is tried once more here; it has been told.
        with contextlib.suppress(OSError):
            file.close()


def set_log_level(level: str) -> None:
    """Change the least important level that is written."""
    logging.getLogger().setLevel(level.upper())


def _writes_to(path: Path) -> bool:
    # A launcher may have sent standard error into the very file; each line would then be there twice.
    try:
        return os.path.samestat(os.fstat(sys.stderr.fileno()), path.stat())
    except (OSError, ValueError):
        return False


def last_lines(path: Path, lines: int) -> bytes:
    """Return the last lines of a file, whole; nothing if there is no file.

    Reads backwards, so the size of the file does not matter.
    """
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            start, blocks = end, list[bytes]()
            while start > 0 and sum(block.count(b"\n") for block in blocks) <= lines:
                start = max(0, start - _TAIL_BLOCK_BYTES)
                file.seek(start)
                blocks.insert(0, file.read(min(_TAIL_BLOCK_BYTES, end - start)))
                end = start
    except FileNotFoundError:
        return b""
    return b"".join(b"".join(blocks).splitlines(keepends=True)[-lines:]) if lines > 0 else b""


class LogFollower:
    """What is added to a log file from now on, across rotation; the file may appear later. Every method blocks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place: tuple[int, int] | None = None
        self._position = 0
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            self._place, self._position = (status.st_dev, status.st_ino), status.st_size

    def read(self) -> bytes:
        """Return what was added since the last call."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                place = (status.st_dev, status.st_ino)
                if place != self._place or status.st_size < self._position:
                    self._place, self._position = place, 0
                file.seek(self._position)
                added = file.read()
        except FileNotFoundError:
            return b""
        self._position += len(added)
        return added


async def stream_lines(path: Path, *, lines: int, follow: bool, until: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield the last lines of a log, then, if asked, what is added until the event is set."""
    follower = await asyncio.to_thread(LogFollower, path)
    tail = await asyncio.to_thread(last_lines, path, lines)
    if tail:
        yield tail
    while follow and not until.is_set():
        added = await asyncio.to_thread(follower.read)
        if added:
            yield added
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(until.wait(), _FOLLOW_S)
