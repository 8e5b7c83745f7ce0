"""The lines a llama-server writes to stderr, in its own format.

Prefix: minutes.seconds.milliseconds.microseconds since start, a level letter, a space. Whatever the verbosity,
lines shown only at level 4 carry the letter I as well (observed).
"""

import sys
import time

INFO = 3
TRACE = 4


class Console:
    """Writes log lines at or below a verbosity."""

    def __init__(self, verbosity: int = INFO) -> None:
        self.verbosity = verbosity
        self._started_s = time.monotonic()

    def _stamp(self) -> str:
        elapsed_us = int((time.monotonic() - self._started_s) * 1e6)
        seconds, microseconds = divmod(elapsed_us, 1_000_000)
        milliseconds, microseconds = divmod(microseconds, 1000)
        return f"{seconds // 60}.{seconds % 60:02d}.{milliseconds:03d}.{microseconds:03d}"

    def raw(self, text: str) -> None:
        """A bare line, as libraries print them."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def line(self, text: str, *, letter: str = "I", verbosity: int = INFO) -> None:
        """One prefixed line."""
        if verbosity <= self.verbosity:
            self.raw(f"{self._stamp()} {letter} {text}")

    def server(self, function: str, text: str, *, letter: str = "I", verbosity: int = INFO) -> None:
        """A line of the server: ``srv    load_model: ...``."""
        self.line(f"srv  {function[:12]:>12}: {text}", letter=letter, verbosity=verbosity)

    def common(self, function: str, text: str, *, letter: str = "I", verbosity: int = INFO) -> None:
        """A line of the shared library: ``cmn  common_init_: ...``."""
        self.line(f"cmn  {function[:12]:>12}: {text}", letter=letter, verbosity=verbosity)

    def slot(self, function: str, slot: int, task: int, text: str, *, verbosity: int = INFO) -> None:
        """A line of one slot: ``slot      release: id  0 | task 3 | ...``."""
        self.line(f"slot {function[:12]:>12}: id {slot:2d} | task {task} | {text}", verbosity=verbosity)
