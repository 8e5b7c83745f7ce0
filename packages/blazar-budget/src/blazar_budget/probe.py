"""Finding out what this machine has. The only module of the package that reads anything; nothing else imports it.

Order of sources:

1. Memory from psutil, lowered by the limits of every control group this process is in (containers, systemd slices).
2. NVIDIA through NVML, which creates no CUDA context, so the daemon holds no device memory; in a thread that is given
   up on after a while, because a broken driver hangs its callers. Without NVML, ``nvidia-smi`` with a deadline.
3. AMD and Intel from sysfs.
4. On Apple silicon the part of unified memory that Metal may wire.

Whatever cannot be found out becomes a note, never an error: a machine without a working driver still has a processor.
"""

import contextlib
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

import psutil

from blazar_budget.listings import SMI_QUERY, parse_nvidia_smi
from blazar_budget.machine import Gpu, Machine, Vendor

DEFAULT_TIMEOUT_S: Final = 5.0
"""Longest wait for a driver, in seconds."""

_SYS: Final = Path("/sys")
_PROC: Final = Path("/proc")
_AMD: Final = "0x1002"
_INTEL: Final = "0x8086"
_GIB: Final = 1 << 30
_MIB: Final = 1 << 20
_SMALL_MAC_BYTES: Final = 36 * _GIB


def probe_memory(*, timeout_s: float = DEFAULT_TIMEOUT_S, sys_root: Path = _SYS, proc_root: Path = _PROC) -> Machine:
    """Return this machine's memory and accelerators. Blocks for up to twice ``timeout_s``; never raises.

    Args:
        timeout_s: longest wait for any one driver, in seconds.
        sys_root: where sysfs is mounted.
        proc_root: where procfs is.
    """
    notes: list[str] = []
    total, available = read_ram(sys_root=sys_root, proc_root=proc_root)
    gpus = [*_nvidia(timeout_s, notes), *read_drm(sys_root / "class" / "drm", notes)]
    if sys.platform == "darwin":
        gpus += _apple(total, available, timeout_s)
    return Machine(total, available, tuple(gpus), tuple(notes))


# -- host memory -----------------------------------------------------------------------------------------------


def read_ram(*, sys_root: Path = _SYS, proc_root: Path = _PROC) -> tuple[int, int]:
    """Return total and available host memory in bytes, as far as control groups let this process have it."""
    memory = psutil.virtual_memory()
    total, available = int(memory.total), int(memory.available)
    for group in _control_groups(sys_root / "fs" / "cgroup", proc_root / "self" / "cgroup"):
        limit = _first_number(group, "memory.max", "memory.limit_in_bytes")
        if limit is None or limit >= total:
            continue
        total = limit
        used = _first_number(group, "memory.current", "memory.usage_in_bytes") or 0
        # pages of files count as used there, but are given back when memory is wanted
        reclaimable = _stat(group / "memory.stat", "inactive_file", "total_inactive_file")
        available = min(available, max(limit - max(used - reclaimable, 0), 0))
    return total, min(available, total)


def _control_groups(mount: Path, membership: Path) -> Sequence[Path]:
    """Directories of all groups this process is in, with their ancestors: a limit anywhere above counts."""
    found: list[Path] = []
    for line in _text(membership).splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3 or (parts[1] and "memory" not in parts[1].split(",")):
            continue
        base = mount / "memory" if parts[1] else mount
        inside = base / parts[2].strip("/")
        # a container often sees only its own subtree, mounted at the root
        found += [inside, *(p for p in inside.parents if p == base or base in p.parents), base]
    return tuple(dict.fromkeys(found)) or (mount, mount / "memory")


def _first_number(directory: Path, *names: str) -> int | None:
    for name in names:
        value = _number(directory / name)
        if value is not None:
            return value
    return None


def _stat(path: Path, *keys: str) -> int:
    rows = dict(line.split(maxsplit=1) for line in _text(path).splitlines() if " " in line)
    return next((int(rows[key]) for key in keys if rows.get(key, "").strip().isdigit()), 0)


# -- NVIDIA ----------------------------------------------------------------------------------------------------


def _nvidia(timeout_s: float, notes: list[str]) -> Sequence[Gpu]:
    """GPUs by NVML, else by ``nvidia-smi``."""
    try:
        return _within(timeout_s, _read_nvml)
    except TimeoutError:
        notes.append(f"the NVIDIA driver did not answer within {timeout_s:g} s; its GPUs are left out")
        return ()
    except (ImportError, OSError, RuntimeError):
        return _read_nvidia_smi(timeout_s, notes)


