"""What the next daemon needs to find a child that outlived its own."""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from blazar_store.files import write_whole


@dataclass(frozen=True, slots=True)
class PidRecord:
    """A running child.

    Attributes:
        child: Its key.
        pid: Its process number, and its group's.
        start_mark: :func:`blazar_supervisor.children.identity.start_mark` of it.
        argv: Its command, word for word.
        data_dir: The data directory of the daemon that started it.
        engine: The tag of its engine build.
        socket: The unix socket it made, or ``None``.
    """

    child: str
    pid: int
    start_mark: str
    argv: tuple[str, ...]
    data_dir: str
    engine: str
    socket: str | None = None


def write_pidfile(path: Path, record: PidRecord) -> None:
    """Write the record, whole or not at all.

    Raises:
        blazar_store.errors.StoreError: The file cannot be written.
    """
    content = {
        "child": record.child,
        "pid": record.pid,
        "start_mark": record.start_mark,
        "argv": list(record.argv),
        "data_dir": record.data_dir,
        "engine": record.engine,
        "socket": record.socket,
    }
    write_whole(path, json.dumps(content, indent=1).encode(), mode=0o600)


def read_pidfile(path: Path) -> PidRecord | None:
    """Return the record in ``path``, or ``None`` when it is gone or is not one."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        content = json.loads(path.read_bytes())
        pid = int(content["pid"])
        if pid <= 1:
            return None
        return PidRecord(
            child=str(content["child"]),
            pid=pid,
            start_mark=str(content["start_mark"]),
            argv=tuple(str(word) for word in content["argv"]),
            data_dir=str(content["data_dir"]),
            engine=str(content.get("engine", "")),
            socket=None if content.get("socket") is None else str(content["socket"]),
        )
    return None
