"""Asking a binary about itself: it is run with one flag, in a scrubbed environment, with a timeout. Blocks."""

import errno
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blazar_supervisor.children.environment import child_environment
from blazar_supervisor.engines.libraries import library_package

_MISSING_LIBRARY = re.compile(r"error while loading shared libraries: ([^:\s]+)")
_MISSING_ON_DARWIN = re.compile(r"Library not loaded: (\S+)")


class BinaryRefuses(Exception):
    """The binary cannot answer; the text says why, without a full stop."""


@dataclass(frozen=True, slots=True)
class BinaryAnswer:
    """What a binary printed.

    Attributes:
        stdout: Standard output.
        stderr: Standard error.
        returncode: Its exit status.
    """

    stdout: str
    stderr: str
    returncode: int

    @property
    def text(self) -> str:
        """Both outputs: builds differ in where they print their version."""
        return f"{self.stdout}\n{self.stderr}"


def ask_binary(path: Path, flag: str, *, timeout_s: float, environ: Mapping[str, str] | None = None) -> BinaryAnswer:
    """Run ``path flag`` and return what it printed, whatever its exit status.

    Raises:
        BinaryRefuses: It cannot be executed here, lacks a library, dies by a signal, or does not end in time.
    """
    env = child_environment(os.environ if environ is None else environ, library_dir=path.parent)
    try:
        # A session of its own: a hanging driver's helpers are killed with it.
        process = subprocess.Popen(
            [str(path), flag],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise BinaryRefuses(_why_not_executable(error)) from error
    with process:
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise BinaryRefuses(
                f"it did not answer `{flag}` within {timeout_s:g} s (a broken GPU driver can hang it)"
            ) from None
        finally:
            _kill_group(process.pid)
    if match := _MISSING_LIBRARY.search(stderr) or _MISSING_ON_DARWIN.search(stderr):
        raise BinaryRefuses(f"it needs the shared library {match[1]}, which is missing: {library_package(match[1])}")
    if process.returncode < 0:
        raise BinaryRefuses(f"it died of {_signal_name(-process.returncode)} when asked for `{flag}`")
    return BinaryAnswer(stdout, stderr, process.returncode)


def _why_not_executable(error: OSError) -> str:
    match error.errno:
        case errno.EACCES:
            return "it is not executable (`chmod +x` it if you trust it)"
        case errno.ENOEXEC:
            return "it is not a program for this machine"
        case errno.ENOENT:
            return "there is no such file, or the interpreter or loader that it names is missing"
        case _:
            return f"it cannot be executed ({error.strerror})"


def _signal_name(number: int) -> str:
    name = f"signal {number}"
    if number in set(signal.Signals):
        name = signal.Signals(number).name
    if number == signal.SIGILL:
        return f"{name}: it uses processor instructions that this machine lacks"
    return name


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
