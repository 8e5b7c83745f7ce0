"""Why a start failed, whichever engine it was."""

import signal
from dataclasses import dataclass
from enum import StrEnum


class Cause(StrEnum):
    """The kinds of failed start that lead to different action."""

    BIND = "bind"
    FILE_MISSING = "file-missing"
    FILE_UNREADABLE = "file-unreadable"
    UNKNOWN_ARCHITECTURE = "unknown-architecture"
    OUT_OF_MEMORY = "out-of-memory"
    ARGUMENT = "argument"
    LIBRARY = "library"
    PROCESSOR = "processor"
    ABORTED = "aborted"
    KILLED = "killed"
    ROUTER = "router"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a start failed, in words that teach.

    Attributes:
        cause: For decisions.
        reason: What happened: fits "model 'x' failed to load: …".
        advice: What to do, a sentence.
        detail: The architecture, library or the like that the cause is about, or ``""``.
    """

    cause: Cause
    reason: str
    advice: str
    detail: str = ""


INCOMPLETE_ADVICE = (
    "Check that the download is complete (size and sha256 against its source) and fetch it again if not."
)

_SIGNALS: dict[int, tuple[Cause, str, str]] = {
    signal.SIGILL: (
        Cause.PROCESSOR,
        "the engine uses processor instructions that this machine lacks (illegal instruction)",
        "The build was made for another processor (AVX-512 or AMX, for example). "
        "Register one made for this machine with `blazar engine add-local PATH`.",
    ),
    signal.SIGKILL: (
        Cause.KILLED,
        "the engine was killed (signal 9), most often by the system because memory ran out",
        "Lower `ctx` or take a smaller model; `dmesg` or `journalctl -k` tells whether it was memory.",
    ),
    signal.SIGSEGV: (
        Cause.ABORTED,
        "the engine crashed (segmentation fault)",
        "This is a fault of the engine build or its driver; try another build.",
    ),
    signal.SIGABRT: (
        Cause.ABORTED,
        "the engine aborted",
        "This is a fault of the engine build or of its arguments; its last lines tell more.",
    ),
    signal.SIGBUS: (
        Cause.FILE_UNREADABLE,
        "the engine lost access to the file while reading it (bus error)",
        "The file shrank or its disk went away while it was loaded. " + INCOMPLETE_ADVICE,
    ),
}


def exit_failure(returncode: int | None) -> Failure:
    """Return what an exit alone tells: the signal's usual meaning, or only that it ended."""
    if returncode is not None and -returncode in _SIGNALS:
        cause, reason, advice = _SIGNALS[-returncode]
        return Failure(cause, reason, advice)
    return Failure(
        Cause.OTHER,
        f"the engine ended with {describe_exit(returncode)} before it was ready",
        "Its last lines tell more; `blazar logs` shows the rest.",
    )


def describe_exit(returncode: int | None) -> str:
    """Return an exit in words: ``exit status 1``, ``signal 9 (SIGKILL)``."""
    if returncode is None:
        return "no exit status"
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
    return f"signal {-returncode} ({name})"
