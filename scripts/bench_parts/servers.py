"""The processes of a bench run: two upstreams on one core, the two gateways on another."""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench_parts.pinning import pin_to, usable_cores
from bench_parts.workloads import MODEL, WORKLOADS
from blazar_store.key_secrets import hash_secret
from blazar_stubs import write_stub_model

_PARTS = Path(__file__).parent
_START_S = 60.0
_IDLE_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Gateway:
    """One of the two that are compared.

    Attributes:
        name: As the table shows it.
        url: Its address.
        process: For CPU time and memory.
        idle_bytes: Resident memory with nothing loaded and nothing asked.
        key: What it is asked with, ``""`` for nothing.
    """

    name: str
    url: str
    process: psutil.Process
    idle_bytes: int
    key: str = ""

    def cpu_s(self) -> float:
        """Return the CPU time used so far, seconds."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def resident_bytes(self) -> int:
        """Return the resident memory now."""
        return int(self.process.memory_info().rss)


class BenchFailed(Exception):
    """A process of the bench did not come up; the text says which, and what it printed last."""


@contextmanager
def running(
    command: list[str], *, core: int | None, log: Path, env: Mapping[str, str] | None = None
) -> Iterator[psutil.Process]:
    """Run a program until the block ends, on one core if given; its children end with it."""
    with log.open("ab") as out:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, **(env or {})},
            preexec_fn=None if core is None else lambda: pin_to(core),
        )
    process = psutil.Process(started.pid)
    try:
        yield process
    finally:
        children = process.children(recursive=True) if process.is_running() else []
        started.terminate()
        try:
            started.wait(timeout=20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        for child in children:
            if child.is_running():
                child.kill()


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_up(url: str, process: psutil.Process, log: Path) -> None:
    """Wait until ``url`` answers 200.

    Raises:
        BenchFailed: The process ended, or the deadline passed.
    """
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            break
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    tail = "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-15:])
    raise BenchFailed(f"{url} never answered; {log.name} ends with:\n{tail}")


def _idle_bytes(process: psutil.Process) -> int:
    """Return the median resident memory of a process that has just come up."""
    samples = []
    for _ in range(_IDLE_SAMPLES):
        samples.append(int(process.memory_info().rss))
        time.sleep(0.2)
    return sorted(samples)[_IDLE_SAMPLES // 2]


@contextmanager
def pass_through(*, upstream_core: int, gateway_core: int, workdir: Path) -> Iterator[Gateway]:
    """Run the bare aiohttp relay in front of an upstream of its own."""
    port, upstream_port = free_port(), free_port()
    env = {"PYTHONPATH": str(_PARTS.parent)}
    log = workdir / "passthrough.log"
    upstream = [sys.executable, str(_PARTS / "upstream.py"), "--port", str(upstream_port), "--alias", MODEL]
    relay = [sys.executable, str(_PARTS / "passthrough.py"), str(port), f"http://127.0.0.1:{upstream_port}"]
    with (
        running(upstream, core=upstream_core, log=log, env=env) as upstream_process,
        running(relay, core=gateway_core, log=log, env=env) as process,
    ):
        wait_until_up(f"http://127.0.0.1:{upstream_port}/health", upstream_process, log)
        wait_until_up(f"http://127.0.0.1:{port}/healthz", process, log)
        yield Gateway("pass-through", f"http://127.0.0.1:{port}", process, _idle_bytes(process))


_KEYS = 100
_SECRET = "plm_bench-{}"


def _config(*, keys: int, slots: int) -> str:
    """Return a configuration; every key has limits that are counted and not reached."""
    lines = [f'[models."{MODEL}"]', f"slots = {slots}"]
    for number in range(keys):
        lines += [
            "[[keys]]",
            f'name = "key-{number}"',
            f'hash = "{hash_secret(_SECRET.format(number))}"',
            "rpm = 100000000",
            "tpm = 100000000000",
            "daily_tokens = 100000000000",
            "max_concurrent = 10000",
            f"weight = {1 + number % 4}",
        ]
    return "\n".join(lines) + "\n"


def write_engine(path: Path, command: str, *, core: int) -> None:
    """Write an executable that runs a command on a core of its own, not on that of the daemon which starts it."""
    pin = f"import os, sys; os.sched_setaffinity(0, {{{core}}}); os.execv(sys.argv[1], sys.argv[1:])"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{pin}" {command} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


@contextmanager
def blazar(
    *,
    upstream_core: int,
    gateway_core: int,
    workdir: Path,
    guarded: bool = True,
    engine: str | None = None,
    weights: Path | None = None,
    name: str = "blazar",
) -> Iterator[Gateway]:
    """Run ``blazar serve`` in a data directory of its own; the model is loaded when the block begins.

    Args:
        upstream_core: Where its engine runs.
        gateway_core: Where it runs.
        workdir: For its files.
        guarded: Whether it has keys with quotas.
        engine: A command line, or ``None`` for the stand-in that answers at once.
        weights: A model file, or ``None`` for one that the stand-in takes.
        name: As the table shows it.
    """
    env = {
        "BLAZAR_DATA_DIR": str(workdir / "data"),
        "BLAZAR_CONFIG": str(workdir / "config.toml"),
        "XDG_CACHE_HOME": str(workdir / "cache"),
    }
    command = [sys.executable, "-m", "blazar_cli.main"]
    program = workdir / "llama-server"
    stand_in = f'"{sys.executable}" "{_PARTS / "upstream.py"}"'
    write_engine(program, engine or f'/usr/bin/env PYTHONPATH="{_PARTS.parent}" {stand_in}', core=upstream_core)
    slots = 64 if engine is None else 4
    (workdir / "config.toml").write_text(_config(keys=_KEYS if guarded else 0, slots=slots), encoding="utf-8")
    if weights is None:
        weights = workdir / f"{MODEL}.gguf"
        write_stub_model(weights)
    for arguments in (
        ["engine", "add-local", str(program)],
        ["models", "add", str(weights), "--name", MODEL],
    ):
        done = subprocess.run(
            [*command, *arguments], env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode:
            raise BenchFailed(f"blazar {' '.join(arguments)} exited {done.returncode}:\n{done.stdout}{done.stderr}")
    port = free_port()
    log = workdir / "blazar.log"
    key = _SECRET.format(0) if guarded else ""
    with running([*command, "serve", "--port", str(port)], core=gateway_core, log=log, env=env) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until_up(f"{url}/healthz", process, log)
        idle_bytes = _idle_bytes(process)
        load_model(url, key)
        yield Gateway(name, url, process, idle_bytes, key)


def load_model(url: str, key: str = "") -> None:
    """Ask once, so that the model is there when it is measured.

    Raises:
        BenchFailed: It was refused.
    """
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    request = urllib.request.Request(url + WORKLOADS[1].path, data=WORKLOADS[1].body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=_START_S) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        raise BenchFailed(
            f"the first chat was answered {error.code}: {error.read().decode(errors='replace')}"
        ) from error


@contextmanager
def both_gateways(*, upstream_core: int, gateway_core: int, guarded: bool = True) -> Iterator[tuple[Gateway, Gateway]]:
    """Run Blazar and the pass-through side by side; only one is loaded at a time."""
    with tempfile.TemporaryDirectory(prefix="blazar-bench-") as folder, ExitStack() as stack:
        ours = Path(folder, "blazar")
        ours.mkdir()
        mine = blazar(upstream_core=upstream_core, gateway_core=gateway_core, workdir=ours, guarded=guarded)
        bare = pass_through(upstream_core=upstream_core, gateway_core=gateway_core, workdir=Path(folder))
        yield stack.enter_context(mine), stack.enter_context(bare)


def cores() -> tuple[int, int]:
    """Return the core for load and upstream, and the core for the gateways.

    Raises:
        BenchFailed: This machine cannot pin processes to two cores.
    """
    available = usable_cores()
    if len(available) < 2:
        raise BenchFailed("the bench pins load and gateway to a core each, and needs Linux with two cores for that.")
    return available[0], available[1]


def describe_cpu() -> str:
    """Return the processor's name, where the system tells it."""
    info = Path("/proc/cpuinfo")
    text = info.read_text("utf-8") if info.exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else "unknown processor"