def _read_nvml() -> Sequence[Gpu]:
    import pynvml  # here, because most machines have no use for it

    try:
        pynvml.nvmlInit()
        try:
            return [_nvml_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        raise RuntimeError(str(error)) from error


def _nvml_gpu(nvml: ModuleType, index: int) -> Gpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    # old bindings return bytes
    name, uuid = (_decoded(read(handle)) for read in (nvml.nvmlDeviceGetName, nvml.nvmlDeviceGetUUID))
    return Gpu(name, int(memory.total), int(memory.free), uuid, Vendor.NVIDIA)


def _read_nvidia_smi(timeout_s: float, notes: list[str]) -> Sequence[Gpu]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    output = _run([program, *SMI_QUERY], timeout_s)
    if output is None:
        notes.append("nvidia-smi is there but failed or did not answer; NVIDIA GPUs are left out")
        return ()
    return parse_nvidia_smi(output)


# -- AMD and Intel ---------------------------------------------------------------------------------------------


def read_drm(cards: Path, notes: list[str]) -> Sequence[Gpu]:
    """Return AMD and Intel cards with memory of their own, from ``/sys/class/drm``."""
    found: list[Gpu] = []
    for card in sorted(cards.glob("card[0-9]*"), key=lambda path: (len(path.name), path.name)):
        if "-" in card.name:
            continue
        device = card / "device"
        vendor = _text(device / "vendor").strip().lower()
        gpu = _amd_card(card, device) if vendor == _AMD else None
        if vendor == _INTEL:
            gpu = _intel_card(card, device)
            if gpu is not None:
                notes.append(f"{gpu.name} does not say how much of its memory is free; all of it is assumed")
        if gpu is not None and gpu.total > 0:
            found.append(gpu)
    return found


def _amd_card(card: Path, device: Path) -> Gpu | None:
    total = _number(device / "mem_info_vram_total")
    if total is None:
        return None
    used = _number(device / "mem_info_vram_used") or 0
    name = _text(device / "product_name").strip() or f"AMD GPU {card.name}"
    return Gpu(name, total, max(total - used, 0), _text(device / "unique_id").strip(), Vendor.AMD)


def _intel_card(card: Path, device: Path) -> Gpu | None:
    """Discrete cards only; an integrated one has no memory of its own."""
    tiles = [_number(path) or 0 for path in sorted(device.glob("tile[0-9]*/physical_vram_size_bytes"))]
    total = sum(tiles) or _first_number(card, "lmem_total_bytes") or _first_number(device, "lmem_total_bytes")
    if not total:
        return None
    free = _first_number(card, "lmem_avail_bytes") or _first_number(device, "lmem_avail_bytes") or total
    return Gpu(f"Intel GPU {card.name}", total, min(free, total), vendor=Vendor.INTEL)


# -- Apple -----------------------------------------------------------------------------------------------------


def _apple(total: int, available: int, timeout_s: float) -> Sequence[Gpu]:
    if platform.machine() != "arm64":
        return ()
    name = (_run(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], timeout_s) or "").strip()
    wired = (_run(["/usr/sbin/sysctl", "-n", "iogpu.wired_limit_mb"], timeout_s) or "").strip()
    return (apple_gpu(name, total, available, int(wired) if wired.isdigit() else 0),)


def apple_gpu(name: str, total: int, available: int, wired_limit_mb: int) -> Gpu:
    """Return the part of unified memory that Metal lets a process wire.

    The system's default is two thirds of the memory up to 36 GiB and three quarters above;
    ``iogpu.wired_limit_mb`` overrides it.

    Args:
        name: the chip.
        total: host memory in bytes.
        available: the part that is free.
        wired_limit_mb: the override in MiB, 0 for none.
    """
    share = total * 2 // 3 if total <= _SMALL_MAC_BYTES else total * 3 // 4
    limit = min(wired_limit_mb * _MIB, total) if wired_limit_mb else share
    return Gpu(name or "Apple GPU", limit, min(limit, available), vendor=Vendor.APPLE, device="MTL0", unified=True)


# -- reading with a deadline -----------------------------------------------------------------------------------


def _within(timeout_s: float, read: Callable[[], Sequence[Gpu]]) -> Sequence[Gpu]:
    """Run a call that may hang in a driver. A hanging thread is left behind: nothing can end it.

    Raises:
        TimeoutError: no answer in time.
    """
    answer: list[Sequence[Gpu]] = []
    failure: list[Exception] = []

    def work() -> None:
        try:
            answer.append(read())
        except (ImportError, OSError, RuntimeError) as error:
            failure.append(error)

    thread = threading.Thread(target=work, name="blazar-probe", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if failure:
        raise failure[0]
    if not answer:
        raise TimeoutError
    return answer[0]


def _run(command: Sequence[str], timeout_s: float) -> str | None:
    """Standard output of a program that succeeded in time, else None."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, timeout=timeout_s, check=True, stdin=subprocess.DEVNULL)
        return done.stdout.decode(errors="replace")
    return None


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def _number(path: Path) -> int | None:
    """A file with one number; None for "max", nonsense, or no such file."""
    content = _text(path).strip()
    return int(content) if content.isdigit() else None


def _decoded(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
