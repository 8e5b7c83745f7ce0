"""Telling a process from a later one that was given the same number."""

import sys
from pathlib import Path

import psutil


def start_mark(pid: int) -> str | None:
    """Return a text that no other process of this number has, or ``None`` when there is no such process.

    On Linux it is the boot's id and the start time in clock ticks since then, both exact; ``psutil``'s seconds are
    derived from the wall clock, which moves. Elsewhere it is those seconds. Blocks for a read or two.
    """
    return _boot_and_ticks(pid) if sys.platform == "linux" else _wall_clock_start(pid)


def _boot_and_ticks(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    # The command stands in parentheses and may hold spaces and parentheses itself; start time is field 22.
    return f"{boot}:{stat.rpartition(')')[2].split()[19]}"


def _wall_clock_start(pid: int) -> str | None:
    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except psutil.Error:
        return None


def is_running(pid: int) -> bool:
    """Return whether a process of this number runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def command_of(pid: int) -> tuple[str, ...] | None:
    """Return the argument vector of a process, or ``None`` when it cannot be read."""
    try:
        return tuple(psutil.Process(pid).cmdline())
    except psutil.Error:
        return None


def cpu_seconds(pid: int) -> float | None:
    """Return the processor time a process has used so far, or ``None`` when it is gone. Blocks for a read."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def private_bytes(pid: int) -> int:
    """Return the main memory that a process holds besides file mappings; 0 when it is gone. Blocks for a read."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return 0
    # Only Linux says what part of it is shared, which is where mapped weights are counted.
    return max(0, int(memory.rss) - int(getattr(memory, "shared", 0)))
