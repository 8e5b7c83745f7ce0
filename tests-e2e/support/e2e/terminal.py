"""A terminal with a program in it, typed at and read as a person does."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.waiting import DEADLINE_S

_ROWS, _COLUMNS = 40, 120
_CURSOR_QUERY = b"\x1b[6n"
_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")


class Terminal:
    """The side of the terminal where the keyboard and the screen are."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self.raw = b""

    @property
    def text(self) -> str:
        """Everything shown so far, without colours and cursor movements."""
        return _SEQUENCES.sub("", self.raw.decode(errors="replace"))

    def type(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def read_until(self, shown: str, *, timeout_s: float = DEADLINE_S) -> str:
        """Read until the text is on the screen, and return all of it.

        Raises:
            AssertionError: It did not appear in time, or the program ended first.
        """
        deadline = time.monotonic() + timeout_s
        while shown not in self.text:
            assert time.monotonic() < deadline, f"never shown: {shown!r}\n{self.text}"
            assert self._read_some(), f"the program ended without showing {shown!r}\n{self.text}"
        return self.text

    def read_to_the_end(self, *, timeout_s: float = DEADLINE_S) -> int:
        """Read until the program has ended and return its exit status."""
        deadline = time.monotonic() + timeout_s
        while self._read_some():
            assert time.monotonic() < deadline, f"the program goes on\n{self.text}"
        return self.process.wait(timeout=timeout_s)

    def _read_some(self) -> bool:
        """Read what there is; return whether there may be more."""
        ready, _, _ = select.select([self._master], [], [], 0.2)
        if not ready:
            return True
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            return False  # Linux says so when the other side is closed
        self.raw += data
        if _CURSOR_QUERY in data:
            # A terminal answers where its cursor is; a line editor waits for that.
            os.write(self._master, b"\x1b[1;1R")
        return bool(data)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def terminal(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Iterator[Terminal]:
    """Run a program in a terminal of its own; it is killed if it still runs at the end."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    process = subprocess.Popen(
        list(command),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env=dict(env),
        start_new_session=True,
        # The session's own terminal: only then does Ctrl-C there become a signal.
        preexec_fn=_take_terminal,
    )
    os.close(slave)
    try:
        yield Terminal(master, process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
