"""What a child prints: its last lines in memory, all of it in a rotated file.

Lines are taken in on the loop; the file is written by a thread, in one piece for everything that came meanwhile.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

ROTATE_BYTES = 8 << 20
"""A log over this size becomes ``<name>.log.1`` (replacing the one before)."""

_TAIL_LINES = 400
_FLUSH_DELAY_S = 0.2
_LONGEST_LINE = 64 << 10


class ChildLog:
    """The log of one child.

    Args:
        path: The file that lines are appended to, or ``None`` for memory only.
        on_line: Called with each line as it comes (without its line break), on the loop.
        on_partial: Called with what has come of an unfinished line: progress dots come without line breaks.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        on_line: Callable[[str], None],
        on_partial: Callable[[str], None] | None = None,
    ) -> None:
        self._path = path
        self._on_line = on_line
        self._on_partial = on_partial
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._partial = b""
        self._unwritten: list[bytes] = []
        self._writing: asyncio.Task[None] | None = None

    def tail(self, lines: int = _TAIL_LINES) -> tuple[str, ...]:
        """Return the last lines, oldest first, an unfinished one included."""
        kept = list(self._tail)
        if self._partial.strip():
            kept.append(self._partial.decode("utf-8", "replace"))
        return tuple(kept[-lines:])

    def headline(self, text: str) -> None:
        """Add a line of our own to the file (not to the tail)."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._write(f"--- {stamp} {text}\n".encode())

    def feed(self, data: bytes) -> None:
        """Take in what the child wrote, wherever it was cut."""
        self._write(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip("\r")
            self._tail.append(text)
            self._on_line(text)
        if len(self._partial) > _LONGEST_LINE:
            self._partial = self._partial[-_LONGEST_LINE:]
        if self._partial and self._on_partial is not None:
            self._on_partial(self._partial.decode("utf-8", "replace"))

    def end(self) -> None:
        """Take what is left as the last line: nothing more will come."""
        if self._partial:
            text = self._partial.decode("utf-8", "replace")
            self._partial = b""
            self._tail.append(text)
            self._on_line(text)
            self._write(b"\n")

    async def flushed(self) -> None:
        """Wait until everything is in the file."""
        while self._writing is not None:
            await asyncio.shield(self._writing)

    def _write(self, data: bytes) -> None:
        if self._path is None:
            return
        self._unwritten.append(data)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        try:
            await asyncio.sleep(_FLUSH_DELAY_S)
            while self._unwritten:
                data = b"".join(self._unwritten)
                self._unwritten.clear()
                await asyncio.to_thread(_append, self._path, data)
        finally:
            self._writing = None


def _append(path: Path | None, data: bytes) -> None:
    if path is None:
        return
    try:
        if path.exists() and path.stat().st_size + len(data) > ROTATE_BYTES:
            path.replace(path.with_name(path.name + ".1"))
        with path.open("ab") as file:
            file.write(data)
    except OSError:
        # A full disk must not take a running engine down; the tail in memory still tells what went wrong.
        return
