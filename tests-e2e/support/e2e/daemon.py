"""The daemon as a process: started as a user starts it, watched from outside, killed whatever happens."""

import json
import os
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from e2e.home import Home, blazar_command
from e2e.http import Client
from e2e.waiting import eventually

STOP_S = 60.0
_LISTENS = re.compile(r"listens on (https?://\S+)")


class Daemon:
    """A running `blazar serve`."""

    def __init__(
        self, home: Home, process: subprocess.Popen[bytes], output: Path, trust: ssl.SSLContext | None = None
    ) -> None:
        self.trust = trust
        self.home = home
        self.process = process
        self.output = output
        self.url = ""

    @property
    def client(self) -> Client:
        """A client of its TCP address."""
        return Client(self.url, trust=self.trust)

    def said(self) -> str:
        """Return what it printed on the terminal so far."""
        return self.output.read_text("utf-8", errors="replace")

    def log(self) -> str:
        """Return its log file."""
        return self.home.daemon_log.read_text("utf-8", errors="replace") if self.home.daemon_log.exists() else ""

    def engines(self) -> list[psutil.Process]:
        """Return the engine processes that it runs, zombies left out."""
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child for child in children if _alive(child)]

    def status(self) -> Any:
        """Return what `blazar status --json` says."""
        return self.home.json("status")

    def residents(self) -> list[dict[str, Any]]:
        """Return the models that are loaded, as `/api/ps` lists them."""
        models: list[dict[str, Any]] = json.loads(self.client.get("/api/ps").body)["models"]
        return models

    def open_descriptors(self) -> int:
        """Return how many files and sockets it holds."""
        return int(psutil.Process(self.process.pid).num_fds())

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = STOP_S) -> int:
        """Wait for its end and return the exit status."""
        return self.process.wait(timeout=timeout_s)

    def stop(self) -> int:
        """Ask it to stop, wait until it has, and return the exit status."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait()

    def report(self) -> str:
        """Return everything that helps to see why a test failed."""
        # Its log file says nothing that it did not also say here.
        parts = [f"--- blazar serve, exit status {self.process.poll()}", self.said()[-8000:]]
        for file in sorted(self.home.data_dir.glob("log/children/*.log")):
            parts += [f"--- {file.name}", file.read_text("utf-8", errors="replace")[-4000:]]
        return "\n".join(parts)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


ANY_PORT = ("--port", "0")


def start_daemon(home: Home, arguments: Sequence[str] = ANY_PORT, env: Mapping[str, str] | None = None) -> Daemon:
    """Start `blazar serve` and return at once; :func:`wait_until_listening` waits for it."""
    output = home.root / f"serve-{os.urandom(3).hex()}.out"
    with output.open("wb") as out:
        process = subprocess.Popen(
            blazar_command("serve", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=home.root,
            env=home.env(**(env or {})),
            # A Ctrl-C at the test run must not stop it before the fixtures do.
            start_new_session=True,
        )
    return Daemon(home, process, output)


def wait_until_listening(daemon: Daemon) -> None:
    """Wait until the daemon has said where it listens and answers there.

    Raises:
        AssertionError: It ended first, or the deadline passed.
    """

    def look() -> str | None:
        assert daemon.process.poll() is None, f"blazar serve ended at once\n{daemon.report()}"
        found = _LISTENS.search(daemon.said())
        return found[1] if found else None

    daemon.url = eventually(look, what="blazar serve says where it listens")
    assert daemon.client.get("/healthz").status == 200


@contextmanager
def running_daemon(
    home: Home,
    arguments: Sequence[str] = ANY_PORT,
    env: Mapping[str, str] | None = None,
    *,
    trust: ssl.SSLContext | None = None,
) -> Iterator[Daemon]:
    """Run the daemon until the block ends; then it is stopped, or killed if it does not stop in time."""
    daemon = start_daemon(home, arguments, env)
    daemon.trust = trust
    try:
        wait_until_listening(daemon)
        yield daemon
    finally:
        try:
            daemon.stop()
        except subprocess.TimeoutExpired:
            daemon.process.kill()
            daemon.process.wait()
            raise
