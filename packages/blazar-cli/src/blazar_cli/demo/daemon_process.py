"""A daemon of one's own: a real ``blazar serve`` process on a free port, stopped whatever happens."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from blazar_cli.errors import CliError
from blazar_store.layout import Layout
from blazar_store.lock import read_owner

_START_S = 60.0
_POLL_S = 0.05
_STOP_S = 30.0


class DaemonDidNotStart(CliError):
    """The process ended, or did not listen in time."""

    def __init__(self, *, said: str) -> None:
        self.said = said
        tail = "\n".join(f"  {line}" for line in said.strip().splitlines()[-12:])
        super().__init__(f"the daemon did not start. It said:\n{tail}")


@contextmanager
def running_daemon(layout: Layout, config_file: Path) -> Iterator[str]:
    """Start a daemon on a data directory and yield its base URL; stop it and its engines at the end.

    It has a session of its own, so that Ctrl-C in the terminal reaches this process only, which then stops it in
    good order.

    Raises:
        DaemonDidNotStart: It ended, or did not listen within a minute; the text quotes it.
    """
    output = layout.data_dir / "serve.out"
    environment = {
        **os.environ,
        "BLAZAR_DATA_DIR": str(layout.data_dir),
        "BLAZAR_CONFIG": str(config_file),
        "PYTHONUNBUFFERED": "1",
    }
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "blazar_cli.main", "serve", "--host", "127.0.0.1", "--port", "0"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield _await_address(process, layout, output)
    finally:
        stop_process(process)


def _await_address(process: "subprocess.Popen[bytes]", layout: Layout, output: Path) -> str:
    deadline_s = time.monotonic() + _START_S
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            break
        owner = read_owner(layout)
        if owner is not None and owner.pid == process.pid and owner.address is not None:
            return owner.address
        time.sleep(_POLL_S)
    raise DaemonDidNotStart(said=output.read_text(errors="replace"))


def stop_process(process: "subprocess.Popen[bytes]") -> None:
    """Stop a daemon: ask, ask again (which hurries it), then kill it and what it started."""
    for _ in range(2):
        if process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
    children = _descendants(process.pid)
    process.kill()
    process.wait()
    for child in children:
        with contextlib.suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(children, timeout=_STOP_S)


def _descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return []
