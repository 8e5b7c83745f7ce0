"""The machine around it: the port, the daemon, memory, the uv program."""

import shlex
import shutil
import socket
import sys
from collections.abc import Iterator

import psutil

from blazar_cli.address import Address
from blazar_cli.client import STATUS, DaemonClient
from blazar_cli.doctor.finding import Finding, bad, ok, warn
from blazar_cli.errors import CliError
from blazar_cli.output import human_bytes
from blazar_store.errors import StoreError
from blazar_store.layout import Layout
from blazar_store.lock import read_owner
from blazar_store.types import ModelRow


def check_platform(platform: str) -> Finding:
    """Look whether the daemon runs on this system."""
    if platform in {"win32", "cygwin"}:
        return bad("platform", "the daemon does not run on Windows", "Use it inside WSL 2.")
    return ok("platform", f"{platform}, Python {'.'.join(map(str, sys.version_info[:3]))}")


def check_daemon(layout: Layout, address: Address) -> Iterator[Finding]:
    """Look who owns the data directory, whether it answers, and else whether its address is free."""
    try:
        owner = read_owner(layout)
    except StoreError as error:
        yield bad("daemon", "its lock cannot be read", str(error))
        return
    if owner is None:
        yield warn("daemon", "it is not running", "Start it: `blazar serve`.")
        yield from _port(address)
        return
    who = f"pid {owner.pid} at {owner.address}"
    client = DaemonClient(Address(), control_socket=layout.find_control_socket(), api_key=None)
    try:
        facts = client.get(STATUS)
    except CliError as error:
        yield bad("daemon", f"{who} does not answer: {error}", f"See `blazar logs`, then stop it: `kill {owner.pid}`.")
        return
    yield ok("daemon", f"{who}, {facts.get('state')}")
    if facts.get("config_error"):
        found = "it runs with an older configuration, because the file has a mistake"
        yield bad("daemon", found, str(facts["config_error"]))


def _port(address: Address) -> Iterator[Finding]:
    what = f"port {address.port}"
    with socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            found = f"{address.host}:{address.port} cannot be listened on: {(error.strerror or str(error)).lower()}"
            yield bad(what, found, "Stop the program that has it, or choose another: `blazar serve --port PORT`.")
        else:
            yield ok(what, f"{address.host}:{address.port} is free")


def check_memory(models: tuple[ModelRow, ...]) -> Iterator[Finding]:
    """Compare each model's weights with the memory of this machine."""
    memory = psutil.virtual_memory()
    yield ok("memory", f"{human_bytes(memory.available)} of {human_bytes(memory.total)} available")
    for row in models:
        if row.size_bytes > memory.total:
            found = f"its weights ({human_bytes(row.size_bytes)}) are larger than this machine's memory"
            yield warn(
                f"model {row.name}", found, f"See `blazar fit {shlex.quote(row.name)}`; a smaller quantisation may fit."
            )


def check_tools() -> Finding:
    """Look for the uv program, which fetches the demo's parts."""
    from uv import find_uv_bin

    try:
        return ok("uv", str(find_uv_bin()))
    except FileNotFoundError:
        found = shutil.which("uv")
    if found is None:
        return warn("uv", "it is missing", "`blazar demo` needs it: `python -m pip install uv`.")
    return ok("uv", found)
