"""Exit statuses of the ``blazar`` command: what each means, and which error ends in which.

The numbers are part of the interface. ``BIND_CONFLICT`` is 3 because the systemd unit says
``RestartPreventExitStatus=3``: a daemon that cannot have its port must not be restarted in a loop.
"""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType


class ExitCode(IntEnum):
    """How a command ended; the text after each number is what the reference page says."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "ExitCode":
        """Make a member of a number and its meaning."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "Done."
    FAILED = 1, "It did not work, and no other status fits; the text says why."
    USAGE = 2, "The command line is not one that `blazar` takes."
    BIND_CONFLICT = 3, "`serve`: another program has the address. systemd must not restart the daemon then."
    DATA_DIR_IN_USE = 4, "`serve`: another daemon uses this data directory; the text says which process."
    DAEMON_DOWN = 5, "No daemon answers at the address that was tried."
    NOT_FOUND = 6, "There is no such model, engine, agent, file or log."
    ENGINE = 7, "An engine is missing, is not an engine, failed to load the model, or died."
    DOES_NOT_FIT = 8, "The model does not fit into this machine's memory."
    CONFIG_INVALID = 9, "`config.toml` has a mistake; the text names the field."
    REFUSED = 10, "Refused: no permission, a missing key, or something Blazar never does (`login`)."
    BUSY = 11, "The daemon is full, too slow for the deadline, or stopping: try again later."
    MODEL_UNREADABLE = 12, "The file is not a model that an engine could load."
    PART_UNAVAILABLE = 13, "`demo`: the pinned engine or model cannot be had here."
    UNSUPPORTED_PLATFORM = 14, "The daemon does not run on this operating system."
    INTERRUPTED = 130, "Ctrl-C."


LANE_EXIT: Mapping[str, ExitCode] = MappingProxyType(
    {
        "admin-only": ExitCode.REFUSED,
        "body-too-large": ExitCode.USAGE,
        "breaker-open": ExitCode.ENGINE,
        "daily-quota-spent": ExitCode.BUSY,
        "deadline-missed": ExitCode.BUSY,
        "engine-binary-missing": ExitCode.ENGINE,
        "engine-crashed": ExitCode.ENGINE,
        "engine-missing": ExitCode.ENGINE,
        "engine-stalled": ExitCode.ENGINE,
        "engine-unreachable": ExitCode.ENGINE,
        "host-refused": ExitCode.REFUSED,
        "internal-error": ExitCode.FAILED,
        "invalid-request": ExitCode.USAGE,
        "key-invalid": ExitCode.REFUSED,
        "key-malformed": ExitCode.USAGE,
        "key-missing": ExitCode.REFUSED,
        "key-name-taken": ExitCode.FAILED,
        "keys-conflict": ExitCode.REFUSED,
        "lane-error": ExitCode.FAILED,
        "last-key": ExitCode.REFUSED,
        "load-failed": ExitCode.ENGINE,
        "load-timeout": ExitCode.ENGINE,
        "management-closed": ExitCode.REFUSED,
        "method-not-allowed": ExitCode.USAGE,
        "model-does-not-fit": ExitCode.DOES_NOT_FIT,
        "context-does-not-fit": ExitCode.DOES_NOT_FIT,
        "model-file-missing": ExitCode.NOT_FOUND,
        "model-not-allowed": ExitCode.REFUSED,
        "model-not-found": ExitCode.NOT_FOUND,
        "model-stopped": ExitCode.BUSY,
        "model-unreadable": ExitCode.MODEL_UNREADABLE,
        "no-such-key": ExitCode.NOT_FOUND,
        "not-an-engine": ExitCode.ENGINE,
        "origin-refused": ExitCode.REFUSED,
        "previous-response-not-found": ExitCode.NOT_FOUND,
        "profile-rejected": ExitCode.CONFIG_INVALID,
        "prompt-too-long": ExitCode.USAGE,
        "pull-failed": ExitCode.FAILED,
        "pull-not-found": ExitCode.NOT_FOUND,
        "pull-refused": ExitCode.REFUSED,
        "queue-full": ExitCode.BUSY,
        "rate-limited": ExitCode.BUSY,
        "response-not-found": ExitCode.NOT_FOUND,
        "shutting-down": ExitCode.BUSY,
        "too-many-concurrent": ExitCode.BUSY,
        "unknown-engine-kind": ExitCode.USAGE,
        "unsupported-endpoint": ExitCode.FAILED,
    }
)
"""``LaneError.code`` to exit status; a test finds every subclass here."""

STORE_EXIT: Mapping[str, ExitCode] = MappingProxyType(
    {
        "config-invalid": ExitCode.CONFIG_INVALID,
        "data-dir-in-use": ExitCode.DATA_DIR_IN_USE,
        "database-busy": ExitCode.BUSY,
        "database-damaged": ExitCode.FAILED,
        "database-too-new": ExitCode.FAILED,
        "disk-full": ExitCode.FAILED,
        "name-reserved": ExitCode.USAGE,
        "name-taken": ExitCode.FAILED,
        "no-such-engine": ExitCode.NOT_FOUND,
        "no-such-model": ExitCode.NOT_FOUND,
        "not-writable": ExitCode.FAILED,
        "storage-failed": ExitCode.FAILED,
        "store-error": ExitCode.FAILED,
    }
)
"""``StoreError.code`` to exit status; a test finds every subclass here."""


_WIRE_WORDS = {"context-length-exceeded": "prompt-too-long"}
"""What an error is called on the wire, where clients look for OpenAI's word."""


def exit_for(code: str) -> ExitCode:
    """Return the exit status of an error's code, also of one that only a newer daemon knows."""
    code = _WIRE_WORDS.get(code, code)
    return LANE_EXIT.get(code) or STORE_EXIT.get(code) or ExitCode.FAILED
